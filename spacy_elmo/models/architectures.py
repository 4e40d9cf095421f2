"""The registered architectures: what a config can say."""

from typing import List, Optional

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Floats2d, Floats3d

from ..bilm import BATCH_TOKENS, InitialState
from ..bilm.bilm import INITIAL_STATES
from ..bilm.precision import PRECISIONS, Precision
from ..bilm.word_cache import MAX_WORDS
from ..pretrained import DEFAULT
from .devices import check_device
from .elmo import ElmoSettings, build_elmo, settings_of
from .encoder import SourceT, build_encoder, lazy_bilm
from .layer_store import LayerStore
from .listener import build_listener
from .scalar_mix import build_scalar_mix_v1
from .segments import build_sentences_v1
from .types import ElmoModelT, ScalarMixModelT, SegmenterT, Tok2VecModelT


def build_elmo_v1(
    *,
    source: Optional[SourceT] = DEFAULT,
    width: Optional[int] = None,
    segments: Optional[SegmenterT] = None,
    initial_state: InitialState = "warm",
    batch_tokens: int = BATCH_TOKENS,
    layer_store: Optional[LayerStore] = None,
    precision: Precision = "float32",
    device: str = "auto",
    cached_words: int = MAX_WORDS,
) -> ElmoModelT:
    """Registered as ``spacy-elmo.Elmo.v1``: the model of the ``elmo`` component, Docs to layers.

    source (Optional[Union[str, Dict[str, Any]]]): Where the biLM comes from when it is first
        needed: the name of a bundled model; the path of weights in any supported format
        (relative paths from the working directory); the sizes of a biLM with random weights (the
        fields of ``spacy_elmo.BiLMConfig``); or None, where ``initialize`` gives one. A saved
        pipeline holds its weights and never looks at it again.
    width (Optional[int]): The width of the vectors, 2 x projection_dim, for other blocks of a
        config to refer to; checked where it is given.
    segments (Optional[Callable]): Cuts Docs into what the biLM reads in one go; by default
        ``spacy-elmo.sentences.v1``.
    initial_state (str): What the LSTMs remember before a segment: "warm" or "zero", see
        ``BiLM.embed``.
    batch_tokens (int): Positions (tokens and sentence marks) that run in one sub-batch. It bounds
        memory and changes no result.
    layer_store (Optional[LayerStore]): Keeps the layers of a frozen biLM while components train
        on them, ``spacy-elmo.MemoryStore.v1`` or ``spacy-elmo.DiskStore.v1``. None: they are
        computed in every epoch.
    precision (str): "float32", or "bfloat16" for the LSTMs' products where nothing is trained:
        faster on CPUs and GPUs that have such products, and not quite the same vectors.
    device (str): Where the biLM computes: "auto" (where spaCy does), "cpu", "cuda", "cuda:N" or
        "mps". Without CuPy, vectors come back to the CPU.
    cached_words (int): Words whose context-free vectors are kept, 0 for none.
    RETURNS (Model[List[Doc], List[Floats3d]]): Layers, (n_layers + 1, n_tokens, width) a Doc.
    RAISES (ValueError): A value is out of its range.
    """
    if initial_state not in INITIAL_STATES or initial_state == "carry":
        raise ValueError(
            f"[components.elmo.model] initial_state is {initial_state!r}; expected 'warm' or "
            "'zero' (a state carried from Doc to Doc would make vectors depend on their order)."
        )
    if batch_tokens < 1:
        raise ValueError(
            f"[components.elmo.model] batch_tokens is {batch_tokens}; expected 1 or more."
        )
    if precision not in PRECISIONS:
        raise ValueError(
            f"[components.elmo.model] precision is {precision!r}; expected 'float32' or 'bfloat16'."
        )
    check_device(device)
    if cached_words < 0:
        raise ValueError(
            f"[components.elmo.model] cached_words is {cached_words}; expected 0 (none) or more."
        )
    settings = ElmoSettings(
        segments or build_sentences_v1(),
        initial_state,
        batch_tokens,
        precision,
        device,
        cached_words,
        layer_store=layer_store,
    )
    return build_elmo(build_encoder(source, width), settings)


def build_elmo_listener_v1(
    *, width: int, upstream: str = "*", mix: Optional[ScalarMixModelT] = None
) -> Tok2VecModelT:
    """Registered as ``spacy-elmo.ElmoListener.v1``: a ``tok2vec`` layer that gets the layers of an
    ``elmo`` component and mixes them by weights of its own.

    width (int): The width of the vectors, as the ``elmo`` component has it.
    upstream (str): The name of the ``elmo`` component, or "*" for the nearest one before.
    mix (Optional[Model]): The mix, by default a learned ``spacy-elmo.ScalarMix.v1``.
    RETURNS (Model[List[Doc], List[Floats2d]]): Mixed vectors, (n_tokens, width) a Doc.
    """
    return _mixed(build_listener(width, upstream), mix, width)


def build_mixed_elmo_v1(
    *, elmo: ElmoModelT, mix: Optional[ScalarMixModelT] = None, frozen: bool = True
) -> Tok2VecModelT:
    """Registered as ``spacy-elmo.MixedElmo.v1``: a ``tok2vec`` layer with a biLM of its own, for
    a component that listens to no other. ``Language.replace_listeners`` makes it.

    elmo (Model[List[Doc], List[Floats3d]]): The biLM, ``spacy-elmo.Elmo.v1``.
    mix (Optional[Model]): The mix, by default a learned ``spacy-elmo.ScalarMix.v1``.
    frozen (bool): Only the mix learns, the biLM stays bit-equal.
    RETURNS (Model[List[Doc], List[Floats2d]]): Mixed vectors, (n_tokens, width) a Doc.
    """
    settings_of(elmo).frozen = frozen
    return _mixed(elmo, mix, lazy_bilm(elmo.layers[0]).width)


def _mixed(
    layers: Model[List[Doc], List[Floats3d]], mix: Optional[ScalarMixModelT], width: Optional[int]
) -> Tok2VecModelT:
    mix = mix or build_scalar_mix_v1()
    if width is not None:
        mix.set_dim("nO", width)
    model: Model[List[Doc], List[Floats2d]] = chain(layers, mix)
    return model
