"""Scores of sentences: by the definition, the same for any batch size, each word once."""

import math

import numpy
import pytest
import torch

from spacy_elmo.training import rows, score_sentences, scoring
from spacy_elmo.training.rows import iter_rows

from .conftest import make_sentences


@pytest.fixture
def short_rows(monkeypatch):
    """So that a small text has many rows."""
    monkeypatch.setattr(rows, "POSITIONS_A_ROW", 20)


def score(model, vocabulary, sentences, batch_size=64):
    return list(score_sentences(model, vocabulary, sentences, batch_size=batch_size))


def log_probabilities_by_hand(model, vocabulary, sentences):
    """Forward and backward values of each sentence of one row, by the definition: a direction's
    stack over one word after the other, log-softmax in float64."""
    stream = [word for sentence in sentences for word in ("<S>", *sentence, "</S>")]
    ids = {"<S>": 0, "</S>": 1}
    weight, bias = (p.detach().double() for p in (model.head.weight, model.head.bias))
    by_position = []
    with torch.no_grad():
        for lstm, words in (
            (model.bilm.forward_lstm, stream),
            (model.bilm.backward_lstm, stream[::-1]),
        ):
            layers, _ = lstm(model.bilm.encode_words(words), [1] * len(words))
            log_p = torch.log_softmax(layers[-1].double() @ weight.T + bias, 1)
            targets = [ids.get(word, vocabulary.id_of(word)) for word in words[1:]]
            by_position.append([log_p[n, target].item() for n, target in enumerate(targets)])
    # Of the word at position n, in the order of the text.
    ahead = [None, *by_position[0]]
    back = [*by_position[1][::-1], None]
    begin = 0
    for sentence in sentences:
        end = begin + len(sentence) + 2
        yield ahead[begin + 1 : end], [*back[begin + 1 : end - 1], back[begin]]
        begin = end


def test_scores_are_those_of_the_definition(model, vocabulary):
    sentences = [*make_sentences(5), ["the", "Zyzzyva", "runs"]]
    scores = score(model, vocabulary, sentences)
    by_hand = list(log_probabilities_by_hand(model, vocabulary, sentences))
    assert len(scores) == len(sentences)
    for sentence, found, (ahead, back) in zip(sentences, scores, by_hand):
        assert found.words == sentence
        numpy.testing.assert_allclose(found.forward, ahead, rtol=1e-4)
        numpy.testing.assert_allclose(found.backward, back, rtol=1e-4)
        assert len(found.forward) == len(found.backward) == len(sentence) + 1
    assert scores[-1].unknown == [False, True, False]


def test_rows_start_anew(model, vocabulary, short_rows):
    """Each row of a text gives what it gives as a text of its own."""
    sentences = make_sentences(40)
    found = score(model, vocabulary, sentences)
    alone = [
        one
        for row in iter_rows(sentences, lambda sentence: len(sentence) + 2)
        for one in log_probabilities_by_hand(model, vocabulary, row)
    ]
    for one, (ahead, back) in zip(found, alone):
        numpy.testing.assert_allclose(one.forward, ahead, rtol=1e-4)
        numpy.testing.assert_allclose(one.backward, back, rtol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_the_batch_size_changes_no_score(model, vocabulary, short_rows, batch_size):
    sentences = make_sentences(150)
    expected = score(model, vocabulary, sentences, 64)
    assert len(list(iter_rows(sentences, len))) > 16
    for one, other in zip(score(model, vocabulary, sentences, batch_size), expected):
        assert one.words == other.words and one.unknown == other.unknown
        numpy.testing.assert_allclose(one.forward, other.forward, rtol=1e-5)
        numpy.testing.assert_allclose(one.backward, other.backward, rtol=1e-5)


@pytest.mark.parametrize("steps", [1, 7])
def test_windows_change_no_score(model, vocabulary, short_rows, steps, monkeypatch):
    sentences = make_sentences(60)
    expected = score(model, vocabulary, sentences)
    monkeypatch.setattr(scoring, "STEPS_A_WINDOW", steps)
    for one, other in zip(score(model, vocabulary, sentences), expected):
        numpy.testing.assert_allclose(one.forward, other.forward, rtol=1e-5)
        numpy.testing.assert_allclose(one.backward, other.backward, rtol=1e-5)


def test_a_row_ends_with_the_sentence_that_fills_it(short_rows):
    assert list(iter_rows([9, 10, 1, 25, 3, 3], int)) == [[9, 10, 1], [25], [3, 3]]
    assert list(iter_rows([], int)) == []


def test_sentences_are_read_as_they_are_needed(model, vocabulary, short_rows):
    """A text of any length takes the same memory."""
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield ["the", "old", "bank"]

    scores = score_sentences(model, vocabulary, endless(), batch_size=2)
    assert taken == 0
    first = next(scores)
    # Two rows of four sentences.
    assert taken == 8
    assert first.words == ["the", "old", "bank"]


def test_a_sentence_longer_than_a_row_is_one_row(model, vocabulary, short_rows):
    long = make_sentences(30)
    words = [word for sentence in long for word in sentence]
    (found,) = score(model, vocabulary, [words])
    ((ahead, back),) = log_probabilities_by_hand(model, vocabulary, [words])
    numpy.testing.assert_allclose(found.forward, ahead, rtol=1e-4)
    numpy.testing.assert_allclose(found.backward, back, rtol=1e-4)


def test_sentences_without_a_word_have_an_empty_score(model, vocabulary, short_rows):
    sentences = [[], ["the", "bank"], [], ["a", "river"], []]
    scores = score(model, vocabulary, sentences)
    assert [one.words for one in scores] == sentences
    assert [len(one.forward) for one in scores] == [0, 3, 0, 3, 0]
    assert score(model, vocabulary, [[], []])[1].backward == []
    assert score(model, vocabulary, []) == []
    without = score(model, vocabulary, [sentence for sentence in sentences if sentence])
    assert [one for one in scores if one.words] == without


def test_words_that_spell_marks_are_unknown_words(model, vocabulary):
    (found,) = score(model, vocabulary, [["the", "</S>", "<UNK>"]])
    # <UNK> is an entry of the vocabulary, and yet no word of it.
    assert found.unknown == [False, True, True]
    (unknown,) = score(model, vocabulary, [["the", "Zyzzyva", "Qwyx"]])
    assert found.forward[1] == pytest.approx(unknown.forward[1])


def test_each_value_is_the_log_of_a_probability(model, vocabulary):
    """All words of the vocabulary in one place: what comes after the same context sums to 1,
    less what the begin mark takes."""
    words = [*vocabulary.words[3:], "Zyzzyva"]
    total = {"forward": 0.0, "backward": 0.0}
    for word in words:
        (found,) = score(model, vocabulary, [[word]])
        total["forward"] += math.exp(found.forward[0])
        total["backward"] += math.exp(found.backward[0])
    marks = {"forward": 0.0, "backward": 0.0}
    with torch.no_grad():
        for direction, lstm, mark in (
            ("forward", model.bilm.forward_lstm, "<S>"),
            ("backward", model.bilm.backward_lstm, "</S>"),
        ):
            layers, _ = lstm(model.bilm.encode_words([mark]), [1])
            losses = model.head.exact_losses(layers[-1].expand(2, -1), torch.tensor([0, 1]))
            marks[direction] = torch.exp(-losses).sum().item()
    for direction in total:
        assert total[direction] + marks[direction] == pytest.approx(1, abs=1e-5)


def test_mode_and_random_numbers_stay_as_they_were(model, vocabulary):
    model.train()
    before = torch.get_rng_state()
    scores = score_sentences(model, vocabulary, make_sentences(3))
    first = next(scores)
    # Between two sentences too, and gradients are enabled again.
    assert model.training and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    assert torch.equal(torch.get_rng_state(), before)
    assert next(score_sentences(model, vocabulary, make_sentences(3))) == first


def test_faults_are_named(model, vocabulary):
    with pytest.raises(ValueError, match="batch_size is 0; expected 1 or more"):
        score(model, vocabulary, [["the"]], batch_size=0)
    with pytest.raises(ValueError, match="the string 'the bank'; expected sentences as lists"):
        score(model, vocabulary, ["the bank"])
