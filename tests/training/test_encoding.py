"""Encoded text: what is predicted and counted, and characters that stay exact."""

import json

import numpy
import torch

from spacy_elmo import BiLMConfig
from spacy_elmo.bilm.token_reader import TokenReader
from spacy_elmo.training import EncodedText, Vocabulary, WordStream
from spacy_elmo.training.text.corpus import build_text_corpus_v1

from ..conftest import TOY_SIZES

CONFIG = BiLMConfig.from_dict(TOY_SIZES)


def test_text_that_spells_a_mark_ends_no_sentence_and_is_unknown(encode):
    sentences = [["the", "</S>", "bank"], ["<S>", "the", "<UNK>"]]
    text = encode(sentences, CONFIG)
    assert list(text.stream.iter_sentences()) == sentences
    assert text.unknown_rate == 3 / 6


def test_unknown_words_and_predictions_are_counted():
    stream = WordStream.from_sentences([["a", "b", "a"], ["c"]])
    vocabulary = Vocabulary.from_counts(stream.count_words(), max_size=1)
    text = EncodedText(stream, vocabulary, TokenReader(CONFIG))
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
        vectors = torch.cat([bilm.token_layer(*ids) for ids in text.gather(rows)])
        expected = bilm.encode_words(text.stream.words)
    torch.testing.assert_close(vectors[text.rows], expected)


def test_text_from_a_file_is_encoded_as_that_in_memory(bilm, tmp_path):
    sentences = [["the", "bank"], ["Ærø", "</S>", "x" * 80], ["the"]]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"tokens": s}) for s in sentences))
    stream = WordStream.from_corpus(build_text_corpus_v1(path=str(tmp_path)))
    vocabulary = Vocabulary.from_counts(stream.count_words(), max_size=2)
    stored = EncodedText(stream, vocabulary, bilm.token_layer.reader)
    in_memory = WordStream.from_sentences(sentences)
    expected = EncodedText(in_memory, vocabulary, bilm.token_layer.reader)
    assert stored.targets.tolist() == expected.targets.tolist()
    assert stored.unknown_rate == expected.unknown_rate == 3 / 6
    rows = numpy.arange(len(stored.rows))
    for found, wanted in zip(stored.gather(rows), expected.gather(rows)):
        assert torch.equal(found.characters, wanted.characters) and found.words is None


def test_the_table_of_characters_takes_little_more_than_the_words(bilm):
    """Not 50 characters a word."""
    words = [f"{n:06}" for n in range(20_000)]
    stream, vocabulary = WordStream.from_sentences([words]), Vocabulary.from_counts({"a": 1})
    text = EncodedText(stream, vocabulary, TokenReader(CONFIG))
    arrays = [value for value in vars(text).values() if isinstance(value, numpy.ndarray)]
    assert sum(value.nbytes for value in arrays) < 40 * len(words)
