"""The scalar mix: one vector a token from the biLM's layers (Peters et al. 2018, equation 1)."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy
from spacy.pipeline import TrainablePipe
from thinc.api import Model, get_array_module
from thinc.types import Floats2d, Floats3d

from ..bilm import BiLM
from .types import ConstantLayers, LayerWeightsT, ScalarMixModelT

LAYER_NORM_EPSILON = 1e-6


@dataclass(frozen=True)
class ScalarMixSettings:
    """What a mix does beside its parameters. No part of a saved model, see ``ElmoSettings``."""

    layer_weights: LayerWeightsT
    dropout: float
    layer_norm: bool
    l2: float
    learn_rate_factor: float

    @property
    def is_learned(self) -> bool:
        return self.layer_weights == "learned"


def build_scalar_mix_v1(
    *,
    layer_weights: LayerWeightsT = "learned",
    dropout: float = 0.0,
    layer_norm: bool = False,
    l2: float = 0.0,
    learn_rate_factor: float = 10.0,
) -> ScalarMixModelT:
    """Registered as ``spacy-elmo.ScalarMix.v1``: ``gamma * sum_j softmax(w)_j * layer_j`` with
    ``w`` (from 0) and ``gamma`` (from 1) learned by the component that owns the mix, or a fixed
    sum of layers.

    layer_weights (Union[str, int, List[float]]): "learned"; or fixed: "average", "top", the number
        of one layer (0 is the token layer), or a weight a layer, used as they are, so that
        [0, 0, 1] is exactly the top layer of three.
    dropout (float): Rate of dropout on the mixed vectors in training. It is the mix's own: the
        training block's dropout does not change it.
    layer_norm (bool): Scale each layer's vector of each token to mean 0 and variance 1 before the
        weighting. (AllenNLP norms over the batch instead, which makes vectors depend on it.)
    l2 (float): Weight of a penalty ``l2 * sum(w ** 2)`` that draws a learned mix to the average.
    learn_rate_factor (float): How much faster than other parameters the mix learns. Adam moves a
        number by about its learning rate a step, whatever the gradient's size, so at spaCy's
        usual 0.001 a mix would stay near the average for thousands of steps. The parameters are
        ``scalar_parameters`` = w / factor and ``gamma_offset`` = (gamma - 1) / factor; weight
        decay thus draws to the average of the layers and not to zero.
    RETURNS (Model[List[Floats3d], List[Floats2d]]): (n_layers + 1, n_tokens, width) to
        (n_tokens, width) a Doc.
    RAISES (ValueError): A value is out of its range.
    """
    if not 0 <= dropout < 1:
        raise ValueError(f"The 'dropout' of the scalar mix is {dropout}; expected 0 up to 1.")
    if l2 < 0:
        raise ValueError(f"The 'l2' of the scalar mix is {l2}; expected 0 or more.")
    if learn_rate_factor <= 0:
        raise ValueError(
            f"The 'learn_rate_factor' of the scalar mix is {learn_rate_factor}; expected more than "
            "0."
        )
    if isinstance(layer_weights, str) and layer_weights not in ("learned", "average", "top"):
        raise ValueError(_layer_weights_message(layer_weights, None))
    settings = ScalarMixSettings(layer_weights, dropout, layer_norm, l2, learn_rate_factor)
    params: Dict[str, Any] = (
        {"scalar_parameters": None, "gamma_offset": None} if settings.is_learned else {}
    )
    return Model(
        "scalar_mix",
        forward,
        init=init,
        params=params,
        dims={"nO": None},
        attrs={"scalar_mix_settings": settings},
    )


def fixed_weights(layer_weights: LayerWeightsT, n_layers: int) -> List[float]:
    """The numbers behind a fixed choice of layers.

    layer_weights (Union[str, int, List[float]]): "average", "top", a layer's number or weights.
    n_layers (int): Layers to weigh, the token layer included.
    RETURNS (List[float]): A weight a layer.
    RAISES (ValueError): The choice does not fit the number of layers.
    """
    top = n_layers - 1
    if layer_weights == "average":
        return [1 / n_layers] * n_layers
    if layer_weights == "top":
        layer_weights = top
    if isinstance(layer_weights, int) and 0 <= layer_weights <= top:
        return [float(layer == layer_weights) for layer in range(n_layers)]
    if isinstance(layer_weights, list) and len(layer_weights) == n_layers:
        return [float(weight) for weight in layer_weights]
    raise ValueError(_layer_weights_message(layer_weights, n_layers))


def stored_weights(bilm: BiLM) -> List[float]:
    """The first mix that came with the weights of a biLM, gamma included: the one that an AllenNLP
    model learned for its input.

    bilm (BiLM): The biLM.
    RETURNS (List[float]): A weight a layer.
    RAISES (ValueError): There is none, or it is one that norms the layers over a whole batch.
    """
    mixes = bilm.metadata.get("scalar_mixes")
    if not mixes:
        raise ValueError(
            "'layer_weights' is 'stored', but no mix came with the weights of the biLM (one comes "
            "with a model of AllenNLP); expected 'average', 'top', the number of a layer, or a "
            "list with a weight a layer."
        )
    if mixes[0]["layer_norm"]:
        raise ValueError(
            "'layer_weights' is 'stored', but the mix that came with the weights of the biLM norms "
            "each layer over a batch, so its vectors depended on the batch; expected 'average', "
            "'top', the number of a layer, or a list with a weight a layer."
        )
    weights = [mixes[0]["gamma"] * weight for weight in mixes[0]["weights"]]
    return fixed_weights(weights, bilm.config.mixture_size)


class LayerWeights(NamedTuple):
    """What a mix makes of the layers: ``gamma * sum_j weights[j] * layer_j``."""

    weights: List[float]
    gamma: float


def layer_weights(component: Union[TrainablePipe, Model]) -> List[LayerWeights]:
    """The learned mixes of a component, as they stand now.

    component (Union[TrainablePipe, Model]): A component with an ElmoListener, or its model.
    RETURNS (List[LayerWeights]): Softmax weights and gamma of each learned mix, in model order.
    """
    model = component if isinstance(component, Model) else component.model
    found: List[LayerWeights] = []
    for node in model.walk():
        if node.name == "scalar_mix" and node.has_param("gamma_offset"):
            scalars, gamma = _learned(node)
            found.append(LayerWeights(_softmax(scalars).tolist(), float(gamma)))
    return found


def init(model: ScalarMixModelT, X: Optional[List[Floats3d]] = None, Y: Any = None) -> None:
    if not X:
        return
    n_layers, _, width = X[0].shape
    model.set_dim("nO", width)
    settings: ScalarMixSettings = model.attrs["scalar_mix_settings"]
    if settings.is_learned:
        model.set_param("scalar_parameters", model.ops.alloc1f(n_layers))
        model.set_param("gamma_offset", model.ops.alloc1f(1))
    else:
        fixed_weights(settings.layer_weights, n_layers)


def forward(
    model: ScalarMixModelT, X: List[Floats3d], is_train: bool
) -> Tuple[List[Floats2d], Callable[[List[Floats2d]], List[Floats3d]]]:
    settings: ScalarMixSettings = model.attrs["scalar_mix_settings"]
    ops, lengths = model.ops, [doc.shape[1] for doc in X]
    if not any(lengths):
        return [ops.alloc2f(0, doc.shape[2]) for doc in X], _zeros_like(X)
    xp = ops.xp
    n_layers, _, width = next(doc.shape for doc in X if doc.shape[1])
    # A Doc without tokens says nothing about the number of layers. [layer, token, width]
    parts: List[Any] = [doc if doc.shape[1] else ops.alloc3f(n_layers, 0, width) for doc in X]
    if xp is not numpy:
        # Copying the layers costs less than a call a Doc on a GPU, and more on a CPU.
        parts = [xp.concatenate(parts, axis=1)]
    backprop_norms: List[Callable[[Any], Any]] = []
    if settings.layer_norm:
        parts, backprop_norms = map(list, zip(*(_layer_norm(xp, part) for part in parts)))
    if settings.is_learned:
        scalars, gamma = _learned(model)
        if len(scalars) != n_layers:
            raise ValueError(
                f"The scalar mix has {len(scalars)} weights, but the biLM gives {n_layers} layers. "
                "Was the component trained with another biLM?"
            )
        weights = _softmax(scalars)
    else:
        weights, gamma = ops.asarray1f(fixed_weights(settings.layer_weights, n_layers)), 1.0
    mixed: Any = xp.empty((sum(lengths), width), dtype=parts[0].dtype)
    rows = _slices([part.shape[1] for part in parts])
    scaled = (gamma * weights).astype(mixed.dtype)
    for part, where in zip(parts, rows):
        xp.dot(scaled, part.reshape(n_layers, -1), out=mixed[where].reshape(-1))
    mask: Any = None
    if is_train and settings.dropout:
        mask = ops.get_dropout_mask(mixed.shape, settings.dropout)
        mixed *= mask

    def backprop(d_mixed_docs: List[Floats2d]) -> List[Floats3d]:
        d_mixed: Any = xp.concatenate(d_mixed_docs)
        if mask is not None:
            d_mixed *= mask
        if settings.is_learned:
            # [n_layers]: how well each layer goes along with the gradient
            along = ops.alloc1f(n_layers)
            for part, where in zip(parts, rows):
                along += part.reshape(n_layers, -1) @ d_mixed[where].reshape(-1)
            d_weights = gamma * along
            d_scalars = weights * (d_weights - (weights * d_weights).sum())
            d_scalars += 2 * settings.l2 * scalars
            factor = settings.learn_rate_factor
            model.inc_grad("scalar_parameters", factor * d_scalars)
            model.inc_grad("gamma_offset", factor * (weights * along).sum().reshape(1))
        if isinstance(X, ConstantLayers):
            return ConstantLayers()
        d_parts = [scaled[:, None, None] * d_mixed[where] for where in rows]
        if settings.layer_norm:
            d_parts = [norm(d_part) for norm, d_part in zip(backprop_norms, d_parts)]
        if len(d_parts) == len(X):
            return d_parts
        return [d_parts[0][:, where] for where in _slices(lengths)]

    return [mixed[where] for where in _slices(lengths)], backprop


def _slices(lengths: List[int]) -> List[slice]:
    ends = [0, *accumulate(lengths)]
    return [slice(*pair) for pair in zip(ends, ends[1:])]


def _learned(model: ScalarMixModelT) -> Tuple[Any, Any]:
    """The scalars ``w`` and ``gamma`` behind the parameters."""
    factor = model.attrs["scalar_mix_settings"].learn_rate_factor
    offset: Any = model.get_param("gamma_offset")
    return factor * model.get_param("scalar_parameters"), 1 + factor * offset[0]


def _softmax(scalars: Any) -> Any:
    xp = get_array_module(scalars)
    exponents = xp.exp(scalars - scalars.max())
    return exponents / exponents.sum()


def _layer_norm(xp: Any, layers: Any) -> Tuple[Any, Callable[[Any], Any]]:
    centred = layers - layers.mean(axis=2, keepdims=True)
    scale = 1 / xp.sqrt((centred**2).mean(axis=2, keepdims=True) + LAYER_NORM_EPSILON)
    normed = centred * scale

    def backprop(d_normed: Any) -> Any:
        mean = d_normed.mean(axis=2, keepdims=True)
        along = (d_normed * normed).mean(axis=2, keepdims=True)
        return scale * (d_normed - mean - normed * along)

    return normed, backprop


def _zeros_like(X: List[Floats3d]) -> Callable[[List[Floats2d]], List[Floats3d]]:
    def backprop(d_mixed: List[Floats2d]) -> List[Floats3d]:
        return [get_array_module(layers).zeros_like(layers) for layers in X]

    return backprop


def _layer_weights_message(layer_weights: LayerWeightsT, n_layers: Optional[int]) -> str:
    learned = "'learned', " if n_layers is None else ""
    expected = f"{learned}'average', 'top', the number of a layer, or a list with a weight a layer"
    has = "" if n_layers is None else f" The biLM has {n_layers} layers, numbered from 0."
    return f"'layer_weights' is {layer_weights!r}; expected {expected}.{has}"
