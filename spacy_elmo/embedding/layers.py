"""Which layers of a biLM are written: all of them, or one weighted sum."""

import math
from typing import List, Optional, Sequence, Union

#: ``"all"``, ``"top"``, ``"average"``, the number of a layer, or a weight a layer.
Layers = Union[str, int, Sequence[float]]

NAMES = ("all", "top", "average")


def layer_weights(layers: Layers, n_layers: int) -> Optional[List[float]]:
    """The weights of a sum of layers; none where all layers are written.

    :param layers: ``"all"``, ``"top"``, ``"average"``, a layer's number (0 is the token layer), or
        one weight a layer. The weights are taken as they are, not normalized.
    :param n_layers: layers that there are, the token layer counted.
    :raises ValueError: the biLM has no such layer, or another number of layers; or a weight is NaN
        or infinite.
    """
    if isinstance(layers, str):
        if layers not in NAMES:
            raise ValueError(
                f"layers is {layers!r}; expected {', '.join(map(repr, NAMES))}, the number of a "
                "layer, or a list of weights."
            )
        if layers == "all":
            return None
        if layers == "average":
            return [1 / n_layers] * n_layers
        layers = n_layers - 1
    if isinstance(layers, int):
        if not 0 <= layers < n_layers:
            raise ValueError(
                f"layers is {layers}; expected a number from 0 (the token layer) to "
                f"{n_layers - 1} (the top layer)."
            )
        return [float(number == layers) for number in range(n_layers)]
    weights = [float(weight) for weight in layers]
    if not all(map(math.isfinite, weights)):
        raise ValueError(
            f"The weights of the layers (--mix) are {weights}; expected finite numbers."
        )
    if len(weights) != n_layers:
        raise ValueError(
            f"The weights of the layers are {weights}; this biLM has {n_layers} layers (the token "
            f"layer and {n_layers - 1} LSTM layers), and expects as many numbers."
        )
    return weights


def name_layers(weights: Sequence[float]) -> Layers:
    """What a user gives for such weights, the reverse of :func:`layer_weights`."""
    named: Sequence[Layers] = ("top", "average", *range(len(weights)))
    for layers in named:
        if layer_weights(layers, len(weights)) == weights:
            return layers
    return weights
