"""A language model on disk: a native biLM, and what probabilities need beside it."""

import json

import numpy
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from spacy_elmo import BiLM
from spacy_elmo.bilm.adaptive_softmax import AdaptiveSoftmax, build_adaptive_softmax_v1
from spacy_elmo.bilm.softmax import FullSoftmax, build_sampled_softmax_v1
from spacy_elmo.training import (
    LanguageModel,
    evaluate,
    load_language_model,
    save_language_model,
)
from spacy_elmo.training.storage import has_softmax

from .conftest import make_sentences


@pytest.fixture
def adaptive(bilm, vocabulary):
    """A language model with an adaptive softmax, whose words are not sorted by count."""
    torch.manual_seed(2)
    counts = torch.randperm(len(vocabulary)) + 1
    make_head = build_adaptive_softmax_v1(cutoffs=[5, 11], div_value=2.0)
    return LanguageModel(bilm, make_head(bilm.config.projection_dim, counts)).eval()


def change_softmax(directory, tensors=None, metadata=None):
    """Write other tensors, or other metadata, into the file of the softmax."""
    path = directory / "softmax.safetensors"
    if metadata is None:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
    save_file({**load_file(path), **(tensors or {})}, path, metadata)


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
    assert has_softmax(tmp_path)
    (tmp_path / name).unlink()
    assert not has_softmax(tmp_path)
    expected = f"has no {name}: a biLM without its softmax gives vectors, but no probabilities"
    with pytest.raises(ValueError, match=expected):
        load_language_model(tmp_path)


def test_a_bilm_alone_gives_no_probabilities(bilm, tmp_path):
    bilm.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="has no vocab.txt and no softmax.safetensors: a biLM"):
        load_language_model(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_language_model(tmp_path / "nowhere")


def test_another_bilm_is_not_saved_beside_a_softmax(model, vocabulary, make_bilm, tmp_path):
    save_language_model(model, vocabulary, tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match="softmax.safetensors, which was trained with the biLM"):
        make_bilm().save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    # The one that came from there may be saved again, with a warm state for instance.
    again = BiLM.from_pretrained(tmp_path)
    again.warm_up([["a", "sentence"]])
    again.save_pretrained(tmp_path)
    loaded, _ = load_language_model(tmp_path)
    assert torch.equal(loaded.bilm.warm_cell, again.warm_cell)
    # One from a folder in there is another one.
    make_bilm().save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match="softmax.safetensors, which was trained with the biLM"):
        BiLM.from_pretrained(tmp_path / "other").save_pretrained(tmp_path)


def test_a_sampled_head_comes_back_as_a_full_one(bilm, vocabulary, encode, tmp_path):
    head = build_sampled_softmax_v1(n_samples=5)(12, torch.arange(1, len(vocabulary) + 1))
    model = LanguageModel(bilm, head).eval()
    save_language_model(model, vocabulary, tmp_path)
    loaded, _ = load_language_model(tmp_path)
    assert type(loaded.head) is FullSoftmax
    text = encode(make_sentences(20), bilm.config, vocabulary)
    assert evaluate(loaded, text) == evaluate(model, text)


def test_an_adaptive_head_comes_back_as_one(adaptive, vocabulary, encode, tmp_path):
    save_language_model(adaptive, vocabulary, tmp_path)
    loaded, _ = load_language_model(tmp_path)
    assert type(loaded.head) is AdaptiveSoftmax
    assert loaded.head.stored_as == adaptive.head.stored_as
    text = encode(make_sentences(20), adaptive.bilm.config, vocabulary)
    assert evaluate(loaded, text) == evaluate(adaptive, text)


def test_files_without_the_name_of_a_head_hold_a_full_softmax(model, vocabulary, tmp_path):
    """As the first version wrote them."""
    save_language_model(model, vocabulary, tmp_path)
    change_softmax(tmp_path, metadata={})
    loaded, _ = load_language_model(tmp_path)
    assert type(loaded.head) is FullSoftmax
    assert torch.equal(loaded.head.weight, model.head.weight)


@pytest.mark.parametrize(
    "head, message",
    [
        (
            '{"@softmax_heads": "other.Head.v1"}',
            "of the softmax head 'other.Head.v1', which is not",
        ),
        ("{}", "of the softmax head None, which is not installed. Available: .*FullSoftmax"),
        ("no JSON", r"softmax\.safetensors is no valid JSON"),
        (
            '{"@softmax_heads": "spacy-elmo.FullSoftmax.v1", "n": 3}',
            "the settings of spacy-elmo.FullSoftmax.v1: .*unexpected keyword argument",
        ),
        (
            '{"@softmax_heads": "spacy-elmo.AdaptiveSoftmax.v1", "cutoffs": [999]}',
            r"softmax\.safetensors: .*cutoffs is \[999\], but the vocabulary has",
        ),
    ],
)
def test_a_damaged_name_of_the_head_is_named(model, vocabulary, tmp_path, head, message):
    save_language_model(model, vocabulary, tmp_path)
    change_softmax(tmp_path, metadata={"head": head})
    with pytest.raises(ValueError, match=message):
        load_language_model(tmp_path)


def test_a_damaged_adaptive_head_is_named(adaptive, vocabulary, tmp_path):
    save_language_model(adaptive, vocabulary, tmp_path)
    change_softmax(tmp_path, {"rank": torch.zeros(len(vocabulary), dtype=torch.int64)})
    with pytest.raises(ValueError, match=r"softmax\.safetensors: tensor 'rank' does not hold"):
        load_language_model(tmp_path)
    change_softmax(tmp_path, {"first.bias": torch.full((7,), torch.inf)})
    with pytest.raises(ValueError, match="tensor 'first.bias' of shape .* NaN or infinite"):
        load_language_model(tmp_path)
    change_softmax(tmp_path, {"first.bias": torch.zeros(8)})
    with pytest.raises(
        ValueError, match=r"tensor 'first.bias' is \(8,\); expected \(7,\), as vocab"
    ):
        load_language_model(tmp_path)
    change_softmax(tmp_path, {"other": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"softmax\.safetensors: unexpected tensor 'other'"):
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
    with pytest.raises(ValueError, match=r"missing tensor 'bias' of shape \(\d+,\)"):
        load_language_model(tmp_path)
    path.write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"softmax\.safetensors: "):
        load_language_model(tmp_path)
