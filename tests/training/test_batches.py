"""Batches: every token exactly once a direction, the right target, state in order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLMConfig
from spacy_elmo.bilm.token_reader import TokenReader
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
    return EncodedText(stream, vocabulary, TokenReader(CONFIG)), vocabulary


def decode(batch):
    """The batch's distinct words, from their characters."""
    for group in batch.tokens:
        for ids in group.characters.tolist():
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
    text = EncodedText(stream, Vocabulary.from_counts(stream.count_words()), TokenReader(CONFIG))
    for batch in Batches(text, stream.types, n_rows=4, unroll_steps=20):
        assert sorted(decode(batch)) == ["</S>", "<S>", "bank", "the"]


@pytest.mark.parametrize("n_positions, n_rows, steps", [(100, 4, 5), (101, 4, 6), (3, 32, 1)])
def test_windows_are_counted_before_the_start(n_positions, n_rows, steps):
    assert count_windows(n_positions, n_rows, 5) == steps


def test_any_window_can_be_made_without_those_before_it():
    text, _ = make_text([3, 1, 8, 5, 2, 2, 6])
    batches = Batches(text, text.stream.shuffled_types((1, 1)), n_rows=3, unroll_steps=4)
    for number, batch in reversed(list(enumerate(batches))):
        assert_same(batches.window(number), batch)
    for number in (-1, len(batches)):
        with pytest.raises(IndexError, match=f"number is {number}; expected 0 to"):
            batches.window(number)


def assert_same(batch, other):
    for one, two in zip(batch.tokens, other.tokens):
        assert torch.equal(one.characters, two.characters)
    assert batch.batch_sizes == other.batch_sizes
    for name in ("forward", "backward"):
        for field in ("words", "predicting", "targets"):
            one, two = (getattr(getattr(each, name), field) for each in (batch, other))
            assert torch.equal(one, two)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    n_rows=st.integers(1, 12),
    unroll_steps=st.integers(1, 12),
    n_ranks=st.integers(1, 5),
)
def test_ranks_together_read_what_one_process_does(lengths, n_rows, unroll_steps, n_ranks):
    text, vocabulary = make_text(lengths)
    types = text.stream.shuffled_types((0, 0))
    alone = Batches(text, types, n_rows=n_rows, unroll_steps=unroll_steps)
    ranks = [
        Batches(text, types, n_rows=n_rows, unroll_steps=unroll_steps, rank=r, n_ranks=n_ranks)
        for r in range(n_ranks)
    ]
    assert {len(batches) for batches in ranks} == {len(alone)}
    for direction in ("forward", "backward"):
        predicted = []
        for number, batch in enumerate(alone):
            parts = [getattr(batches.window(number), direction).targets for batches in ranks]
            targets = getattr(batch, direction).targets
            assert sorted(torch.cat(parts).tolist()) == sorted(targets.tolist())
            predicted += targets.tolist()
        # No word of the text comes twice, but for the mark.
        assert sorted(predicted)[text.stream.n_sentences :] == list(range(3, len(vocabulary)))

        # Each rank reads a part of the rows, in their order.
        for number, batch in enumerate(alone):
            parts = [batches.window(number) for batches in ranks]
            parts = [steps_of(part, direction) for part in parts if not reads_nothing(part)]
            for step, words in enumerate(steps_of(batch, direction)):
                assert sum((part[step] for part in parts if step < len(part)), []) == words


def steps_of(batch, direction):
    """What all rows read at each time step."""
    words = list(decode(batch))
    read = iter([words[number] for number in getattr(batch, direction).words])
    return [[next(read) for _ in range(n_rows)] for n_rows in batch.batch_sizes]


def reads_nothing(batch):
    """A mark that predicts nothing ahead stands for no text."""
    return steps_of(batch, "forward") == [["<S>"]] and len(batch.forward.targets) == 0


def test_a_rank_with_nothing_to_read_predicts_nothing(model):
    """Its processes wait for each other at every step, so it makes that step, too."""
    words = ["the", "a", "bank", "river", "of"]
    stream = WordStream.from_sentences([words])
    vocabulary = Vocabulary.from_counts(stream.count_words())
    text = EncodedText(stream, vocabulary, model.bilm.token_layer.reader)
    for n_rows, n_windows in ((1, 7), (6, 2)):
        batches = Batches(
            text, stream.types, n_rows=n_rows, unroll_steps=1, rank=n_rows > 1, n_ranks=2
        )
        state = None
        for batch in batches:
            loss, state = model(batch, state)
            loss.backward()
        assert len(batches) == n_windows
        assert batch.n_predictions == 0 and loss.item() == 0
        assert all(parameter.grad is not None for parameter in model.bilm.parameters())


@pytest.mark.parametrize("rank, n_ranks", [(2, 2), (-1, 2), (0, 0)])
def test_ranks_that_are_not_there_are_refused(rank, n_ranks):
    text, _ = make_text([3])
    with pytest.raises(ValueError, match=f"rank is {rank} of n_ranks {n_ranks}; expected 0 to"):
        Batches(text, text.stream.types, n_rows=1, unroll_steps=1, rank=rank, n_ranks=n_ranks)


def test_batches_move_to_a_device():
    text, _ = make_text([3, 2])
    (batch,) = Batches(text, text.stream.types, n_rows=2, unroll_steps=9)
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    characters = (group.characters for group in moved.tokens)
    tensors = [*characters, *(getattr(moved.forward, n) for n in ("words", "targets"))]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.batch_sizes == batch.batch_sizes
