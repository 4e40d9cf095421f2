"""ELMo beside other token vectors: what ``spacy-elmo.Tok2VecElmo.v1`` computes and learns."""

import numpy
import pytest
import spacy
from spacy import registry
from thinc.api import Adam, Config, Model, NumpyOps, fix_random_seed, use_ops

from spacy_elmo.models import layer_weights

from ..conftest import TOY_SIZES

WIDTH = 2 * TOY_SIZES["projection_dim"]
ELMO = {"@architectures": "spacy-elmo.Elmo.v1", "source": {**TOY_SIZES, "dropout": 0.0}}
EMBED = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 10,
    "attrs": ["NORM", "SHAPE"],
    "rows": [50, 20],
    "include_static_vectors": False,
}
WINDOW = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "window_size": 1,
    "maxout_pieces": 2,
    "depth": 1,
}
LSTM = {"@architectures": "spacy.TorchBiLSTMEncoder.v1", "width": 14, "depth": 1, "dropout": 0.0}
NOTHING = {"@layers": "noop.v1", "*": {}}


def build(**settings) -> Model:
    block = {
        "@architectures": "spacy-elmo.Tok2VecElmo.v1",
        "width": WIDTH,
        "embed": EMBED,
        "encode": {**WINDOW, "width": 14},
        "elmo": ELMO,
        **settings,
    }
    return resolve(block)


def resolve(block) -> Model:
    fix_random_seed(0)
    return registry.resolve(Config({"model": block}))["model"]


pytestmark = pytest.mark.filterwarnings("ignore:The elmo component has random weights")


@pytest.fixture(scope="module")
def docs():
    nlp = spacy.blank("en")
    texts = ["Two birds sang .", "", " ", "I deposited it at the bank of the river ."]
    return [nlp(text) for text in texts]


def initialized(model, docs) -> Model:
    fix_random_seed(1)
    return model.initialize(X=docs)


def part(model, name) -> Model:
    return next(node for node in model.walk() if node.name == name)


def moved_mixes(model):
    """Mixes away from the average, so that a mistake in the weights shows."""
    for number, node in enumerate(n for n in model.walk() if n.name == "scalar_mix"):
        node.set_param("scalar_parameters", numpy.asarray([0.1, -0.2, 0.05 * number], "f"))
        node.set_param("gamma_offset", numpy.asarray([0.03], "f"))


@pytest.mark.parametrize("join, expected", [("input", 14), ("output", 14 + WIDTH), ("both", 38)])
@pytest.mark.parametrize("encode", [{**WINDOW, "width": 14}, LSTM])
def test_the_width_is_known_before_any_data(docs, join, expected, encode):
    # Only an input that ELMo is joined to is brought to the encoder's width.
    embed = {**EMBED, "width": 14} if join == "output" else EMBED
    model = build(join=join, encode=encode, embed=embed)
    assert model.get_dim("nO") == expected
    for doc, vectors in zip(docs, initialized(model, docs).predict(docs)):
        assert vectors.shape == (len(doc), expected) and numpy.isfinite(vectors).all()
    assert len(layer_weights(model)) == (2 if join == "both" else 1)


def test_without_an_encoder_the_width_is_found_from_data(docs):
    model = build(encode=NOTHING, project_input=False)
    assert model.has_dim("nO") is None
    assert initialized(model, docs).get_dim("nO") == 10 + WIDTH


def test_input_and_output_are_joined_to_their_own_mixes_of_the_same_layers(docs):
    model = initialized(build(encode=NOTHING, project_input=False, join="both"), docs)
    moved_mixes(model)
    layers, words = part(model, "elmo").predict(docs), model.layers[1].predict(docs)
    first, second = layer_weights(model)
    assert first != second
    for doc_layers, x, vectors in zip(layers, words, model.predict(docs)):
        for mix, begin in ((first, 10), (second, 10 + WIDTH)):
            expected = mix.gamma * numpy.tensordot(mix.weights, doc_layers, axes=(0, 0))
            assert numpy.allclose(vectors[:, begin : begin + WIDTH], expected, atol=1e-5)
        assert numpy.array_equal(vectors[:, :10], x)


def composed(frozen):
    """``[x; ELMo]`` at the input, of spaCy's and thinc's own parts."""
    return resolve(
        {
            "@architectures": "spacy.Tok2Vec.v2",
            "embed": {
                "@layers": "concatenate.v1",
                "*": {
                    "words": EMBED,
                    "elmo": {
                        "@architectures": "spacy-elmo.MixedElmo.v1",
                        "elmo": ELMO,
                        "frozen": frozen,
                    },
                },
            },
            "encode": {**WINDOW, "width": 10 + WIDTH},
        }
    )


@pytest.mark.parametrize("frozen", [True, False])
def test_unprojected_it_learns_like_a_composition_of_other_layers(docs, frozen):
    other = initialized(composed(frozen), docs)
    encode = {**WINDOW, "width": 10 + WIDTH}
    model = initialized(build(encode=encode, project_input=False, frozen=frozen), docs)
    assert sorted(p.shape for p in arrays(model)) == sorted(p.shape for p in arrays(other))
    module = begin_alike(model, other)
    start = {name: value.clone() for name, value in module.state_dict().items()}
    assert_learn_alike(model, other, docs)
    changed = [name for name, value in module.state_dict().items() if (value != start[name]).any()]
    assert bool(changed) != frozen


def begin_alike(model, other):
    """Give a model the parameters of another; its biLM."""
    for mine, theirs in zip(arrays(model), arrays(other)):
        mine[...] = theirs
    module, twin = (part(m, "elmo_encoder").shims[0]._model.bilm for m in (model, other))
    module.load_state_dict(twin.state_dict())
    return module


def assert_learn_alike(model, other, docs):
    optimizers = Adam(0.01), Adam(0.01)
    for _ in range(3):
        outputs = []
        for each, optimizer in zip((model, other), optimizers):
            Y, backprop = each.begin_update(docs)
            backprop([y - 1 for y in Y])
            each.finish_update(optimizer)
            outputs.append(Y)
        for mine, theirs in zip(*outputs):
            assert numpy.allclose(mine, theirs, atol=1e-4)


def by_numpy(model):
    """The nodes whose products numpy makes."""
    return [
        node for node in model.walk() if isinstance(node.ops, NumpyOps) and not node.ops.use_blis
    ]


def test_the_projection_learns_the_same_by_numpy_as_by_blis(docs):
    with use_ops("numpy"):  # not Apple's, which has products of its own
        model, other = build(), build()
    initialized(model, docs), initialized(other, docs)
    begin_alike(model, other)
    width = 10 + WIDTH
    assert [node.get_dim("nI") for node in by_numpy(model) if node.name == "maxout"] == [width]
    for node in by_numpy(other):
        node.ops = NumpyOps()
    assert_learn_alike(model, other, docs)


def arrays(model):
    """All arrays of thinc parameters: words, then encoder, then mix, in a model of either kind."""
    kinds = ("hashembed", "maxout", "layernorm", "scalar_mix")
    for kind in kinds:
        for node in model.walk():
            if kind in node.name and not node.layers:
                yield from (node.get_param(name) for name in sorted(node.param_names))


# Static vectors


@pytest.fixture
def docs_with_vectors():
    nlp = spacy.blank("en")
    for number, word in enumerate(["Two", "birds", "river"]):
        nlp.vocab.set_vector(word, numpy.full(5, number + 1, dtype="f"))
    return [nlp(text) for text in ["Two birds sang .", "", "the river"]]


@pytest.mark.parametrize(
    "embed",
    [
        {**EMBED, "include_static_vectors": True},
        {"@layers": "spacy.StaticVectors.v2", "nO": 10},
        {
            "@architectures": "spacy.CharacterEmbed.v2",
            "width": 10,
            "rows": 30,
            "nM": 3,
            "nC": 4,
            "include_static_vectors": True,
        },
    ],
    ids=["hash", "static", "characters"],
)
def test_static_vectors_join_in_the_same_way(docs_with_vectors, embed):
    docs = docs_with_vectors
    model = initialized(build(embed=embed, join="both"), docs)
    before = [vectors.copy() for vectors in model.predict(docs)]
    static = part(model, "static_vectors").get_param("W").copy()
    Y, backprop = model.begin_update(docs)
    backprop([numpy.ones_like(y) for y in Y])
    model.finish_update(Adam(0.01))
    assert not numpy.array_equal(part(model, "static_vectors").get_param("W"), static)
    docs[0].vocab.set_vector("birds", numpy.full(5, 9.0, dtype="f"))
    after = model.predict(docs)
    assert not numpy.allclose(after[0][1], before[0][1])
    # No Doc of a batch has a token, which StaticVectors gives no lengths for.
    empty = [docs[1], docs[1]]
    Y, backprop = model.begin_update(empty)
    assert [y.shape for y in Y] == [(0, 14 + WIDTH)] * 2
    backprop(Y)


# What is refused


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"join": "inside"}, "inside"),
        ({"output_mix": {"@architectures": "spacy-elmo.ScalarMix.v1"}}, "'output_mix' is set"),
        ({"encode": NOTHING}, "does not tell its width.*project_input = false"),
    ],
)
def test_settings_that_cannot_be_are_named(settings, match):
    with pytest.raises(ValueError, match=match):
        build(**settings)


def test_an_unprojected_encoder_of_another_width_is_named(docs):
    model = build(encode={**WINDOW, "width": 14}, project_input=False)
    with pytest.raises(ValueError, match=rf"set encode.width = {10 + WIDTH}, or project_input"):
        initialized(model, docs)
