"""Batches: every token exactly once a direction, the right target, state in order."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLMConfig
from spacy_elmo.training import EncodedText, Vocabulary, WordStream
from spacy_elmo.training.batches import Batches, count_windows

CONFIG = BiLMConfig.from_dict({"filters": [[1, 4], [2, 4]], "projection_dim": 4, "cell_size": 4})
MARKS = {(256,): "<S>", (257,): "</S>"}


def make_text(lengths):
    """Sentences in which no word comes twice, so that a target tells its place."""
    words = (f"w{n}" for n in range(sum(lengths)))
    sentences = [[next(words) for _ in range(length)] for length in lengths]
    stream = WordStream.from_sentences(sentences)
    vocabulary = Vocabulary.from_counts(stream.count_words())
    return EncodedText(stream, vocabulary, CONFIG), vocabulary


def decode(batch):
    """The batch's distinct words, from their characters."""
    for group in batch.characters:
        for ids in group.tolist():
            inner = tuple(ids[1 : ids.index(259)])
            yield MARKS.get(inner) or bytes(inner).decode()


def read_rows(batches, vocabulary, direction):
    """What each row reads and predicts, as (word, predicted word or None), by unpacking."""
    rows = [[] for _ in range(next(iter(batches)).batch_sizes[0])]
    for batch in batches:
        words = list(decode(batch))
        part = getattr(batch, direction)
        targets = dict(zip(part.predicting.tolist(), part.targets.tolist()))
        position = 0
        for n_rows in batch.batch_sizes:
            for row in range(n_rows):
                target = targets.pop(position, None)
                predicted = None if target is None else vocabulary.words[target]
                rows[row].append((words[part.words[position]], predicted))
                position += 1
        assert not targets and position == len(part.words)
    return rows


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    n_rows=st.integers(1, 40),
    unroll_steps=st.integers(1, 12),
)
def test_every_token_is_predicted_once_a_direction_from_the_word_before_it(
    lengths, n_rows, unroll_steps
):
    text, vocabulary = make_text(lengths)
    batches = Batches(text, text.stream.types, n_rows=n_rows, unroll_steps=unroll_steps)
    ahead = read_rows(batches, vocabulary, "forward")
    back = read_rows(batches, vocabulary, "backward")

    # The rows one after the other are the text, whichever way each was read.
    followed, preceded = [], []
    for words in text.stream.iter_sentences():
        sentence = ["<S>", *words, "</S>"]
        followed += zip(sentence, [*sentence[1:], None])
        preceded += zip(sentence, [None, *sentence])
    assert [pair for row in ahead for pair in row] == followed
    assert [pair for row in back for pair in reversed(row)] == preceded

    assert len(ahead) == min(n_rows, text.stream.n_positions)
    row_lengths = [len(row) for row in ahead]
    assert max(row_lengths) - min(row_lengths) <= 1
    n_predictions = sum(batch.n_predictions for batch in batches)
    assert n_predictions == 2 * text.stream.n_predictions
    positions = text.stream.n_positions
    n_steps = math.ceil(positions / (min(n_rows, positions) * unroll_steps))
    assert len(batches) == len(list(batches)) == n_steps


def test_distinct_words_are_encoded_once():
    stream = WordStream.from_sentences([["the", "bank", "the"], ["the", "bank"]] * 20)
    text = EncodedText(stream, Vocabulary.from_counts(stream.count_words()), CONFIG)
    for batch in Batches(text, stream.types, n_rows=4, unroll_steps=20):
        assert sorted(decode(batch)) == ["</S>", "<S>", "bank", "the"]


@pytest.mark.parametrize("n_positions, n_rows, steps", [(100, 4, 5), (101, 4, 6), (3, 32, 1)])
def test_windows_are_counted_before_the_start(n_positions, n_rows, steps):
    assert count_windows(n_positions, n_rows, 5) == steps
