"""``BiLM.perplexity``. What scores are is tested in ``test_scoring.py``."""

import copy

import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.softmax import FullSoftmax
from spacy_elmo.formats import write
from spacy_elmo.training import (
    LanguageModel,
    Vocabulary,
    load_language_model,
    save_language_model,
    score_sentences,
    summarize,
)

from ..conftest import random_bilm
from .conftest import WORDS, make_sentences

SENTENCES = [*make_sentences(8), [], ["the", "Zyzzyva"]]


@pytest.fixture
def path(tmp_path):
    bilm = random_bilm()
    vocabulary = Vocabulary.from_counts(dict.fromkeys(WORDS, 1))
    head = FullSoftmax(bilm.config.projection_dim, torch.ones(len(vocabulary)))
    with torch.no_grad():
        head.weight.normal_()
    save_language_model(LanguageModel(bilm, head), vocabulary, tmp_path / "model")
    return tmp_path / "model"


def test_it_is_that_of_the_language_model(path):
    expected = summarize(score_sentences(*load_language_model(path), SENTENCES))
    assert BiLM.from_pretrained(path).perplexity(iter(SENTENCES)) == expected
    assert expected["n_tokens"] == sum(map(len, SENTENCES)) and expected["n_sentences"] == 9
    assert 1 < expected["forward"] != expected["backward"]


def test_it_is_of_the_weights_as_they_are_and_leaves_them(path):
    bilm = BiLM.from_pretrained(path)
    before = bilm.perplexity(SENTENCES)
    changed = copy.deepcopy(bilm).train()
    with torch.no_grad():
        changed.forward_lstm.layers[1].projection_weight.mul_(0.5)
    after = changed.perplexity(SENTENCES)
    assert after["forward"] != before["forward"] and after["backward"] == before["backward"]
    assert changed.training and not bilm.training
    assert all(parameter.requires_grad for parameter in changed.parameters())


def test_a_bilm_without_a_softmax_is_one_message(path, tmp_path):
    bilm = BiLM.from_pretrained(path)
    write(bilm, tmp_path / "hdf5", "bilm-tf")
    with pytest.raises(
        ValueError, match="hdf5 has no vocab.txt and no softmax.safetensors: a biLM"
    ):
        BiLM.from_pretrained(tmp_path / "hdf5").perplexity(SENTENCES)
    with pytest.raises(
        ValueError, match="This biLM was not read from a file, so it has no softmax"
    ):
        random_bilm().perplexity(SENTENCES)
    with pytest.raises(ValueError, match="The text has no words"):
        bilm.perplexity([[]])


def test_the_source_survives_another_working_directory(path, monkeypatch, tmp_path):
    monkeypatch.chdir(path.parent)
    bilm = BiLM.from_pretrained(path.name)
    monkeypatch.chdir("/")
    assert bilm.perplexity(SENTENCES)["n_tokens"] > 0
