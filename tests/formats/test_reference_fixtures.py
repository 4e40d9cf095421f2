"""Vectors that the original tools themselves computed, from their own files."""

import json

import h5py
import numpy
import pytest

from spacy_elmo import BiLM

from .. import manylangs_oracle, oracle

ATOL = 1e-5
N_STREAMS = 3
TOOLS = {"allennlp": "sentences.json", "bilm-tf": "lm_embeddings_sentences.json"}
MANYLANGS = ("zh_char", "zh_word_char", "en_char")


@pytest.fixture(params=TOOLS)
def folder(request, shared):
    return shared / "fixtures" / request.param


def read_streams(folder):
    streams = json.loads((folder / TOOLS[folder.name]).read_text(encoding="utf-8"))
    assert [len(stream) for stream in streams] == [10] * N_STREAMS
    for number, stream in enumerate(streams):
        with h5py.File(folder / f"lm_embeddings_{number}.hdf5", "r") as file:
            yield (
                [sentence.split() for sentence in stream],
                [file[str(key)][()] for key in range(10)],
            )


def test_top_layer_equals_the_tool(folder):
    bilm = BiLM.from_pretrained(folder)
    for sentences, expected in read_streams(folder):
        for layers, halves in zip(bilm.embed(sentences, initial_state="carry"), expected):
            top = numpy.concatenate(halves, axis=1)
            numpy.testing.assert_allclose(layers[-1], top, atol=ATOL, rtol=0)


def test_oracle_equals_the_tool(folder):
    # The judge of the other tests is judged once by the tools themselves.
    options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    datasets = {}
    with h5py.File(folder / "lm_weights.hdf5", "r") as file:
        file.visititems(
            lambda name, item: (
                datasets.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    sentences, expected = next(read_streams(folder))
    layers, _ = oracle.embed_stream(options, datasets, sentences[:3])
    for ours, halves in zip(layers, expected):
        numpy.testing.assert_allclose(
            ours[-1], numpy.concatenate(halves, axis=1), atol=ATOL, rtol=0
        )


def test_token_layer_equals_allennlp(shared):
    folder = shared / "fixtures" / "allennlp"
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(folder / "elmo_token_embeddings.hdf5", "r") as file:
        expected = file["embedding"][()]
    assert len(words) == len(expected) == 458
    bilm = BiLM.from_pretrained(folder)
    (layers,) = bilm.embed([words])
    numpy.testing.assert_allclose(layers[0, :, :16], expected, atol=ATOL, rtol=0)
    numpy.testing.assert_array_equal(layers[0, :, :16], layers[0, :, 16:])


def read_manylangs(folder):
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    with h5py.File(folder / "expected.hdf5", "r") as file:
        return sentences, [file[str(number)][()] for number in range(len(sentences))]


@pytest.mark.parametrize("name", MANYLANGS)
def test_all_layers_equal_manylangs(shared, name):
    folder = shared / "fixtures" / "manylangs" / name
    sentences, expected = read_manylangs(folder)
    assert len(sentences) > 20
    bilm = BiLM.from_pretrained(folder)
    for layers, theirs in zip(bilm.embed(sentences, initial_state="zero"), expected):
        numpy.testing.assert_allclose(layers, theirs, atol=ATOL, rtol=0)


@pytest.mark.parametrize("name", MANYLANGS)
def test_manylangs_oracle_equals_the_tool(shared, name):
    folder = shared / "fixtures" / "manylangs" / name
    sentences, expected = read_manylangs(folder)
    model = manylangs_oracle.read_model(folder, "cnn.json")
    for sentence, theirs in list(zip(sentences, expected))[:3]:
        ours = manylangs_oracle.embed_sentence(model, sentence)
        numpy.testing.assert_allclose(ours, theirs, atol=ATOL, rtol=0)
