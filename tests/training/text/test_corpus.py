"""Text files: every kind, what becomes of odd text, and the settings."""

import builtins
import json
import unicodedata

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.training import WordStream
from spacy_elmo.training.registry import registry
from spacy_elmo.training.text.corpus import build_text_corpus_v1
from spacy_elmo.training.text.splitters import build_lines_v1, build_sentencizer_v1
from spacy_elmo.training.text.text_files import split_paragraph

from .texts import SENTENCES, TEXT, write


def read(path, **settings):
    """The sentences of a corpus, which are the same whichever way it is read."""
    sentences = list(build_text_corpus_v1(path=str(path), **settings))
    for cache in (None, ""):
        corpus = build_text_corpus_v1(path=str(path), cache=cache, **settings)
        assert list(corpus.read_stream().iter_sentences()) == sentences
    return sentences


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_text_files_plain_and_compressed(tmp_path, suffix):
    corpus = build_text_corpus_v1(path=str(write(tmp_path / f"a.txt{suffix}", TEXT)))
    assert list(corpus) == SENTENCES
    # A corpus can be read again.
    assert list(corpus) == SENTENCES


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_json_lines_of_raw_and_tokenized_text(tmp_path, suffix):
    rows = [
        {"text": "The bank is old. It lies by\nthe river.", "meta": 1},
        {"tokens": ["I", "deposited", "it", "."]},
        {"text": " \n"},
        {"tokens": ["A", " ", "second", "\n", "\u00a0", ""], "text": "not this"},
        {"tokens": []},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path = write(tmp_path / f"a.jsonl{suffix}", f"\ufeff{lines}\n")
    assert read(path) == [*SENTENCES[:3], ["A", "second"]]


def test_json_lines_of_text_with_blanks_between_words(tmp_path):
    write(tmp_path / "a.jsonl", json.dumps({"text": "The bank.\nIt is  old\r\n"}))
    assert read(tmp_path, tokenized=True) == [["The", "bank."], ["It", "is", "old"]]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_docs_keep_their_tokens_and_sentences(tmp_path, suffix):
    vocab = spacy.blank("en").vocab
    with_sentences = Doc(
        vocab, words=["can", "not", ".", "go", " ", "on"], sent_starts=[1, 0, 0, 1, 0, 0]
    )
    without = Doc(vocab, words=["New York", ".", "Old", "\n"])
    empty = Doc(vocab)
    doc_bin = DocBin(docs=[with_sentences, empty, without])
    path = write(tmp_path / f"a.spacy{suffix}", doc_bin.to_bytes())
    assert read(path) == [["can", "not", "."], ["go", "on"], ["New York", "."], ["Old"]]
    assert read(path, splitter=build_lines_v1())[2:] == [["New York", ".", "Old"]]


def test_lines_of_tokenized_text_are_taken_as_they_stand(tmp_path):
    # A no-break space is part of a word, and a token by itself is left out.
    lines = " It's by\tthe  river. 10\u00a0000 \r\n\n \t\ncan not\u3000\n\u00a0 end\n"
    write(tmp_path / "a.txt", "\ufeff" + lines)
    expected = [["It's", "by", "the", "river.", "10\u00a0000"], ["can", "not\u3000"], ["end"]]
    assert read(tmp_path, tokenized=True) == expected


def test_directories_and_lists(tmp_path):
    write(tmp_path / "b.txt", "Second.")
    write(tmp_path / "deep" / "er" / "c.txt.gz", "Third.")
    write(tmp_path / "a.txt.xz", "First.")
    write(tmp_path / "notes.md", "Not this.")
    assert read(tmp_path) == [["First", "."], ["Second", "."], ["Third", "."]]
    paths = [str(tmp_path / "deep"), str(tmp_path / "a.txt.xz")]
    assert list(build_text_corpus_v1(path=paths)) == [["Third", "."], ["First", "."]]


def test_the_reader_and_the_splitters_are_registered(tmp_path):
    write(tmp_path / "a.txt", TEXT)
    block = {"@readers": "spacy-elmo.TextCorpus.v1", "path": str(tmp_path / "a.txt"), "limit": 2}
    assert list(registry.resolve({"corpus": block})["corpus"]) == SENTENCES[:2]
    block["splitter"] = {"@misc": "spacy-elmo.lines.v1"}
    assert list(registry.resolve({"corpus": block})["corpus"])[0] == SENTENCES[0] + SENTENCES[1]
    block["splitter"] = {"@misc": "spacy-elmo.sentencizer.v1", "punct_chars": [":"]}
    assert list(registry.resolve({"corpus": block})["corpus"])[1][:2] == ["I", "deposited"]


def test_splitters(tmp_path):
    write(tmp_path / "a.txt", TEXT)
    write(tmp_path / "b.jsonl", json.dumps({"text": "One. Two\nthree.\n\nFour"}))
    by_line = [SENTENCES[0] + SENTENCES[1], *SENTENCES[2:]]
    by_line += [["One", ".", "Two"], ["three", "."], ["Four"]]
    assert read(tmp_path, splitter=build_lines_v1()) == by_line
    at_colons = read(tmp_path / "a.txt", splitter=build_sentencizer_v1(punct_chars=[":"]))
    assert at_colons[2:] == [SENTENCES[3][:4], SENTENCES[3][4:]]


def test_a_splitter_that_splits_nothing_is_named(tmp_path):
    write(tmp_path / "a.txt", TEXT)
    corpus = build_text_corpus_v1(path=str(tmp_path), splitter=lambda nlp: None, cache="")
    with pytest.raises(ValueError, match="splitter set no sentence of .The bank is old"):
        list(corpus)


def test_limit_and_language(tmp_path):
    write(tmp_path / "a.txt", "我在银行。他去河边。")
    write(tmp_path / "b.txt", "我。他。我。")
    assert read(tmp_path, lang="zh", limit=1) == [list("我在银行。")]
    assert read(tmp_path, lang="zh", limit=3)[2:] == [["我", "。"]]
    assert len(read(tmp_path, lang="zh", limit=9)) == 5


def test_words_beyond_the_limit_are_no_distinct_words(tmp_path):
    write(tmp_path / "a.txt", TEXT)
    for cache in (None, ""):
        corpus = build_text_corpus_v1(path=str(tmp_path), limit=2, cache=cache)
        stream = WordStream.from_corpus(corpus)
        assert set(stream.words) == {"<S>", "</S>", *SENTENCES[0], *SENTENCES[1]}


def test_whitespace_line_ends_and_a_byte_order_mark_are_no_tokens(tmp_path):
    write(tmp_path / "a.txt", "\ufeffTwo   blanks. \r\n \t \r\n  Next\u00a0one.\r\n")
    assert read(tmp_path) == [["Two", "blanks", "."], ["Next", "one", "."]]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("tokenized", [True, False])
def test_characters_stay_as_they_are_written(tmp_path, form, tokenized):
    word = unicodedata.normalize(form, "fünf")
    write(tmp_path / "a.txt", f"{word} Boote")
    assert read(tmp_path, tokenized=tokenized) == [[word, "Boote"]]


@pytest.mark.parametrize("text", ["word. " * 100, "x" * 1000, "a" * 300 + " " + "b\n" * 40])
def test_long_paragraphs_are_cut_and_nothing_is_lost(text):
    pieces = list(split_paragraph(text, 64))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 64


def test_words_and_lines_are_not_cut_where_there_is_a_blank():
    text = "aaa bbbb cc dddddd " * 9
    for size in range(8, 30):
        words = [word for piece in split_paragraph(text, size) for word in piece.split()]
        assert words == text.split()
    assert list(split_paragraph("a b\nc d e", 7)) == ["a b", "\nc d e"]


@pytest.mark.parametrize("unit, n_tokens", [("some words here . ", 4), ("x", 0)])
def test_a_line_longer_than_spacy_takes(tmp_path, unit, n_tokens):
    """spaCy refuses texts of more than a million characters."""
    n_units = 1_100_000 // len(unit)
    write(tmp_path / "a.txt", unit * n_units)
    sentences = list(build_text_corpus_v1(path=tmp_path))
    n_characters = len(unit.replace(" ", ""))
    assert sum(len("".join(sentence)) for sentence in sentences) == n_units * n_characters
    if n_tokens:
        assert sum(map(len, sentences)) == n_tokens * n_units


def test_a_text_of_one_word(tmp_path):
    write(tmp_path / "a.txt", "bank")
    stream = WordStream.from_corpus(build_text_corpus_v1(path=tmp_path))
    assert list(stream.iter_sentences()) == [["bank"]]
    assert stream.types.tolist() == [0, 2, 1]


def test_docs_of_a_stored_pipeline_can_split(tmp_path):
    """A splitter is any function, and may add trained components."""
    write(tmp_path / "a.txt", "one two three")

    @spacy.Language.component("test_every_token")
    def every_token(doc):
        for token in doc:
            token.is_sent_start = True
        return doc

    words = read(tmp_path, splitter=lambda nlp: nlp.add_pipe("test_every_token"))
    assert words == [["one"], ["two"], ["three"]]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"limit": -1}, "limit is -1; expected a number of sentences"),
        ({"lang": "nolang"}, "lang is 'nolang'"),
        ({"n_process": 0}, "n_process is 0; expected a number of processes, 1 or more"),
        ({"on_error": "ignore"}, "on_error is 'ignore'; expected 'stop' or 'skip'"),
        ({"max_line_bytes": 0}, "max_line_bytes is 0; expected 1 or more"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_read(tmp_path, settings, message):
    write(tmp_path / "a.txt", TEXT)
    with pytest.raises(ValueError, match=message):
        build_text_corpus_v1(path=str(tmp_path), **settings)


def test_a_missing_zstandard_is_named_before_anything_is_read(tmp_path, monkeypatch):
    write(tmp_path / "a.txt.zst", TEXT)
    real_import = builtins.__import__

    def without_zstandard(name, *args, **kwargs):
        if name == "zstandard":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_zstandard)
    with pytest.raises(ImportError, match=r"a.txt.zst: .* pip install spacy-elmo\[zstd\]"):
        build_text_corpus_v1(path=str(tmp_path))
    # Other compressed files can be read without it.
    write(tmp_path / "b.txt.gz", TEXT)
    assert list(build_text_corpus_v1(path=str(tmp_path / "b.txt.gz"))) == SENTENCES
