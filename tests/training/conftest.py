"""Small texts, encoded, and a language model to read them with."""

import os

import numpy
import pytest
import torch

from spacy_elmo.bilm.softmax import FullSoftmax
from spacy_elmo.bilm.token_reader import TokenReader
from spacy_elmo.training import EncodedText, LanguageModel, Vocabulary, WordStream, train

WORDS = "the a bank river of by deposited loan boat old runs I it at , said Ærø 東京 fünf".split()


def make_sentences(n_sentences, seed=0):
    """Random sentences; without full stops, so that spaCy finds one in each line."""
    random = numpy.random.default_rng(seed)
    return [
        [str(word) for word in random.choice(WORDS, size=random.integers(1, 12))]
        for _ in range(n_sentences)
    ]


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny products gain nothing from threads, which wait for each other on a busy machine."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture
def encode():
    """Sentences to an EncodedText; the vocabulary is that of the sentences unless given."""

    def encode_sentences(sentences, config, vocabulary=None):
        stream = WordStream.from_sentences(sentences)
        if vocabulary is None:
            vocabulary = Vocabulary.from_counts(stream.count_words())
        return EncodedText(stream, vocabulary, TokenReader(config))

    return encode_sentences


@pytest.fixture
def model(bilm):
    """A language model with random weights over the vocabulary of ``WORDS``."""
    torch.manual_seed(1)
    vocabulary = Vocabulary.from_counts(dict.fromkeys([*WORDS, "."], 1))
    head = FullSoftmax(bilm.config.projection_dim, torch.ones(len(vocabulary)))
    return LanguageModel(bilm, head).eval()


@pytest.fixture
def vocabulary():
    return Vocabulary.from_counts(dict.fromkeys([*WORDS, "."], 1))


@pytest.fixture
def no_flush(monkeypatch):
    """Waiting for the disk takes longer than all the rest, and no machine crashes here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    """Where a run of two epochs ended that nothing stopped."""
    from .configs import make_quick_config
    from .resuming import EVALUATIONS

    directory = tmp_path_factory.mktemp("whole")
    train(make_quick_config(directory, EVALUATIONS), directory / "out")
    return directory / "out"
