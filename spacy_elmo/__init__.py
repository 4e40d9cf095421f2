"""ELMo for spaCy: contextual word vectors from bidirectional language models."""

from .about import __version__
from .bilm import BiLM, BiLMConfig

__all__ = ["BiLM", "BiLMConfig", "__version__"]
