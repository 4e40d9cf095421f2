"""Saved pipelines are self-contained (pitfalls 6, 12, 16)."""

import json
import multiprocessing
import pickle
import shutil
import subprocess
import sys

import numpy
import pytest
import spacy
import torch

from spacy_elmo import BiLM, BiLMConfig

from ..conftest import TOY_SIZES
from .conftest import TEXTS, WIDTH, bilm_of, make_examples, parameters, same, train

IN_NEW_PROCESS = """
import json, sys, spacy
nlp = spacy.load(sys.argv[1])
print(json.dumps(nlp(sys.argv[2]).tensor.tolist()))
"""


@pytest.fixture
def nlp(make_nlp, weights, tmp_path):
    """A pipeline whose source is gone once it was read."""
    source = tmp_path / "gone"
    shutil.copytree(weights, source)
    nlp = make_nlp("tagger", model={"source": str(source)})
    train(nlp, steps=2)
    shutil.rmtree(source)
    return nlp


def assert_equal(loaded, nlp):
    assert same(parameters(loaded), parameters(nlp))
    assert numpy.array_equal(loaded(TEXTS[1]).tensor, nlp(TEXTS[1]).tensor)
    # A round trip that restored nothing would pass the above if it compared a model with itself.
    torch.manual_seed(1)
    fresh = BiLM(BiLMConfig.from_dict(TOY_SIZES)).state_dict()
    assert not any(
        torch.equal(fresh[name], value)
        for name, value in bilm_of(loaded).named_parameters()
        if not name.endswith("bias")
    )


def test_disk(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    assert_equal(spacy.load(tmp_path / "saved"), nlp)


def test_disk_in_a_new_process(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    shutil.move(tmp_path / "saved", tmp_path / "moved")
    command = [sys.executable, "-c", IN_NEW_PROCESS, str(tmp_path / "moved"), TEXTS[1]]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert numpy.allclose(json.loads(result.stdout), nlp(TEXTS[1]).tensor, atol=1e-5)


def test_bytes(nlp):
    config = nlp.config
    loaded = spacy.util.get_lang_class("en").from_config(config)
    loaded.from_bytes(nlp.to_bytes())
    assert_equal(loaded, nlp)


def test_pickle(nlp):
    assert_equal(pickle.loads(pickle.dumps(nlp)), nlp)


def test_a_source_that_was_not_needed_yet_is_saved_too(make_nlp, tmp_path):
    nlp = make_nlp()
    nlp.to_disk(tmp_path)
    assert bilm_of(nlp).width == WIDTH
    assert_equal(spacy.load(tmp_path), nlp)


def test_a_pipe_without_weights_can_be_saved(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"source": None}})
    nlp.to_disk(tmp_path)
    with pytest.raises(ValueError, match="has no weights"):
        spacy.load(tmp_path)("Hello")


def test_the_warm_state_is_saved(make_nlp, tmp_path):
    nlp = make_nlp()
    bilm_of(nlp).warm_up([["another", "text", "to", "start", "from"]])
    nlp.to_disk(tmp_path)
    assert numpy.array_equal(spacy.load(tmp_path)("A b").tensor, nlp("A b").tensor)
    assert not numpy.allclose(make_nlp()("A b").tensor, nlp("A b").tensor, atol=1e-6)


def test_settings_are_those_of_the_config_that_loads(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    changes = {
        "components.elmo.frozen": False,
        "components.elmo.layer_weights": "top",
        "components.elmo.set_tensor": False,
        "components.elmo.model.batch_tokens": 9,
        "components.elmo.model.initial_state": "zero",
    }
    elmo = spacy.load(tmp_path, config=changes).get_pipe("elmo")
    settings = elmo.model.attrs["elmo_settings"]
    assert (elmo.frozen, elmo.layer_weights, elmo.set_tensor) == (False, "top", False)
    assert (settings.batch_tokens, settings.initial_state) == (9, "zero")


def test_a_saved_width_that_the_config_denies_is_an_error(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    with pytest.raises(ValueError, match=f"saved pipeline has width {WIDTH}.*config says 10"):
        spacy.load(tmp_path, config={"components.elmo.model.width": 10})


def test_a_damaged_file_of_the_model_is_named(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    with (tmp_path / "elmo" / "model").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ValueError, match=r"elmo.model cannot be loaded as the model of 'elmo'"):
        spacy.load(tmp_path)


def test_pitfall_16_several_processes(nlp, monkeypatch):
    import spacy.language

    expected = [doc.tensor for doc in nlp.pipe(TEXTS)]
    # fork after torch ran threads hangs, whatever the component is; spawn is the safe way.
    monkeypatch.setattr(spacy.language, "mp", multiprocessing.get_context("spawn"))
    docs = list(nlp.pipe(TEXTS, n_process=2, batch_size=1))
    for doc, tensor in zip(docs, expected):
        assert numpy.allclose(doc.tensor, tensor, atol=1e-5)
        assert doc._.elmo_layers.shape == (3, len(doc), WIDTH)
    assert [[t.tag_ for t in doc] for doc in docs] == [
        [t.tag_ for t in doc] for doc in nlp.pipe(TEXTS)
    ]


def test_training_goes_on_after_loading(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    optimizer = loaded.resume_training()
    before = parameters(loaded)
    loaded.update(make_examples(loaded), sgd=optimizer)
    assert same(parameters(loaded), before)
