"""Perplexity: each token once a direction, the same for any batch size."""

import math

import numpy
import pytest

from spacy_elmo.training import EncodedText, WordStream, evaluate, rows, score_sentences, summarize

from .conftest import make_sentences


def test_perplexities_are_those_of_the_scores(model, encode, vocabulary):
    sentences = [*make_sentences(30), ["the", "Zyzzyva"]]
    found = evaluate(model, encode(sentences, model.bilm.config, vocabulary))
    scores = list(score_sentences(model, vocabulary, sentences))
    ahead = [value for score in scores for value in score.forward]
    back = [value for score in scores for value in score.backward]
    n_tokens = sum(map(len, sentences))
    assert found["n_predictions"] == len(ahead) == len(back) == n_tokens + 31
    assert found["n_tokens"] == n_tokens and found["n_sentences"] == 31
    assert found["unknown_rate"] == pytest.approx(1 / n_tokens)
    assert found["forward"] == pytest.approx(numpy.exp(-numpy.mean(ahead)))
    assert found["backward"] == pytest.approx(numpy.exp(-numpy.mean(back)))
    assert found["mean"] == pytest.approx(numpy.exp(-numpy.mean([ahead, back])))
    assert summarize(scores) == pytest.approx(found)


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_the_batch_size_changes_nothing(model, encode, vocabulary, batch_size, monkeypatch):
    monkeypatch.setattr(rows, "POSITIONS_A_ROW", 20)
    sentences = make_sentences(150)
    text = encode(sentences, model.bilm.config, vocabulary)
    expected = evaluate(model, text, batch_size=64)
    assert evaluate(model, text, batch_size=batch_size) == pytest.approx(expected, rel=1e-6)
    scores = score_sentences(model, vocabulary, sentences, batch_size=batch_size)
    assert summarize(scores) == pytest.approx(expected, rel=1e-6)


def test_rows_are_near_one_long_row(model, encode, vocabulary, monkeypatch):
    text = encode(make_sentences(300), model.bilm.config, vocabulary)
    assert text.stream.n_positions > 2 * rows.POSITIONS_A_ROW
    found = evaluate(model, text)
    monkeypatch.setattr(rows, "POSITIONS_A_ROW", 10**9)
    assert evaluate(model, text)["mean"] == pytest.approx(found["mean"], rel=0.01)


@pytest.mark.parametrize("batch_size", [1, 32])
def test_pitfall_11_a_text_smaller_than_the_batch(model, encode, vocabulary, batch_size):
    sentences = [["the", "bank"], ["a"], ["of", "the"]]
    text = encode(sentences, model.bilm.config, vocabulary)
    found = evaluate(model, text, batch_size=batch_size)
    assert found["n_predictions"] == 8
    assert all(math.isfinite(value) for value in found.values())


def test_a_text_with_words_of_another_vocabulary(model, vocabulary):
    """Every word is unknown: still counted, and predicted as <UNK>."""
    stream = WordStream.from_sentences([["Zyzzyva", "Qwyx"]])
    found = evaluate(model, EncodedText(stream, vocabulary, model.bilm.token_layer.reader))
    assert found["unknown_rate"] == 1 and found["n_predictions"] == 3


def test_faults_are_named(model, encode, vocabulary):
    text = encode([["the"]], model.bilm.config, vocabulary)
    with pytest.raises(ValueError, match="batch_size is 0; expected 1 or more"):
        evaluate(model, text, batch_size=0)
    with pytest.raises(ValueError, match="The text has no words; expected one sentence or more"):
        summarize(score_sentences(model, vocabulary, [[]]))
