"""The thinc layer from Docs to the biLM's layers: segments in, rows of every token out."""

from dataclasses import dataclass, field
from typing import Any, Callable, List, Optional, Sequence, Tuple

from spacy.tokens import Doc
from thinc.api import Model, NumpyOps
from thinc.types import Floats3d

from ..bilm import BiLM, InitialState
from ..bilm.precision import Precision
from ..bilm.word_cache import MAX_WORDS
from .devices import find_device, move_to
from .encoder import EncoderModelT, lazy_bilm
from .layer_store import LayerStore
from .replacing import StandIns, replace_listener
from .segments import find_segments
from .stored_layers import read_or_compute
from .types import ConstantLayers, ElmoModelT, LayersT, SegmenterT


@dataclass
class ElmoSettings:
    """What may change without changing the weights. It is no part of a saved model: msgpack
    cannot say it, so the config is always right.

    :param segments: cuts Docs into segments.
    :param initial_state: what the LSTMs remember before a segment.
    :param batch_tokens: positions that run in one sub-batch.
    :param precision: of the LSTMs' products where nothing is trained.
    :param device: where the biLM computes, see :func:`find_device`.
    :param cached_words: words whose context-free vectors are kept, 0 for none.
    :param frozen: the biLM gives layers, takes no gradient and stays bit-equal.
    :param layer_store: keeps layers while components train on a frozen biLM.
    :param stand_ins: configs of what takes the places of its listeners.
    """

    segments: SegmenterT
    initial_state: InitialState
    batch_tokens: int
    precision: Precision = "float32"
    device: str = "auto"
    cached_words: int = MAX_WORDS
    frozen: bool = True
    layer_store: Optional[LayerStore] = None
    stand_ins: StandIns = field(default_factory=StandIns)


def build_elmo(encoder: EncoderModelT, settings: ElmoSettings) -> ElmoModelT:
    """Docs to layers, *Shape:* (n_layers + 1, n_tokens, width) a Doc, zeros for whitespace."""
    attrs = {
        "elmo_settings": settings,
        "replace_listener": replace_listener,
        "replace_listener_cfg": settings.stand_ins.add,
    }
    return Model("elmo", forward, init=init, layers=[encoder], dims={"nO": None}, attrs=attrs)


def settings_of(model: ElmoModelT) -> ElmoSettings:
    """The settings of an elmo model."""
    return model.attrs["elmo_settings"]


def bilm_of(model: ElmoModelT) -> BiLM:
    """The biLM of an elmo model, loaded, on its device and warmed up."""
    settings = settings_of(model)
    device = find_device(settings.device)
    bilm = lazy_bilm(model.layers[0]).get()
    move_to(bilm, device)
    bilm.word_cache.max_words = settings.cached_words
    if settings.initial_state == "warm":
        bilm.warm_up()
    if model.has_dim("nO") is None:
        model.set_dim("nO", bilm.width)
    return bilm


def embed_docs(
    model: ElmoModelT, docs: Sequence[Doc], layer_weights: Optional[Sequence[float]] = None
) -> List[Any]:
    """Layers of Docs without gradients, or their weighted sums.

    model (Model): The elmo model.
    docs (Sequence[Doc]): The Docs.
    layer_weights (Optional[Sequence[float]]): A weight a layer.
    RETURNS (List[Union[Floats2d, Floats3d]]): An array of its own a Doc,
        (n_layers + 1, n_tokens, width), or (n_tokens, width) with weights. Whitespace tokens have
        zeros.
    """
    settings = settings_of(model)
    store = settings.layer_store
    if store is not None and store.is_open and layer_weights is None:
        return _with_store(model, store, docs, store.begin_prediction(), may_share=False)
    bilm = bilm_of(model)
    n_layers = () if layer_weights is not None else (bilm.config.mixture_size,)
    outputs: List[Any] = [model.ops.alloc((*n_layers, len(doc), bilm.width)) for doc in docs]
    segments = find_segments(settings.segments, docs)
    for number, array in bilm.iter_embed(
        [segment.words for segment in segments],
        initial_state=settings.initial_state,
        batch_tokens=settings.batch_tokens,
        precision=settings.precision,
        layer_weights=layer_weights,
    ):
        segment = segments[number]
        outputs[segment.number][..., segment.rows, :] = model.ops.xp.asarray(array)
    return outputs


def keep_annotated(model: ElmoModelT) -> None:
    """Tell a model that components train on layers that it predicts, so that they are worth
    keeping.

    model (Model): The elmo model.
    """
    store = settings_of(model).layer_store
    if store is not None:
        store.begin_training_pass(is_annotated=True)


def _layers_to_train_on(model: ElmoModelT, docs: Sequence[Doc]) -> LayersT:
    """Layers of Docs without gradients, which must not be written to."""
    store = settings_of(model).layer_store
    if store is None:
        return ConstantLayers(embed_docs(model, docs))
    store.begin_training_pass()
    return ConstantLayers(_with_store(model, store, docs, is_training=True, may_share=True))


def _with_store(
    model: ElmoModelT, store: LayerStore, docs: Sequence[Doc], is_training: bool, may_share: bool
) -> List[Any]:
    """Layers of Docs, in arrays of their own unless they may share the store's."""
    bilm, settings = bilm_of(model), settings_of(model)
    segments = find_segments(settings.segments, docs)
    arrays = read_or_compute(
        store,
        bilm,
        segments,
        initial_state=settings.initial_state,
        batch_tokens=settings.batch_tokens,
        is_training=is_training,
    )
    xp = model.ops.xp
    shape = (bilm.config.mixture_size, bilm.width)
    outputs: List[Any] = [None] * len(docs)
    for segment, array in zip(segments, arrays):
        n_tokens = len(segment.doc)
        if may_share and segment.rows == slice(0, n_tokens):
            outputs[segment.number] = xp.asarray(array)
            continue
        if outputs[segment.number] is None:
            outputs[segment.number] = model.ops.alloc3f(shape[0], n_tokens, shape[1])
        outputs[segment.number][:, segment.rows] = xp.asarray(array)
    for number, (doc, output) in enumerate(zip(docs, outputs)):
        if output is None:
            outputs[number] = model.ops.alloc3f(shape[0], len(doc), shape[1])
    return outputs


def init(model: ElmoModelT, X: Any = None, Y: Any = None) -> None:
    bilm_of(model)


def forward(
    model: ElmoModelT, docs: List[Doc], is_train: bool
) -> Tuple[List[Floats3d], Callable[[List[Floats3d]], List]]:
    settings = settings_of(model)
    if not is_train:
        return embed_docs(model, docs), _no_backprop
    if settings.frozen:
        # A gradient of zeros, left from a time before freezing, would still let the optimizer's
        # weight decay move the weights. No gradient cannot.
        bilm_of(model).zero_grad(set_to_none=True)
        return _layers_to_train_on(model, docs), _no_backprop
    if settings.layer_store is not None:
        settings.layer_store.close()
    bilm = bilm_of(model)
    if bilm.device.type != "cpu" and isinstance(model.ops, NumpyOps):
        raise ValueError(
            f"frozen is false and the biLM is on {bilm.device}, where spaCy has no optimizer "
            "without CuPy. Install spacy[cuda12x] and call spacy.require_gpu(), or set "
            "[components.elmo.model] device = 'cpu'."
        )
    outputs = [model.ops.alloc3f(bilm.config.mixture_size, len(doc), bilm.width) for doc in docs]
    segments = find_segments(settings.segments, docs)
    if not segments:
        return outputs, _no_backprop
    words = [segment.words for segment in segments]
    layers, backprop_encoder = model.layers[0](
        (words, settings.initial_state, settings.batch_tokens), is_train
    )
    for array, segment in zip(layers, segments):
        outputs[segment.number][:, segment.rows] = array

    def backprop(d_outputs: List[Floats3d]) -> List:
        return backprop_encoder(
            [model.ops.as_contig(d_outputs[s.number][:, s.rows]) for s in segments]
        )

    return outputs, backprop


def _no_backprop(d_outputs: List[Floats3d]) -> List:
    return []
