"""Streams of words: counted, cut, merged and shuffled as the plain lists would be."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.training import WordStream
from spacy_elmo.training.text.stream import StreamCorpus, merge_streams, number_sentences

from ..conftest import make_sentences


def sentences_of(stream, types):
    """The words between the marks, in the order given."""
    sentences = []
    for number in types[numpy.arange(len(types))]:
        if number == 0:
            sentences.append([])
        elif number != 1:
            sentences[-1].append(stream.words[number])
    return sentences


def test_sentences_come_back_and_are_counted():
    sentences = make_sentences(30)
    stream = WordStream.from_sentences([*sentences, []])
    assert list(stream.iter_sentences()) == sentences
    n_tokens = sum(map(len, sentences))
    assert stream.n_tokens == n_tokens
    assert stream.n_sentences == 30
    assert stream.n_positions == n_tokens + 60
    assert stream.n_predictions == n_tokens + 30
    words = [word for sentence in sentences for word in sentence]
    assert stream.count_words() == {word: words.count(word) for word in set(words)}


def test_counts_are_those_of_all_pieces(monkeypatch):
    stream = WordStream.from_sentences(make_sentences(50))
    expected = numpy.bincount(stream.types)
    monkeypatch.setattr("spacy_elmo.training.text.stream.A_PIECE", 7)
    assert (stream.count_types() == expected).all()


def test_shuffling_keeps_sentences_whole_and_depends_on_the_seed_only():
    sentences = make_sentences(40)
    stream = WordStream.from_sentences(sentences)
    first, second = (sentences_of(stream, stream.shuffled_types((7, n))) for n in (0, 1))
    assert sorted(first) == sorted(second) == sorted(sentences)
    assert first != second and first != sentences
    assert sentences_of(stream, stream.shuffled_types((7, 0))) == first
    assert sentences_of(stream, stream.shuffled_types((8, 0))) != first


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, 3), st.data())
def test_the_shuffled_order_is_that_of_a_permutation(lengths, seed, data):
    """Positions may be looked up in any order and shape."""
    words = iter(range(1000))
    stream = number_sentences([[str(next(words)) for _ in range(n)] for n in lengths])
    types = stream.shuffled_types((seed, 1))
    sentences = numpy.split(stream.types, numpy.cumsum(stream.lengths)[:-1])
    order = numpy.random.default_rng((seed, 1)).permutation(len(sentences))
    expected = numpy.concatenate([sentences[n] for n in order])
    assert len(types) == len(expected)
    place = st.integers(0, len(expected) - 1)
    positions = numpy.array(data.draw(st.lists(place, min_size=6, max_size=6))).reshape(2, 3)
    assert (types[positions] == expected[positions]).all()


def test_positions_beyond_31_bits_are_counted_with_64():
    lengths = numpy.full(3, 2**30, dtype=numpy.int32)

    class Long(WordStream):
        n_positions = 3 * 2**30

    stream = Long([], numpy.zeros(1, dtype=numpy.int32), lengths)
    assert stream.begins.tolist() == [0, 2**30, 2**31]
    assert number_sentences([["a"]]).begins.dtype == numpy.int32


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 0, 2)])
def test_merged_streams_are_the_stream_of_all_sentences(sizes, monkeypatch):
    monkeypatch.setattr("spacy_elmo.training.text.stream.A_PIECE", 5)
    parts = [make_sentences(n, seed=n) for n in sizes]
    merged = merge_streams(map(number_sentences, parts))
    expected = number_sentences([sentence for part in parts for sentence in part])
    assert list(merged.words) == list(expected.words)
    assert merged.types.tolist() == expected.types.tolist()
    assert merged.lengths.tolist() == expected.lengths.tolist()


def test_the_head_of_a_stream_is_that_of_its_sentences():
    sentences = make_sentences(20)
    stream = WordStream.from_sentences(sentences)
    for n in (0, 1, 7, 20, 30):
        expected = number_sentences(sentences[:n])
        head = stream.head(n)
        assert list(head.words) == list(expected.words)
        assert head.types.tolist() == expected.types.tolist()
        assert head.lengths.tolist() == expected.lengths.tolist()


def test_a_corpus_of_another_package_is_any_iterable_of_words():
    class Corpus:
        def __iter__(self):
            yield from (("the", "bank"), ["a"])

    assert list(WordStream.from_corpus(Corpus()).iter_sentences()) == [["the", "bank"], ["a"]]
    assert list(WordStream.from_corpus([["a"]], progress=print).words[2:]) == ["a"]


def test_a_corpus_that_gives_numbers_is_not_read_word_by_word():
    class Corpus:
        def __iter__(self):
            raise AssertionError

        def read_stream(self, progress=None):
            progress(1, 1)
            return number_sentences([["a"]])

    seen = []
    assert isinstance(Corpus(), StreamCorpus)
    stream = WordStream.from_corpus(Corpus(), progress=lambda *numbers: seen.append(numbers))
    assert list(stream.iter_sentences()) == [["a"]]
    assert seen == [(1, 1)]


def test_what_is_no_sentence_is_refused():
    with pytest.raises(ValueError, match="The corpus gave the string 'A sentence.'; expected"):
        WordStream.from_sentences(["A sentence."])
    with pytest.raises(ValueError, match="The corpus has no words"):
        WordStream.from_sentences([[], []])
    with pytest.raises(ValueError, match="The corpus has no words"):
        WordStream.from_corpus(iter(()))
