"""Segments hold each token once, in order, within their bound."""

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_elmo.models.segments import (
    build_sentences_v1,
    build_windows_v1,
    find_segments,
)

NLP = spacy.blank("en")


def make_doc(words, sent_starts=None):
    return Doc(NLP.vocab, words=words, sent_starts=sent_starts)


def texts(spans):
    return [[token.text for token in span] for span in spans]


def test_sentences_where_the_doc_has_them():
    doc = make_doc(["a", "b", ".", "c", "."], [True, False, False, True, False])
    (spans,) = build_sentences_v1()([doc])
    assert texts(spans) == [["a", "b", "."], ["c", "."]]


def test_windows_where_it_has_none():
    (spans,) = build_sentences_v1(window=2)([make_doc(["a", "b", "c", "d", "e"])])
    assert texts(spans) == [["a", "b"], ["c", "d"], ["e"]]


def test_a_long_sentence_is_cut_into_windows():
    doc = make_doc(list("abcdefg"), [True, False, False, False, False, True, False])
    (spans,) = build_sentences_v1(window=3)([doc])
    assert texts(spans) == [["a", "b", "c"], ["d", "e"], ["f", "g"]]


def test_windows_ignore_sentences():
    doc = make_doc(["a", "b", "c"], [True, True, True])
    (spans,) = build_windows_v1(window=2)([doc])
    assert texts(spans) == [["a", "b"], ["c"]]


def test_whitespace_is_no_word_and_takes_no_place_in_a_window():
    doc = make_doc(["I", "am", "\n", "\n", "\n", "Ana", " "])
    (segment,) = find_segments(build_windows_v1(window=3), [doc])
    assert segment.words == ["I", "am", "Ana"]
    assert (segment.number, segment.rows) == (0, [0, 1, 5])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(["a", "b", "\n", " "]), max_size=30), st.integers(1, 7))
def test_each_word_comes_once_and_no_window_is_longer_than_it_may_be(tokens, window):
    docs = [make_doc(tokens), make_doc([]), make_doc(["x"])]
    segments = find_segments(build_windows_v1(window=window), docs)
    assert all(1 <= len(segment.words) <= window for segment in segments)
    expected = [(n, t.i, t.text) for n, doc in enumerate(docs) for t in doc if not t.is_space]
    found = [
        (segment.number, row, word)
        for segment in segments
        for word, row in zip(segment.words, numpy.arange(len(segment.doc))[segment.rows])
    ]
    assert found == expected


def test_a_segmenter_that_loses_or_repeats_tokens_is_an_error():
    doc = make_doc(["a", "b", "c"])
    with pytest.raises(ValueError, match="token 2 is left out or comes twice.*'segments'"):
        find_segments(lambda docs: [[doc[0:2]]], [doc])
    with pytest.raises(ValueError, match="token 1 is left out or comes twice"):
        find_segments(lambda docs: [[doc[0:2], doc[1:3]]], [doc])
    with pytest.raises(ValueError, match="1 lists of spans for 2 docs"):
        find_segments(lambda docs: [[doc[:]]], [doc, doc])
    with pytest.raises(ValueError, match="token 0 is left out or comes twice"):
        find_segments(lambda docs: [[doc[:], doc[:]]], [doc])
    with pytest.raises(ValueError, match="gave None for 1 docs; expected a list"):
        find_segments(lambda docs: None, [doc])


@pytest.mark.parametrize("build", [build_sentences_v1, build_windows_v1])
def test_a_window_needs_a_token(build):
    with pytest.raises(ValueError, match="'window' of the segments is 0"):
        build(window=0)
