"""thinc layers over Docs: segments, the wrapped biLM, the listener and the scalar mix."""

from .scalar_mix import LayerWeights, layer_weights

__all__ = ["LayerWeights", "layer_weights"]
