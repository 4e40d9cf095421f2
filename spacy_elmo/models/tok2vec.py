"""ELMo beside other token vectors: ``[x; ELMo]`` goes into an encoder, ``[h; ELMo]`` comes out of
it, or both (Peters et al. 2018, section 3.3)."""

from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple, cast

from spacy.tokens import Doc
from thinc.api import Maxout, Model, NumpyOps, chain, with_array
from thinc.types import Floats2d, Floats3d, Ragged

from .types import EncodeModelT, LayersT, ScalarMixModelT, Tok2VecModelT

#: Pieces of the maxout layer that brings the joined vectors to the encoder's width.
MAXOUT_PIECES = 3


@dataclass(frozen=True)
class JoinSettings:
    """Where ELMo is joined. No part of a saved model, see ``ElmoSettings``."""

    at_input: bool
    at_output: bool


def build_tok2vec_elmo(
    layers: Model[List[Doc], List[Floats3d]],
    embed: Model[List[Doc], Any],
    encode: EncodeModelT,
    *,
    input_mix: Optional[ScalarMixModelT],
    output_mix: Optional[ScalarMixModelT],
) -> Tok2VecModelT:
    """Token vectors that are joined to mixes of one biLM's layers and encoded. Both mixes read the
    same layers, so that a biLM of the component's own is there, and runs, once.

    layers (Model[List[Doc], List[Floats3d]]): A listener or a biLM.
    embed (Model[List[Doc], Union[List[Floats2d], Ragged]]): Docs to token vectors ``x``.
    encode (Model[List[Floats2d], List[Floats2d]]): Vectors to encoded vectors ``h``.
    input_mix (Optional[Model]): The mix that is joined to ``x``; None to encode ``x`` alone.
    output_mix (Optional[Model]): The mix that is joined to ``h``; None to give ``h`` alone.
    RETURNS (Model[List[Doc], List[Floats2d]]): The composed layer.
    """
    width = encode.get_dim("nO") if encode.has_dim("nO") else None
    if output_mix is not None and width is not None:
        width += output_mix.get_dim("nO")
    settings = JoinSettings(input_mix is not None, output_mix is not None)
    mixes = [mix for mix in (input_mix, output_mix) if mix is not None]
    model: Tok2VecModelT = Model(
        "tok2vec_elmo",
        forward,
        init=init,
        layers=[layers, embed, encode, *mixes],
        dims={"nO": width},
        attrs={"join_settings": settings},
    )
    return model


def project_to_width(encode: EncodeModelT) -> EncodeModelT:
    """An encoder with a maxout layer before it, which takes vectors of any width.

    encode (Model[List[Floats2d], List[Floats2d]]): The encoder.
    RETURNS (Model[List[Floats2d], List[Floats2d]]): Both.
    RAISES (ValueError): The encoder does not tell its width.
    """
    if not encode.has_dim("nO"):
        raise ValueError(
            f"'project_input' is true, but the encoder {encode.name!r} does not tell its width, so "
            "that [x; ELMo] cannot be brought to it. Set project_input = false in the "
            "spacy-elmo.Tok2VecElmo.v1 block: the encoder then gets both widths together."
        )
    width = encode.get_dim("nO")
    maxout = Maxout(width, nP=MAXOUT_PIECES, normalize=True, dropout=0.0)
    for node in maxout.walk():
        if type(node.ops) is NumpyOps:
            # A large product, with vectors of ELMo. numpy's BLAS has kernels for CPUs for which
            # blis, thinc's default, has none (AMD's Zen 4), and uses all cores.
            node.ops = NumpyOps(use_blis=False)
    return chain(with_array(maxout), encode)


def init(
    model: Tok2VecModelT, X: Optional[List[Doc]] = None, Y: Optional[List[Floats2d]] = None
) -> None:
    layers, embed, encode, input_mix, output_mix = _parts(model)
    if X is None:
        for part in model.layers:
            part.initialize()
        return
    vectors = _initialized(embed, X)
    mixed = _initialized(layers, X)
    encoder_input = _as_list(model, vectors, X)
    if input_mix is not None:
        encoder_input = _join(model, encoder_input, _initialized(input_mix, mixed))
    try:
        joined = _initialized(encode, encoder_input)
    except ValueError as error:
        width = encoder_input[0].shape[1]
        raise ValueError(
            f"The encoder {encode.name!r} cannot take vectors of width {width}, those of the "
            f"embedding joined to ELMo's ({error}). In the spacy-elmo.Tok2VecElmo.v1 block, set "
            f"encode.width = {width}, or project_input = true."
        ) from error
    if output_mix is not None:
        joined = _join(model, joined, _initialized(output_mix, mixed))
    if model.has_dim("nO") is None:
        model.set_dim("nO", joined[0].shape[1])


def forward(
    model: Tok2VecModelT, docs: List[Doc], is_train: bool
) -> Tuple[List[Floats2d], Callable[[List[Floats2d]], List]]:
    layers, embed, encode, input_mix, output_mix = _parts(model)
    all_layers, backprop_layers = layers(docs, is_train)
    if not any(len(doc) for doc in docs):
        # spaCy's layers for static vectors fail on such a batch.
        output = [model.ops.alloc2f(0, model.get_dim("nO")) for _ in docs]
        return output, lambda d_output: backprop_layers(
            [model.ops.alloc3f(*array.shape) for array in all_layers]
        )
    vectors, backprop_embed = embed(docs, is_train)
    encoder_input = x = _as_list(model, vectors, docs)
    if input_mix is not None:
        elmo, backprop_input_mix = input_mix(all_layers, is_train)
        encoder_input = _join(model, x, elmo)
    output, backprop_encode = encode(encoder_input, is_train)
    n_encoded = output[0].shape[1] if output else 0
    if output_mix is not None:
        elmo, backprop_output_mix = output_mix(all_layers, is_train)
        output = _join(model, output, elmo)

    def backprop(d_output: List[Floats2d]) -> List:
        d_layers: LayersT = []
        if output_mix is not None:
            d_output, d_elmo = _split(model, d_output, n_encoded)
            d_layers = backprop_output_mix(d_elmo)
        d_x = backprop_encode(d_output)
        if input_mix is not None:
            d_x, d_elmo = _split(model, d_x, x[0].shape[1])
            d_input_layers = backprop_input_mix(d_elmo)
            for i, gradient in enumerate(d_input_layers):
                d_input_layers[i] = gradient + d_layers[i] if d_layers else gradient
            d_layers = d_input_layers
        if isinstance(vectors, Ragged):
            backprop_embed(Ragged(model.ops.flatten(d_x), vectors.lengths))
        else:
            backprop_embed(d_x)
        return backprop_layers(d_layers)

    return output, backprop


def _parts(model: Tok2VecModelT) -> Tuple[Any, Any, Any, Any, Any]:
    """The listener or biLM, embed, encode, and the mixes at input and output."""
    settings: JoinSettings = model.attrs["join_settings"]
    layers, embed, encode, *mixes = model.layers
    return (
        layers,
        embed,
        encode,
        mixes[0] if settings.at_input else None,
        mixes[-1] if settings.at_output else None,
    )


def _initialized(part: Model, X: Any) -> Any:
    """Initialize a part with what it will get, for what the next one will get."""
    return part.initialize(X=X).predict(X)


def _as_list(model: Tok2VecModelT, vectors: Any, docs: List[Doc]) -> List[Floats2d]:
    if not isinstance(vectors, Ragged):
        return vectors
    # The Docs' own lengths: StaticVectors gives none where no Doc has a token.
    lengths = model.ops.asarray1i([len(doc) for doc in docs])
    return cast(List[Floats2d], model.ops.unflatten(vectors.dataXd, lengths))


def _join(model: Tok2VecModelT, left: List[Floats2d], right: List[Floats2d]) -> List[Floats2d]:
    return [model.ops.xp.hstack(pair) for pair in zip(left, right)]


def _split(
    model: Tok2VecModelT, joined: List[Floats2d], width: int
) -> Tuple[List[Floats2d], List[Floats2d]]:
    as_contig = model.ops.as_contig
    left = [as_contig(array[:, :width]) for array in joined]
    return left, [as_contig(array[:, width:]) for array in joined]
