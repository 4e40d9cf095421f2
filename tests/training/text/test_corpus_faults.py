"""What cannot be read: named by file and line, and left out or not as the corpus says."""

import json
import tracemalloc
import warnings

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.training import WordStream
from spacy_elmo.training.text.corpus import build_text_corpus_v1

from .texts import TEXT, write


def make_corpus(**settings):
    # A tokenizer that is soon made.
    return build_text_corpus_v1(lang="xx", **settings)


NOT_UTF8 = b"fine\nalso fine\nbad \xff byte\nlast\n"


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("a.txt", b"", "no text in 0 lines; expected one paragraph a line"),
        ("a.txt", b"\n \n\t\n", "no text in 3 lines"),
        ("a.txt.gz", b"", "no text in 0 lines"),
        ("a.jsonl", b"\n", 'no text in 1 lines; expected a line such as {"text"'),
        ("a.spacy", DocBin().to_bytes(), "no text; expected Docs with tokens"),
        ("a.txt", NOT_UTF8, "line 3: byte 5 of the line .0xff. is not UTF-8"),
        ("a.txt", b"fine\n\x89PNG\x00\x00", "line 2: a NUL character"),
        ("a.txt.xz", b"fine\ncaf\xe9\n", "line 2: byte 4 of the line .0xe9. is not UTF-8"),
        ("a.txt", b"fine\n" + b"x" * 101, "line 2: more than max_line_bytes = 100 bytes"),
        ("a.jsonl", b'{"text": "fine"}\nfine\n', "line 2: 'fine' is not JSON"),
        ("a.jsonl", b'{"tokens": "fine"}', "line 1: .*; expected a line such as"),
        ("a.jsonl", b'{"tokens": ["a", 1]}', "line 1: .*; expected a line such as"),
        ("a.jsonl", b'["fine"]', "line 1: .*; expected a line such as"),
        ("a.jsonl", b'{"text": "\\ud83d"}', "line 1: .* has half of a surrogate pair"),
        ("a.jsonl", b"[" * 100, "line 1: .* is not JSON"),
        ("a.spacy", b"no DocBin", "not a DocBin that spaCy can read"),
    ],
)
@pytest.mark.parametrize("tokenized", [True, False])
def test_faults_are_named_with_the_line(tmp_path, name, data, message, tokenized):
    path = str(write(tmp_path / name, data))
    for cache in (None, ""):
        settings = {"tokenized": tokenized, "max_line_bytes": 100, "cache": cache}
        stopping = make_corpus(path=path, **settings)
        with pytest.raises(ValueError, match=rf'{name}, {message}.*Set on_error to "skip"'):
            list(stopping)
        with pytest.raises(ValueError, match=rf"{name}, {message}"):
            stopping.read_stream()
        skipping = make_corpus(path=path, on_error="skip", **settings)
        with pytest.warns(UserWarning, match=rf"Left out: .*{name}, {message}"):
            skipping.read_stream()


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("n_kept", [-10, 2000])
def test_files_cut_off_give_what_stands_before(tmp_path, suffix, n_kept):
    lines = [f"line number {number * 7919 % 10007}" for number in range(5000)]
    path = write(tmp_path / f"a.txt{suffix}", "\n".join(lines))
    path.write_bytes(path.read_bytes()[:n_kept])
    settings = {"path": str(path), "tokenized": True}
    message = rf"a.txt{suffix}, after line \d+: the compressed file is damaged"
    with pytest.raises(ValueError, match=message):
        make_corpus(**settings).read_stream()
    with pytest.warns(UserWarning, match=message):
        sentences = list(make_corpus(on_error="skip", **settings))
    assert sentences == [line.split() for line in lines[: len(sentences)]]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_what_is_no_archive_is_named(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="after line 0: the compressed file is damaged"):
        list(make_corpus(path=str(path)))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_archives_that_were_joined_are_one(tmp_path, suffix):
    path = write(tmp_path / f"a.txt{suffix}", "one\ntw")
    path.write_bytes(path.read_bytes() + write(tmp_path / f"b{suffix}", "o\nthree").read_bytes())
    sentences = list(make_corpus(path=str(path), tokenized=True))
    assert sentences == [["one"], ["two"], ["three"]]


def from_shards(corpus):
    return corpus.read_stream().iter_sentences()


def test_lines_are_left_out_and_the_others_kept(tmp_path):
    write(tmp_path / "a.txt", NOT_UTF8 + b"x" * 100 + b"\r\n" + b"y" * 101 + b"\r\nend")
    write(tmp_path / "b.txt", b"before\nbinary\0data\nafter\n")
    write(tmp_path / "c.txt", b"\n")
    write(
        tmp_path / "d.jsonl", json.dumps({"text": "text"}) + "\n{\n" + json.dumps({"tokens": "x"})
    )
    write(tmp_path / "e.txt", "last")
    corpus = make_corpus(path=str(tmp_path), tokenized=True, on_error="skip", max_line_bytes=100)
    expected = ["fine", "also fine", "last", "x" * 100, "end", "before", "text", "last"]
    places = ["a.txt, line 3", "a.txt, line 6", "b.txt, line 2", "c.txt, no text"]
    places += ["d.jsonl, line 2", "d.jsonl, line 3"]
    # The second time, what was left out is told again, though no file is read.
    for read in (iter, from_shards, from_shards):
        with pytest.warns(UserWarning) as told:
            assert [" ".join(sentence) for sentence in read(corpus)] == expected
        assert len(told) == len(places)
        for warning, place in zip(told, places):
            assert str(warning.message).startswith(f"Left out: {tmp_path}/{place}")
    # Whoever wants to stop is told of a fault that an earlier run left out.
    stopping = make_corpus(path=str(tmp_path), tokenized=True, max_line_bytes=100)
    with pytest.raises(ValueError, match=r"a\.txt, line 3"):
        stopping.read_stream()


@pytest.mark.parametrize("cache", [None, ""])
def test_many_faults_are_counted(tmp_path, cache):
    for name in ("a.txt", "b.txt"):
        write(tmp_path / name, b"good\n" + b"\xff\n" * 40)
    corpus = make_corpus(path=str(tmp_path), on_error="skip", cache=cache)
    for _ in range(2):
        with pytest.warns(UserWarning) as told:
            assert corpus.read_stream().n_sentences == 2
        messages = [str(warning.message) for warning in told]
        assert len(messages) == 11
        assert messages[9].split(", ")[-1].startswith("line 11:")
        assert messages[10] == "Left out: 70 more lines or files, 80 in all."


def test_faults_beyond_the_limit_are_not_met(tmp_path):
    write(tmp_path / "a.txt", NOT_UTF8)
    corpus = make_corpus(path=str(tmp_path), limit=2)
    assert list(corpus) == [["fine"], ["also", "fine"]]
    assert corpus.read_stream().n_sentences == 2


def test_a_corpus_of_nothing_but_faults_has_no_words(tmp_path):
    write(tmp_path / "a.txt", b"\n\n")
    for cache in (None, ""):
        corpus = make_corpus(path=str(tmp_path), on_error="skip", cache=cache)
        with pytest.warns(UserWarning, match="no text in 2 lines"):
            with pytest.raises(ValueError, match="The corpus has no words"):
                WordStream.from_corpus(corpus)


def test_docs_before_a_faulty_one_are_kept(tmp_path):
    vocab = spacy.blank("en").vocab
    words = [["a", "bank"], ["the", "river"], ["gone", "down"]]
    docs = [Doc(vocab, words=pair, sent_starts=[1, 0]) for pair in words]
    doc_bin = DocBin(docs=docs)
    doc_bin.strings.discard("gone")
    write(tmp_path / "a.spacy", doc_bin.to_bytes())
    corpus = make_corpus(path=str(tmp_path), on_error="skip")
    with pytest.warns(UserWarning, match=r"a.spacy, after Doc 2: not readable"):
        assert list(corpus) == words[:2]


def test_good_text_gives_no_warning(tmp_path):
    write(tmp_path / "a.txt", TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_corpus(path=str(tmp_path), on_error="skip").read_stream()


@pytest.mark.parametrize("name, tokenized", [("a.txt", False), ("a.txt.zst", True)])
def test_a_line_of_50_mb_takes_little_memory(tmp_path, name, tokenized):
    line = b"many words " * 4_500_000 + b"\n"
    write(tmp_path / name, b"before\n" + line + b"after\n")
    corpus = make_corpus(path=str(tmp_path), tokenized=tokenized, on_error="skip")
    tracemalloc.start()
    try:
        with pytest.warns(UserWarning, match="line 2: more than max_line_bytes = 10000000 bytes"):
            stream = corpus.read_stream()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert list(stream.iter_sentences()) == [["before"], ["after"]]
    assert peak < len(line) - 1_000_000
