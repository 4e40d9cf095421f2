"""Text files: every way to give them, what becomes of odd text, and faults by file and line."""

import gzip
import lzma
import time

import pytest

from spacy_elmo.training.corpus import build_text_corpus_v1, split_paragraph
from spacy_elmo.training.registry import registry

TEXT = """The bank is old. It's by the river.
I deposited it.

A second document: fünf Boote.
"""
SENTENCES = [
    ["The", "bank", "is", "old", "."],
    ["It", "'s", "by", "the", "river", "."],
    ["I", "deposited", "it", "."],
    ["A", "second", "document", ":", "fünf", "Boote", "."],
]


def write(path, data):
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz"])
def test_files_plain_and_compressed(tmp_path, name):
    corpus = build_text_corpus_v1(path=str(write(tmp_path / name, TEXT)))
    assert list(corpus) == SENTENCES
    # A corpus can be read again.
    assert list(corpus) == SENTENCES


def test_directories_and_lists(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path / "b.txt", "Second.")
    write(tmp_path / "deep" / "c.txt.gz", "Third.")
    write(tmp_path / "a.txt.xz", "First.")
    write(tmp_path / "notes.md", "Not this.")
    assert list(build_text_corpus_v1(path=tmp_path)) == [["First", "."], ["Second", "."]] + [
        ["Third", "."]
    ]
    paths = [str(tmp_path / "deep"), str(tmp_path / "a.txt.xz")]
    assert list(build_text_corpus_v1(path=paths)) == [["Third", "."], ["First", "."]]


def test_the_reader_is_registered(tmp_path):
    write(tmp_path / "a.txt", TEXT)
    block = {"@readers": "spacy-elmo.TextCorpus.v1", "path": str(tmp_path / "a.txt"), "limit": 2}
    assert list(registry.resolve({"corpus": block})["corpus"]) == SENTENCES[:2]


def test_limit_and_language(tmp_path):
    write(tmp_path / "a.txt", "我在银行。他去河边。")
    assert list(build_text_corpus_v1(path=tmp_path, lang="zh", limit=1)) == [list("我在银行。")]


def test_whitespace_line_ends_and_a_byte_order_mark_are_no_tokens(tmp_path):
    write(tmp_path / "a.txt", "\ufeffTwo   blanks. \r\n \t \r\n  Next\u00a0one.\r\n")
    assert list(build_text_corpus_v1(path=tmp_path)) == [
        ["Two", "blanks", "."],
        ["Next", "one", "."],
    ]


@pytest.mark.parametrize("text", ["word. " * 100, "x" * 1000, "a" * 300 + " " + "b" * 40])
def test_long_paragraphs_are_cut_and_nothing_is_lost(text):
    pieces = list(split_paragraph(text, 64))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 64


def test_words_are_not_cut_where_there_is_a_blank():
    text = "aaa bbbb cc dddddd " * 9
    for size in range(8, 30):
        words = [word for piece in split_paragraph(text, size) for word in piece.split()]
        assert words == text.split()


@pytest.mark.parametrize("unit, n_tokens", [("some words here . ", 4), ("x", 0)])
def test_a_line_longer_than_spacy_takes(tmp_path, unit, n_tokens):
    """spaCy refuses texts of more than a million characters."""
    n_units = 1_100_000 // len(unit)
    write(tmp_path / "a.txt", unit * n_units)
    begin = time.perf_counter()
    sentences = list(build_text_corpus_v1(path=tmp_path))
    assert time.perf_counter() - begin < 60
    assert sum(len("".join(sentence)) for sentence in sentences) == n_units * len(
        unit.replace(" ", "")
    )
    if n_tokens:
        assert sum(map(len, sentences)) == n_tokens * n_units


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("a.txt", b"", "no text in 0 lines"),
        ("a.txt", b"\n \n\t\n", "no text in 3 lines"),
        ("a.txt.gz", b"", "no text in 0 lines"),
        ("a.txt", b"fine\nalso fine\nbad \xff byte\n", "line 3: byte 5 of the line .0xff. is not"),
        ("a.txt", b"fine\n\x89PNG\x00\x00", "line 2: binary data"),
        ("a.txt.xz", b"fine\ncaf\xe9\n", "line 2: byte 4 of the line .0xe9. is not UTF-8"),
    ],
)
def test_faulty_files_are_named_with_the_line(tmp_path, name, data, message):
    corpus = build_text_corpus_v1(path=str(write(tmp_path / name, data)))
    with pytest.raises(ValueError, match=rf"{name}(:|,) {message}"):
        list(corpus)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
def test_damaged_archives_are_named(tmp_path, name):
    path = write(tmp_path / name, "A line.\n" * 5000)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=rf"{name}, after line \d+: the compressed file is damag"):
        list(build_text_corpus_v1(path=str(path)))
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=rf"{name}, after line 0: the compressed file is damaged"):
        list(build_text_corpus_v1(path=str(path)))


def test_wrong_settings_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(ValueError, match="path is None; expected a text file"):
        build_text_corpus_v1(path=None)
    with pytest.raises(ValueError, match="path is 'nowhere.txt', which does not exist"):
        build_text_corpus_v1(path="nowhere.txt")
    with pytest.raises(ValueError, match=r"a directory without .txt, .txt.gz, .txt.xz files"):
        build_text_corpus_v1(path=str(tmp_path))
    write(tmp_path / "a.txt", TEXT)
    with pytest.raises(ValueError, match="limit is -1; expected a number of sentences"):
        build_text_corpus_v1(path=str(tmp_path), limit=-1)
    with pytest.raises(ValueError, match="lang is 'nolang'"):
        build_text_corpus_v1(path=str(tmp_path), lang="nolang")
