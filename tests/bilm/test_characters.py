"""Words to character ids, against the plain description, and the shortened character axis."""

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.characters import PADDING, encode_words

from .. import oracle

WORDS = [
    "a",
    "bank",
    "<S>",
    "</S>",
    "<UNK>",
    "<pad>",
    "<s>",
    "",
    "\ud800",
    "a\udfffb",
    "a" * 500,
    "é" * 30,
    "a" + "é" * 30,
    "\N{GRINNING FACE}" * 60,
    " ",
    "\n\n",
    "\0",
]


def at_full_length(ids, max_characters):
    padded = numpy.full((len(ids), max_characters), PADDING)
    padded[:, : ids.shape[1]] = ids
    return padded


@pytest.mark.parametrize("max_characters", [3, 4, 10, 25, 50, 600])
@pytest.mark.parametrize("min_padding", [1, 3])
def test_ids_equal_the_oracle(max_characters, min_padding):
    expected = numpy.array([oracle.character_ids(word, max_characters) for word in WORDS])
    ids = encode_words(WORDS, max_characters, min_padding)
    numpy.testing.assert_array_equal(at_full_length(ids, max_characters), expected)
    # One by one the character axis is cut elsewhere.
    for word, row in zip(WORDS, expected):
        ids = encode_words([word], max_characters, min_padding)
        numpy.testing.assert_array_equal(at_full_length(ids, max_characters)[0], row)


@given(
    st.lists(st.text(max_size=12), min_size=1, max_size=5), st.integers(3, 12), st.integers(1, 7)
)
@settings(deadline=None)
def test_ids_of_any_text_equal_the_oracle(words, max_characters, min_padding):
    expected = numpy.array([oracle.character_ids(word, max_characters) for word in words])
    ids = encode_words(words, max_characters, min_padding)
    numpy.testing.assert_array_equal(at_full_length(ids, max_characters), expected)


def test_no_words():
    assert encode_words([], 50, 3).shape[0] == 0


@pytest.mark.parametrize("filters", [[[1, 6]], [[1, 3], [2, 3], [5, 4]]])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("word", WORDS)
def test_cutting_the_character_axis_changes_nothing(make_bilm, filters, activation, word):
    bilm = make_bilm(filters=filters, activation=activation)
    full = numpy.array([oracle.character_ids(word, 50)])
    with torch.no_grad():
        expected = bilm.token_layer(torch.from_numpy(full))
        assert torch.allclose(bilm.encode_words([word]), expected, atol=1e-6)


def test_short_words_are_cut_short():
    # Otherwise the convolutions would do many times the work.
    assert encode_words(["the", "bank"], 50, 7).shape == (2, 4 + 2 + 7)


@pytest.mark.parametrize("empty", ["", "\ud800"])
def test_words_without_bytes_alone(empty):
    # The sentence marks are then the longest words of the batch.
    torch.manual_seed(0)
    bilm = BiLM(BiLMConfig(filters=[[1, 8]], projection_dim=4, cell_size=6)).eval()
    (alone,) = bilm.embed([[empty]])
    together = bilm.embed([[empty], ["longer", "words"]])[0]
    numpy.testing.assert_allclose(alone, together, atol=1e-6)
