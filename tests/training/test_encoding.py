"""Text as numbers: nothing is lost, whole sentences are shuffled, characters stay exact."""

import numpy
import pytest
import torch

from spacy_elmo import BiLMConfig
from spacy_elmo.training import EncodedText, Vocabulary, WordStream

from ..conftest import TOY_SIZES
from .conftest import make_sentences

CONFIG = BiLMConfig.from_dict(TOY_SIZES)


def sentences_of(stream, types):
    """The words between the marks, in the order given."""
    sentences = []
    for number in types:
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


def test_shuffling_keeps_sentences_whole_and_depends_on_the_seed_only():
    sentences = make_sentences(40)
    stream = WordStream.from_sentences(sentences)
    first, second = (sentences_of(stream, stream.shuffled_types((7, n))) for n in (0, 1))
    assert sorted(first) == sorted(second) == sorted(sentences)
    assert first != second and first != sentences
    assert sentences_of(stream, stream.shuffled_types((7, 0))) == first
    assert sentences_of(stream, stream.shuffled_types((8, 0))) != first


def test_text_that_spells_a_mark_ends_no_sentence_and_is_unknown(encode):
    sentences = [["the", "</S>", "bank"], ["<S>", "the", "<UNK>"]]
    text = encode(sentences, CONFIG)
    assert list(text.stream.iter_sentences()) == sentences
    assert text.unknown_rate == 3 / 6


def test_unknown_words_and_predictions_are_counted():
    stream = WordStream.from_sentences([["a", "b", "a"], ["c"]])
    vocabulary = Vocabulary.from_counts(stream.count_words(), max_size=1)
    text = EncodedText(stream, vocabulary, CONFIG)
    assert text.unknown_rate == 2 / 4
    # <S> by the backward direction, </S> by the forward one, the rest by both.
    assert text.count_targets(len(vocabulary)).tolist() == [2, 2, 2, 2]
    assert text.targets.tolist() == [0, 1, 3, 2, 2]


def test_word_vectors_are_those_of_the_bilm(bilm, encode):
    """Words of all lengths, grouped and cut, beside the biLM's own encoding."""
    words = ["x" * n for n in range(1, 70)] + [f"{n:05}" for n in range(600)] + ["東京" * 9, "é"]
    text = encode([words], bilm.config)
    rows = numpy.arange(len(text.rows))
    with torch.no_grad():
        vectors = torch.cat([bilm.token_layer(ids) for ids in text.gather_characters(rows)])
        expected = bilm.encode_words(text.stream.words)
    torch.testing.assert_close(vectors[text.rows], expected)


def test_what_is_no_sentence_is_refused():
    with pytest.raises(ValueError, match="The corpus gave the string 'A sentence.'; expected"):
        WordStream.from_sentences(["A sentence."])
    with pytest.raises(ValueError, match="The corpus has no words"):
        WordStream.from_sentences([[], []])
