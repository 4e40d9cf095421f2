"""Training that starts from the weights of another model."""

import math

import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.formats import write
from spacy_elmo.training import load_language_model, train

from .configs import Recorder, make_quick_config

FULL = {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}

# Steps so short that no weight moves, with nothing at random.
STILL = {
    "training.softmax": FULL,
    "training.optimizer.learn_rate": 1e-15,
    "training.max_steps": 1,
    "bilm.dropout": 0.0,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model, and the evaluation of its last weights."""
    directory = tmp_path_factory.mktemp("init")
    changes = {"training.softmax": FULL, "training.max_epochs": 3}
    best = train(make_quick_config(directory, changes), directory / "out").best
    return directory / "out" / "model-best", best


def init_config(directory, path, changes=None):
    return make_quick_config(directory, {"training.init": str(path), **(changes or {})})


def test_training_goes_on_where_the_model_stands(tmp_path, trained):
    """The loss of the first step, of a window of the whole text, is the model's own."""
    path, best = trained
    recorder = Recorder()
    config = init_config(tmp_path, path, {**STILL, "training.batch_size": 1})
    # One row and one window: the text is read as an evaluation reads it.
    config["training"] |= {"unroll_steps": 10_000, "order": "text"}
    config["corpora"]["train"] = config["corpora"]["dev"]
    result = train(config, tmp_path / "out", reporter=recorder)
    assert recorder.steps[0].loss == pytest.approx(math.log(best.perplexity), rel=1e-5)
    assert result.best.perplexity == pytest.approx(best.perplexity, rel=1e-5)
    assert f"Taken from {path}: biLM, vocabulary and softmax" in recorder.notes


def test_the_vocabulary_comes_with_the_softmax(tmp_path, trained):
    """Also where the new text has other words."""
    path, _ = trained
    config = init_config(tmp_path, path, {"training.max_steps": 1})
    (tmp_path / "train.txt").write_text("an unseen sentence", encoding="utf-8")
    train(config, tmp_path / "out")
    vocabulary = (tmp_path / "out" / "model-best" / "vocab.txt").read_bytes()
    assert vocabulary == (path / "vocab.txt").read_bytes()


def test_sizes_may_be_left_out_and_dropout_may_differ(tmp_path, trained):
    path, _ = trained
    config = init_config(tmp_path, path, STILL)
    config["bilm"] = {"dropout": 0.3}
    train(config, tmp_path / "some")
    assert BiLM.from_pretrained(tmp_path / "some" / "model-best").config.dropout == 0.3
    del config["bilm"]
    train(config, tmp_path / "none")
    ours = BiLM.from_pretrained(tmp_path / "none" / "model-best")
    assert ours.config == BiLM.from_pretrained(path).config


def test_sizes_that_differ_are_all_named(tmp_path, trained):
    path, _ = trained
    config = init_config(tmp_path, path, {"bilm.cell_size": 9, "bilm.n_layers": 1})
    recorder = Recorder()
    with pytest.raises(
        ValueError,
        match=r"\[bilm\] differs from the model of \[training\] init, .*model-best: "
        r"cell_size is 9 \(there 8\); n_layers is 1 \(there 2\); expected the same",
    ):
        train(config, tmp_path / "out", reporter=recorder)
    config["bilm"] = {"cell_sise": 3}
    with pytest.raises(ValueError, match=r"\[bilm\] Unknown biLM setting 'cell_sise'"):
        train(config, tmp_path / "out", reporter=recorder)
    assert not recorder.texts


def test_a_model_without_a_softmax_gets_a_new_one(tmp_path, trained):
    """Published HDF5 files have none."""
    pytest.importorskip("h5py")
    path, _ = trained
    write(BiLM.from_pretrained(path), tmp_path / "hdf5", "bilm-tf")
    recorder = Recorder()
    train(init_config(tmp_path, tmp_path / "hdf5", STILL), tmp_path / "out", reporter=recorder)
    assert any("biLM; new: vocabulary and softmax (there is none)" in n for n in recorder.notes)
    ours, vocabulary = load_language_model(tmp_path / "out" / "model-best")
    theirs = BiLM.from_pretrained(path)
    for name, values in theirs.named_parameters():
        torch.testing.assert_close(ours.bilm.state_dict()[name], values.detach())
    assert len(vocabulary) > 3


def test_another_vocabulary_or_kind_of_softmax_gets_a_new_one(tmp_path, trained):
    path, _ = trained
    words = tmp_path / "words.txt"
    words.write_text("<S>\n</S>\n<UNK>\nriver\n", encoding="utf-8")
    recorder = Recorder()
    config = init_config(tmp_path, path, {**STILL, "vocab.path": str(words)})
    train(config, tmp_path / "words", reporter=recorder)
    assert any("that of [vocab] path has other words" in note for note in recorder.notes)

    # The same words in a file are no other vocabulary.
    words.write_bytes((path / "vocab.txt").read_bytes())
    recorder = Recorder()
    train(config, tmp_path / "same", reporter=recorder)
    assert "biLM, vocabulary and softmax" in recorder.notes[-1]

    adaptive = {"@softmax_heads": "spacy-elmo.AdaptiveSoftmax.v1", "cutoffs": [5]}
    config = init_config(tmp_path, path, {**STILL, "training.softmax": adaptive})
    recorder = Recorder()
    train(config, tmp_path / "adaptive", reporter=recorder)
    assert "biLM; new: softmax ([training.softmax] is of another kind)" in recorder.notes[-1]


def test_a_run_with_init_is_resumed_like_any_other(tmp_path, trained):
    path, _ = trained
    config = init_config(tmp_path, path, {"training.max_steps": 4})
    train(config, tmp_path / "out")
    config["training"]["max_steps"] = 8
    train(config, tmp_path / "out", resume=True)
    train(config, tmp_path / "whole")
    weights = "model-last/model.safetensors"
    assert (tmp_path / "out" / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()


@pytest.mark.parametrize("content", [None, "empty"])
def test_a_place_without_a_model_is_named_before_texts_are_read(tmp_path, content):
    if content:
        (tmp_path / "init").mkdir()
    recorder = Recorder()
    with pytest.raises(ValueError, match=r"\[training\] init: .*init"):
        train(init_config(tmp_path, tmp_path / "init"), tmp_path / "out", reporter=recorder)
    assert not recorder.texts and not (tmp_path / "out").exists()
