"""What a bilm-tf file gives through us is what the equations give, in every variant
(pitfall 7)."""

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM

from .. import oracle

ATOL = 1e-5

# A change of the options a variant, see oracle.make_options. The filters make 21 values.
VARIANTS = {
    "as usual": {},
    "10 characters": {"max_characters_per_token": 10},
    "25 characters": {"max_characters_per_token": 25},
    "4 characters, as wide as a filter": {"max_characters_per_token": 4},
    "261": {"n_characters": 261},
    "n_characters absent": {"n_characters": ...},
    "no highway": {"n_highway": 0},
    "highway absent": {"n_highway": ...},
    "two highways": {"n_highway": 2},
    "no CNN_proj": {"projection_dim": 21, "dim": 30},
    "no W_P_0": {"dim": 8},
    "neither projection": {"projection_dim": 21, "dim": 21},
    "cell smaller than projection": {"dim": 6},
    "no skip": {"use_skip_connections": False},
    "clips absent": {"cell_clip": ..., "proj_clip": ...},
    "clips 0": {"cell_clip": 0, "proj_clip": 0},
    "clips null": {"cell_clip": None, "proj_clip": None},
    "tight clips": {"cell_clip": 0.5, "proj_clip": 0.25},
    "one layer": {"n_layers": 1},
    "n_layers absent": {"n_layers": ...},
    "three layers": {"n_layers": 3},
    "three layers, no skip": {"n_layers": 3, "use_skip_connections": False},
    "tanh": {"activation": "tanh"},
    "one filter of width 1": {"filters": [[1, 6]]},
    "training keys": {"n_epochs": 10, "dropout": 0.3, "sample_softmax": True, "batch_size": 128},
}

SENTENCES = [
    ["The", "bank", "of", "the", "river"],
    ["<S>", "x", "</S>", "<UNK>", "<pad>", "<s>"],
    ["a" * 500, "\N{GRINNING FACE}" * 60, "\ud800", "", "ab\udfffc"],
    # Cut at 48, 23 or 8 bytes, one of these loses half a character.
    ["é" * 30, "a" + "é" * 30, "語" * 20, "a" + "語" * 20],
    [],
    [""],
    ["\ud800", ""],
    ["</S>"],
    [" ", "\n\n", "\t", "\u3000", "\0"],
]


def make_variant(name, seed=0):
    options = oracle.make_options(**VARIANTS[name])
    return options, oracle.make_datasets(options, seed=seed)


@pytest.mark.parametrize("name", VARIANTS)
def test_vectors_equal_the_oracle(tmp_path, name):
    options, datasets = make_variant(name)
    bilm = BiLM.from_pretrained(oracle.write_files(tmp_path, options, datasets))
    for sentence, layers in zip(SENTENCES, bilm.embed(SENTENCES)):
        expected, _ = oracle.embed_sentence(options, datasets, sentence)
        assert layers.shape == expected.shape
        assert layers.dtype == numpy.float32
        numpy.testing.assert_allclose(layers, expected, atol=ATOL, rtol=0)


def test_weights_of_the_oracle_reach_both_clips():
    # Otherwise the comparison would say nothing about clipping.
    options, datasets = make_variant("no skip")
    layers, state = oracle.embed_sentence(options, datasets, SENTENCES[0])
    cells = numpy.array([cell for direction in state for _, cell in direction])
    assert (numpy.abs(cells) == 3).any()
    assert (numpy.abs(layers[1:]) == 3).any()


@pytest.mark.parametrize("name", ["as usual", "three layers", "one layer", "no skip", "no W_P_0"])
def test_carried_state_equals_the_oracle(tmp_path, name):
    options, datasets = make_variant(name)
    bilm = BiLM.from_pretrained(oracle.write_files(tmp_path, options, datasets))
    sentences = [sentence for sentence in SENTENCES if sentence]
    expected, _ = oracle.embed_stream(options, datasets, sentences)
    for layers, layers_expected in zip(bilm.embed(sentences, initial_state="carry"), expected):
        numpy.testing.assert_allclose(layers, layers_expected, atol=ATOL, rtol=0)
    # The state makes a difference, or the test could not fail.
    alone = bilm.embed(sentences)[-1]
    assert numpy.abs(alone - expected[-1]).max() > 0.01


@pytest.mark.parametrize("name", ["no CNN_proj", "no W_P_0", "neither projection"])
def test_projection_between_equal_sizes_is_used_where_the_file_has_one(tmp_path, name):
    options = oracle.make_options(**VARIANTS[name])
    datasets = oracle.make_datasets(options, always_project=True)
    bilm = BiLM.from_pretrained(oracle.write_files(tmp_path, options, datasets))
    assert bilm.config.token_projection and bilm.config.cell_projection
    expected, _ = oracle.embed_sentence(options, datasets, SENTENCES[0])
    numpy.testing.assert_allclose(bilm.embed(SENTENCES)[0], expected, atol=ATOL, rtol=0)


@pytest.mark.parametrize("path", ["RNN/LSTMCell", "RNN/MultiRNNCell/LSTMCell"])
def test_one_layer_may_lack_its_number(tmp_path, path):
    options, datasets = make_variant("one layer")
    renamed = {
        name.replace("RNN/MultiRNNCell/Cell0/LSTMCell", path): values
        for name, values in datasets.items()
    }
    assert renamed.keys() != datasets.keys()
    bilm = BiLM.from_pretrained(oracle.write_files(tmp_path, options, renamed))
    expected, _ = oracle.embed_sentence(options, datasets, SENTENCES[0])
    numpy.testing.assert_allclose(bilm.embed(SENTENCES)[0], expected, atol=ATOL, rtol=0)


SIZES = st.integers(1, 9)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    filters=st.lists(st.tuples(st.integers(1, 5), SIZES), min_size=1, max_size=4),
    changes=st.fixed_dictionaries(
        {
            "char_dim": SIZES,
            "dim": SIZES,
            "projection_dim": SIZES,
            "n_layers": st.integers(1, 3),
            "n_highway": st.integers(0, 2),
            "max_characters_per_token": st.integers(5, 12),
            "use_skip_connections": st.booleans(),
            "activation": st.sampled_from(["relu", "tanh"]),
            "cell_clip": st.sampled_from([0, 0.5, 3]),
            "proj_clip": st.sampled_from([0, 0.5, 3]),
        }
    ),
    sentence=st.lists(st.text(max_size=15), max_size=4),
)
def test_vectors_of_any_sizes_equal_the_oracle(tmp_path, filters, changes, sentence):
    options = oracle.make_options(filters=[list(pair) for pair in filters], **changes)
    datasets = oracle.make_datasets(options)
    bilm = BiLM.from_pretrained(oracle.write_files(tmp_path, options, datasets))
    expected, _ = oracle.embed_sentence(options, datasets, sentence)
    numpy.testing.assert_allclose(bilm.embed([sentence])[0], expected, atol=ATOL, rtol=1e-5)
