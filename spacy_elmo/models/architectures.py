"""The registered architectures: what a config can say."""

from typing import Any, List, Literal, Optional

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
from .tok2vec import build_tok2vec_elmo, project_to_width
from .types import ElmoModelT, EncodeModelT, ScalarMixModelT, SegmenterT, Tok2VecModelT


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


def build_tok2vec_elmo_v1(
    *,
    width: int,
    embed: Model[List[Doc], Any],
    encode: EncodeModelT,
    upstream: str = "*",
    join: Literal["input", "output", "both"] = "input",
    input_mix: Optional[ScalarMixModelT] = None,
    output_mix: Optional[ScalarMixModelT] = None,
    project_input: bool = True,
    elmo: Optional[ElmoModelT] = None,
    frozen: bool = True,
) -> Tok2VecModelT:
    """Registered as ``spacy-elmo.Tok2VecElmo.v1``: a ``tok2vec`` layer like ``spacy.Tok2Vec.v2``,
    with ELMo joined to the input of the encoder, ``[x; ELMo]``, to its output, ``[h; ELMo]``, or
    to both, each by a mix of its own.

    width (int): The width of ELMo's vectors, as the ``elmo`` component has it.
    embed (Model[List[Doc], Union[List[Floats2d], Ragged]]): Docs to token vectors ``x``: any
        embedding layer, with or without static vectors, or ``spacy.StaticVectors.v2`` alone.
    encode (Model[List[Floats2d], List[Floats2d]]): Vectors to ``h``: any encoder.
    upstream (str): The name of the ``elmo`` component, or "*" for the nearest one before.
    join (str): Where ELMo is joined: "input", "output" or "both".
    input_mix (Optional[Model]): The mix at the input, by default a learned
        ``spacy-elmo.ScalarMix.v1``.
    output_mix (Optional[Model]): The mix at the output, by default another one.
    project_input (bool): Bring ``[x; ELMo]`` to the encoder's width by a maxout layer. False: the
        encoder gets both widths together.
    elmo (Optional[Model[List[Doc], List[Floats3d]]]): A biLM of the component's own, in place of
        one to listen to, ``spacy-elmo.Elmo.v1``. ``Language.replace_listeners`` sets it.
    frozen (bool): The biLM of the component's own stays bit-equal.
    RETURNS (Model[List[Doc], List[Floats2d]]): Vectors, (n_tokens, nO) a Doc. nO is the encoder's
        width, with ``width`` added where ELMo is joined to the output.
    RAISES (ValueError): A mix is set where nothing is joined, or the encoder does not tell its
        width.
    """
    if join not in ("input", "output", "both"):
        raise ValueError(f"'join' is {join!r}; expected 'input', 'output' or 'both'.")
    mixes = {"input": input_mix, "output": output_mix}
    for place, mix in mixes.items():
        if join in (place, "both"):
            mixes[place] = _sized(mix, width)
        elif mix is not None:
            raise ValueError(
                f"'{place}_mix' is set, but join = {join!r} joins nothing to the {place}. Set join "
                f"= 'both' or '{place}', or {place}_mix = null."
            )
    if elmo is not None:
        settings_of(elmo).frozen = frozen
    if mixes["input"] is not None and project_input:
        encode = project_to_width(encode)
    return build_tok2vec_elmo(
        elmo or build_listener(width, upstream),
        embed,
        encode,
        input_mix=mixes["input"],
        output_mix=mixes["output"],
    )


def _mixed(
    layers: Model[List[Doc], List[Floats3d]], mix: Optional[ScalarMixModelT], width: Optional[int]
) -> Tok2VecModelT:
    model: Model[List[Doc], List[Floats2d]] = chain(layers, _sized(mix, width))
    return model


def _sized(mix: Optional[ScalarMixModelT], width: Optional[int]) -> ScalarMixModelT:
    """A mix, by default a learned one, that tells its width when the model is built."""
    mix = mix or build_scalar_mix_v1()
    if width is not None:
        mix.set_dim("nO", width)
    return mix
