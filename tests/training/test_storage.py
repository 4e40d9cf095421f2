"""A language model on disk: a native biLM, and what probabilities need beside it."""

import json

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file

from spacy_elmo import BiLM
from spacy_elmo.training import evaluate, load_language_model, save_language_model

from .conftest import make_sentences


def read_all(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_round_trip(model, vocabulary, encode, tmp_path):
    text = encode(make_sentences(20), model.bilm.config, vocabulary)
    save_language_model(model, vocabulary, tmp_path / "model", {"step": 3})
    loaded, loaded_vocabulary = load_language_model(tmp_path / "model")
    assert loaded_vocabulary.words == vocabulary.words
    assert evaluate(loaded, text) == evaluate(model, text)
    assert not loaded.training

    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    assert config["metadata"] == {"step": 3}
    for ours, theirs in zip(
        model.bilm.embed(make_sentences(3)),
        BiLM.from_pretrained(tmp_path / "model").embed(make_sentences(3)),
    ):
        numpy.testing.assert_array_equal(ours, theirs)


def test_a_failed_save_leaves_the_previous_model_whole(model, vocabulary, tmp_path, monkeypatch):
    save_language_model(model, vocabulary, tmp_path)
    before = read_all(tmp_path)
    with torch.no_grad():
        model.head.weight.add_(1)
        model.bilm.forward_lstm.layers[0].bias.add_(1)

    def fail(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", fail)
        with pytest.raises(OSError, match="No space left"):
            save_language_model(model, vocabulary, tmp_path)
    assert read_all(tmp_path) == before
    save_language_model(model, vocabulary, tmp_path)
    assert read_all(tmp_path).keys() == before.keys() and read_all(tmp_path) != before


def test_weights_that_are_not_finite_are_not_saved(model, vocabulary, tmp_path):
    with torch.no_grad():
        model.bilm.forward_lstm.layers[0].bias[0] = torch.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        save_language_model(model, vocabulary, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["vocab.txt", "softmax.safetensors"])
def test_what_is_missing_is_named(model, vocabulary, tmp_path, name):
    save_language_model(model, vocabulary, tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=f"{name} is missing; a biLM without it gives vectors"):
        load_language_model(tmp_path)


def test_files_that_do_not_belong_together_are_refused(model, vocabulary, tmp_path):
    save_language_model(model, vocabulary, tmp_path)
    path = tmp_path / "softmax.safetensors"
    tensors = load_file(path)
    n_words, width = tensors["weight"].shape
    save_file({**tensors, "weight": tensors["weight"][:-1].clone()}, path)
    expected = rf"'weight' is \({n_words - 1}, {width}\); expected \({n_words}, {width}\)"
    with pytest.raises(ValueError, match=rf"softmax\.safetensors: tensor {expected}"):
        load_language_model(tmp_path)
    save_file({"weight": tensors["weight"]}, path)
    with pytest.raises(ValueError, match=r"tensor 'bias' is missing; expected \(\d+,\)"):
        load_language_model(tmp_path)
    path.write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"softmax\.safetensors: "):
        load_language_model(tmp_path)
