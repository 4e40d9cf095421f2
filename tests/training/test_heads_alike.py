"""Every softmax head reaches like perplexity on the same budget, in any order of the vocabulary."""

import random

import numpy
import pytest

from spacy_elmo.training import Vocabulary, WordStream, train

from .configs import make_config

N_WORDS = 600

HEADS = {
    "full": {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"},
    "log-uniform": {"@softmax_heads": "spacy-elmo.SampledSoftmax.v1", "n_samples": 120},
    "counts": {
        "@softmax_heads": "spacy-elmo.SampledSoftmax.v1",
        "n_samples": 120,
        "distribution": "counts",
    },
    "adaptive": {
        "@softmax_heads": "spacy-elmo.AdaptiveSoftmax.v1",
        "cutoffs": [100, 300],
        "div_value": 2.0,
    },
}


def make_text(n_sentences, seed):
    """Sentences in which each word is followed by one of five, mostly the first ones."""
    generator = numpy.random.default_rng(0)
    shares = 1 / numpy.arange(1, N_WORDS + 1)
    followers = generator.choice(N_WORDS, size=(N_WORDS, 5), p=shares / shares.sum())
    generator = numpy.random.default_rng(seed)
    for _ in range(n_sentences):
        word = int(generator.integers(N_WORDS))
        words = [word]
        for _ in range(int(generator.integers(4, 12))):
            word = int(followers[word, min(4, generator.geometric(0.5) - 1)])
            words.append(word)
        yield [f"w{word}" for word in words]


@pytest.fixture(scope="module")
def reach(tmp_path_factory):
    """Train with a head; gives the perplexity of held-out text."""
    folder = tmp_path_factory.mktemp("heads")
    texts = {
        name: list(make_text(n, seed)) for name, n, seed in (("train", 3000, 1), ("dev", 200, 2))
    }

    def train_with(head, vocabulary=None):
        changes = {
            "training.softmax": head,
            "training.max_epochs": 3,
            "training.batch_size": 16,
            "training.unroll_steps": 10,
            "bilm.projection_dim": 24,
            "bilm.cell_size": 48,
            "bilm.dropout": 0.0,
            "vocab.path": vocabulary,
        }
        config = make_config(folder, changes)
        for name, sentences in texts.items():
            lines = "\n".join(" ".join(words) for words in sentences)
            (folder / f"{name}.txt").write_text(lines, encoding="utf-8")
        return train(config, folder / "output", overwrite=True).best.perplexity

    train_with.folder, train_with.text = folder, texts["train"]
    return train_with


@pytest.mark.slow
def test_all_heads_reach_like_perplexity_on_the_same_budget(reach):
    found = {name: reach(head) for name, head in HEADS.items()}
    assert found["full"] < 40, "without context it is above 100"
    for perplexity in found.values():
        assert perplexity == pytest.approx(found["full"], rel=0.08), found


@pytest.mark.slow
def test_pitfall_10_a_shuffled_vocabulary_reaches_like_perplexity(reach):
    counts = WordStream.from_sentences(reach.text).count_words()
    words = Vocabulary.from_counts(counts).words
    rest = words[3:]
    random.Random(0).shuffle(rest)
    path = reach.folder / "shuffled.txt"
    Vocabulary([*words[:3], *rest]).to_disk(path)
    by_count = reach(HEADS["log-uniform"])
    assert reach(HEADS["log-uniform"], str(path)) == pytest.approx(by_count, rel=0.1)
