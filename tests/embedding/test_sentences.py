"""What is read of each kind of input, and messages for what cannot be."""

import bz2
import gzip
import io
import json
import lzma

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.embedding import embed_corpus
from spacy_elmo.embedding.sentences import Reader, Sentence
from spacy_elmo.embedding.spool import make_spool


def read(source, lang=None):
    return list(Reader(lang).read(source))


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


def test_a_line_is_a_sentence(tmp_path):
    path = write(tmp_path / "a.txt", "a / b\r\n\n  x\t. y \nlast")
    expected = [
        Sentence("a / b", ["a", "/", "b"]),
        Sentence("", []),
        Sentence("x\t. y", ["x", ".", "y"]),
        Sentence("last", ["last"]),
    ]
    assert read(path) == expected
    assert read(path.open("rb")) == expected


def test_raw_text_is_tokenized(tmp_path):
    path = write(tmp_path / "a.txt", "He isn't here. Really?\n\n")
    assert read(path, "en") == [
        Sentence("He isn't here. Really?", ["He", "is", "n't", "here", ".", "Really", "?"]),
        Sentence("", []),
    ]


def test_jsonl(tmp_path):
    lines = [{"text": "a b's"}, {"tokens": ["New York", "is", " "]}, None, {"tokens": []}]
    text = "\n".join("" if line is None else json.dumps(line) for line in lines)
    path = write(tmp_path / "a.jsonl", text)
    assert [words for _, words in read(path)] == [["a", "b's"], ["New York", "is", " "], [], []]
    assert [words for _, words in read(path, "en")][0] == ["a", "b", "'s"]


def test_docs_give_their_sentences(tmp_path):
    vocab = spacy.blank("en").vocab
    with_sentences = Doc(vocab, ["A", "b", ".", "C", "."], sent_starts=[True, 0, 0, True, 0])
    without = Doc(vocab, ["D", "\n", "e", "."])
    DocBin(docs=[with_sentences, without, Doc(vocab)]).to_disk(tmp_path / "a.spacy")
    assert [words for _, words in read(tmp_path / "a.spacy")] == [
        ["A", "b", "."],
        ["C", "."],
        ["D", "\n", "e", "."],
    ]


@pytest.mark.parametrize("suffix, compress", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files(tmp_path, suffix, compress):
    data = compress(b"a b\n" * 1000)
    assert len(read(write(tmp_path / f"a.txt{suffix}", data))) == 1000
    with pytest.raises(ValueError, match=r"cut.txt\S+, after line \d+: .* file is damaged"):
        read(write(tmp_path / f"cut.txt{suffix}", data[:-9]))


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("a.txt", b"a\n\xff\n", r"a.txt, line 2: byte 1 of the line \(0xff\) is not UTF-8"),
        ("a.txt", b"a\nb\0c\n", r"a.txt, line 2: a NUL character"),
        ("a.txt", bz2.compress(b"a b"), r"a.txt, line 1: "),
        ("a.jsonl", '{"text": "a"}\n{"text"', r"a.jsonl, line 2: '\{\"text\"' is not JSON"),
        ("a.jsonl", '{"words": ["a"]}', r"a.jsonl, line 1: .* expected a line such as"),
        ("a.jsonl", '{"tokens": ["a", 1]}', r"a.jsonl, line 1: .* expected a line such as"),
        ("a.jsonl", '{"text": "\\ud800"}', r"a.jsonl, line 1: .* half of a surrogate pair"),
        ("a.spacy", "no Docs", r"a.spacy, after Doc 0: not a DocBin that spaCy can read"),
        ("a.txt", "", r"a.txt has no sentence"),
    ],
)
def test_faults_name_file_and_line_and_leave_nothing(bilm, tmp_path, name, data, message):
    path = write(tmp_path / name, data)
    with pytest.raises(ValueError, match=message):
        embed_corpus(bilm, path, tmp_path / "out.npz")
    assert list(tmp_path.iterdir()) == [path]


def test_other_faults(bilm, tmp_path):
    with pytest.raises(ValueError, match="is a directory; expected a .txt"):
        embed_corpus(bilm, tmp_path, tmp_path / "out.npz")
    with pytest.raises(FileNotFoundError, match="nowhere.txt"):
        embed_corpus(bilm, tmp_path / "nowhere.txt", tmp_path / "out.npz")
    with pytest.raises(ValueError, match="The input has no sentence; expected one or more"):
        embed_corpus(bilm, [], tmp_path / "out.npz")
    with pytest.raises(ValueError, match="lang is 'nolang'"):
        embed_corpus(bilm, ["a"], tmp_path / "out.npz", lang="nolang")
    with pytest.raises(ValueError, match="Sentence 1 is 'a text'; expected a list of words"):
        embed_corpus(bilm, [["a"], "a text"], tmp_path / "out.npz")
    with pytest.raises(ValueError, match="line 2: more than max_line_bytes"):
        read(io.BytesIO(b"a\n" + b"b" * 10_000_001))
    assert not list(tmp_path.iterdir())


def test_a_spool_gives_back_what_it_was_given(tmp_path):
    sentences = [Sentence("a\tb", ["a", "b"]), Sentence("", []), Sentence("é☃𝄞", ["é☃𝄞"])]
    spool = make_spool(sentences, tmp_path / "one")
    assert list(spool) == sentences and list(spool.skip(2)) == sentences[2:]
    assert (spool.n_sentences, spool.n_tokens, spool.count_tokens(1)) == (3, 3, 2)
    assert make_spool(sentences, tmp_path / "two").digest == spool.digest
    assert make_spool(sentences[:2], tmp_path / "two").digest != spool.digest
