"""Token layers with a word table, alone or before characters, and with an LSTM over characters,
against plain forward passes."""

import copy
import pickle

import numpy
import pytest
import torch

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.dictionary import pack, unpack

from .. import manylangs_oracle, oracle
from ..conftest import TOY_SIZES

WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "東京"]
SENTENCE = ["the", "bank", "of", "東京", "", "<UNK>"]
NO_CHARACTERS = {"char_encoder": None, "filters": []}
PARTS = {
    "words": NO_CHARACTERS | {"words": {"dim": 7}},
    "words of the output's size": NO_CHARACTERS | {"words": {"dim": 12}},
    "words and convolutions": {"words": {"dim": 7}},
    "words and LSTM": {"char_encoder": "lstm", "filters": [], "words": {"dim": 7}},
    "LSTM": {"char_encoder": "lstm", "filters": []},
    "LSTM encoder": {"encoder": "lstm"},
}


def make(name, **changes):
    """A biLM with large random weights."""
    torch.manual_seed(0)
    config = BiLMConfig.from_dict({**TOY_SIZES, **PARTS[name], **changes})
    bilm = BiLM(config, words=WORDS if config.words else None).eval()
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.uniform_(-2, 2).mul_(parameter.shape[-1] ** -0.5)
    return bilm


def array(bilm, name):
    return bilm.state_dict()[f"token_layer.{name}"].double().numpy()


def token_vector(bilm, word):
    """The token layer of a word, from its weights alone."""
    config = bilm.config
    parts = []
    if config.words is not None:
        row = WORDS.index(word) if word in WORDS else WORDS.index("<UNK>")
        parts.append(array(bilm, "word_embedding.weight")[row])
    if config.char_encoder == "cnn":
        datasets = {"char_embed": array(bilm, "char_embedding.weight")}
        for n in range(len(config.filters)):
            kernel = array(bilm, f"convolutions.{n}.weight").transpose(2, 1, 0)[None]
            datasets[f"CNN/W_cnn_{n}"] = kernel
            datasets[f"CNN/b_cnn_{n}"] = array(bilm, f"convolutions.{n}.bias")
        for ours, theirs in (("gate", "carry"), ("transform", "transform")):
            datasets[f"CNN_high_0/W_{theirs}"] = array(bilm, f"highways.0.{ours}.weight").T
            datasets[f"CNN_high_0/b_{theirs}"] = array(bilm, f"highways.0.{ours}.bias")
        options = oracle.make_options(filters=config.filters)
        parts.append(oracle.token_vector(options, datasets, word))
    if config.char_encoder == "lstm":
        ids = [i for i in oracle.character_ids(word, 50) if i != oracle.PADDING]
        characters = [array(bilm, "char_embedding.weight")[i] for i in ids]
        tensors = {
            name: values.numpy() for name, values in bilm.token_layer.char_lstm.state_dict().items()
        }
        ahead = manylangs_oracle.plain_lstm(tensors, "", "l0", characters)
        back = manylangs_oracle.plain_lstm(tensors, "", "l0_reverse", characters[::-1])
        parts.append(numpy.concatenate([ahead[-1], back[-1]]))
    x = numpy.concatenate(parts)
    if not config.token_projection:
        return x
    return array(bilm, "projection.weight") @ x + array(bilm, "projection.bias")


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_token_vectors_equal_the_oracle(name, training):
    bilm = make(name, dropout=0.0).train(training)
    words = ["<S>", *SENTENCE, "x" * 70, "</S>"]
    expected = [token_vector(bilm, word) for word in words]
    with torch.set_grad_enabled(training):
        found = bilm.encode_words(words).detach().numpy()
    numpy.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", PARTS)
def test_vectors_do_not_depend_on_what_stands_beside(name):
    bilm = make(name)
    (alone,) = bilm.embed([SENTENCE])
    _, together, _ = bilm.embed([["a" * 40] * 30, SENTENCE, []])
    numpy.testing.assert_allclose(alone, together, atol=1e-5)
    numpy.testing.assert_array_equal(alone[0, :, :12], alone[0, :, 12:])
    assert alone.shape == (bilm.config.mixture_size, len(SENTENCE), 24)
    assert bilm.embed([[]])[0].shape == (bilm.config.mixture_size, 0, 24)


def test_unknown_words_are_one_where_nothing_reads_their_characters():
    for name, are_same in (("words", True), ("words and convolutions", False)):
        vectors = make(name).encode_words(["river", "loan", "<UNK>"])
        assert torch.allclose(vectors[0], vectors[1], atol=1e-6) is are_same
        assert torch.allclose(vectors[0], vectors[2], atol=1e-6) is are_same


@pytest.mark.parametrize("name", PARTS)
def test_gradients_equal_finite_differences(name):
    bilm = make(name, dropout=0.0).double()
    ids = bilm.token_layer.reader.read(["<S>", "the", "loan", "</S>"])
    parameters = [p for n, p in bilm.token_layer.named_parameters()]
    probe = torch.linspace(-1, 1, 4 * 12, dtype=torch.float64).view(4, 12)
    (bilm.token_layer(*ids) * probe).sum().backward()
    for parameter in parameters:
        place = parameter.grad.abs().argmax()
        flat, eps = parameter.data.view(-1), 1e-6
        values = []
        for step in (eps, -2 * eps):
            flat[place] += step
            with torch.no_grad():
                values.append(float((bilm.token_layer(*ids) * probe).sum()))
        flat[place] += eps
        slope = (values[0] - values[1]) / (2 * eps)
        assert slope == pytest.approx(float(parameter.grad.view(-1)[place]), rel=1e-5)


def test_a_frozen_table_has_no_gradient():
    bilm = make("words and convolutions", words={"dim": 7, "frozen": True})
    bilm.encode_words(SENTENCE).sum().backward()
    assert bilm.token_layer.word_embedding.weight.grad is None
    assert bilm.token_layer.projection.weight.grad.abs().sum() > 0
    assert not copy.deepcopy(bilm).token_layer.word_embedding.weight.requires_grad


@pytest.mark.parametrize("name", PARTS)
def test_copies_keep_their_words(name):
    bilm = make(name)
    for again in (copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm))):
        numpy.testing.assert_array_equal(again.embed([SENTENCE])[0], bilm.embed([SENTENCE])[0])


@pytest.mark.parametrize(
    "changes, given, message",
    [
        ({"words": {"dim": 7}}, {}, "'words' stands for a dictionary, which was not given"),
        ({"code_points": 9}, {}, "'code_points' stands for a dictionary, which was not given"),
        ({}, {"words": WORDS}, "A dictionary was given, but the biLM setting 'words' is none"),
        (
            {"words": {"dim": 7, "n_words": 5}},
            {"words": WORDS},
            "of 6 entries .* 'words.n_words' i",
        ),
        (
            {"words": {"dim": 7}},
            {"words": ["a", "b"]},
            r"words \(2 entries\) has no <UNK>; expected",
        ),
        ({"words": {"dim": 7}}, {"words": ["<UNK>", "a", "a"]}, "has 'a' twice, as ids 1 and 2"),
        (
            {"code_points": 7},
            {"code_points": [*"abcdefg"]},
            "has no <bos>, <eos>, <bow>, <eow>, <oov",
        ),
    ],
)
def test_dictionaries_that_do_not_fit(changes, given, message):
    with pytest.raises(ValueError, match=message):
        BiLM(BiLMConfig.from_dict({**TOY_SIZES, **changes}), **given)


@pytest.mark.parametrize("entries", [[], [""], ["a", "", "\n", "東京", "\ud800", "\0", "ÿ"]])
def test_dictionaries_are_packed_without_loss(entries):
    assert unpack(pack(entries)) == entries


def test_something_else_than_a_dictionary():
    for packed in (torch.zeros(3), torch.tensor([97], dtype=torch.uint8)):
        with pytest.raises(
            ValueError, match="no dictionary: expected entries in UTF-8, each ended"
        ):
            unpack(packed)
    with pytest.raises(ValueError, match="no dictionary: an entry is not UTF-8"):
        unpack(torch.tensor([0xC3, 0xFF], dtype=torch.uint8))
