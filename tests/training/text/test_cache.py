"""Tokenized text is kept, used again only for the same text and settings, and never half."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from thinc.api import fix_random_seed

from spacy_elmo.training import WordStream
from spacy_elmo.training.text.cache import MAX_AGE, default_directory
from spacy_elmo.training.text.corpus import build_text_corpus_v1
from spacy_elmo.training.text.splitters import build_lines_v1, build_sentencizer_v1
from spacy_elmo.training.text.tokenizing import Tokenizer

from ..conftest import make_sentences
from .texts import SENTENCES, TEXT, write


def make_corpus(**settings):
    # The tokenizer of this language is soon made.
    return build_text_corpus_v1(**{"lang": "xx", **settings})


@pytest.fixture
def tokenized(monkeypatch):
    """How many files were tokenized: a list that grows."""
    calls = []
    real = Tokenizer.tokenize

    def tokenize(self, chunks):
        calls.append(1)
        return real(self, chunks)

    monkeypatch.setattr(Tokenizer, "tokenize", tokenize)
    return calls


def read(path, cache, **settings):
    corpus = make_corpus(path=str(path), cache=str(cache), **settings)
    return list(corpus.read_stream().iter_sentences())


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "texts" / "a.txt", TEXT)
    write(tmp_path / "texts" / "b.txt.gz", "Another river.")
    return tmp_path / "texts"


def test_a_second_run_tokenizes_nothing(folder, tmp_path, tokenized):
    expected = [*SENTENCES, ["Another", "river", "."]]
    assert read(folder, tmp_path / "cache") == expected
    assert len(tokenized) == 2
    assert read(folder, tmp_path / "cache") == expected
    assert len(tokenized) == 2


def test_a_new_file_costs_only_itself(folder, tmp_path, tokenized):
    read(folder, tmp_path / "cache")
    # Where a file lies and what it is called, but for its suffixes, makes no difference.
    write(folder / "0.txt", "A bank.")
    (folder / "a.txt").rename(folder / "z.txt")
    sentences = [["A", "bank", "."], ["Another", "river", "."], *SENTENCES]
    assert read(folder, tmp_path / "cache") == sentences
    assert len(tokenized) == 3
    (folder / "z.txt").unlink()
    assert read(folder, tmp_path / "cache") == sentences[:2]
    assert len(tokenized) == 3


def test_changed_text_is_tokenized_again_even_if_it_looks_untouched(folder, tmp_path, tokenized):
    read(folder, tmp_path / "cache")
    times = (folder / "a.txt").stat()
    write(folder / "a.txt", TEXT.replace("bank", "boat"))
    os.utime(folder / "a.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read(folder, tmp_path / "cache")[0] == ["The", "boat", "is", "old", "."]
    assert len(tokenized) == 3


SETTINGS = [
    {},
    {"lang": "de"},
    {"tokenized": True},
    {"limit": 1},
    {"limit": 2},
    {"max_line_bytes": 1000},
    {"splitter": build_lines_v1()},
    {"splitter": build_sentencizer_v1(punct_chars=[":"])},
]


def test_each_setting_that_changes_the_result_has_text_of_its_own(tmp_path, tokenized):
    write(tmp_path / "a.txt", TEXT)
    path = tmp_path / "a.txt"
    expected = []
    for settings in SETTINGS:
        expected.append(read(path, "", **settings))
        assert read(path, tmp_path / "cache", **settings) == expected[-1]
    assert len(tokenized) == 2 * len(SETTINGS)
    assert [read(path, tmp_path / "cache", **settings) for settings in SETTINGS] == expected
    assert len(tokenized) == 2 * len(SETTINGS)


def test_a_trained_splitter_is_known_by_its_weights(tmp_path, tokenized):
    write(tmp_path / "a.txt", TEXT)

    def senter(seed):
        def add(nlp):
            fix_random_seed(seed)
            nlp.add_pipe("senter")
            nlp.initialize()

        return add

    for seed in (0, 1, 0):
        read(tmp_path / "a.txt", tmp_path / "cache", splitter=senter(seed))
    assert len(tokenized) == 2


def test_settings_that_do_not_change_the_result_share_the_text(tmp_path, tokenized):
    write(tmp_path / "a.txt", TEXT)
    for settings in ({}, {"on_error": "skip"}, {"n_process": 2}, {"limit": 0}):
        if settings:
            read(tmp_path / "a.txt", tmp_path / "cache", **settings)
        else:
            read(tmp_path / "a.txt", tmp_path / "cache")
    assert len(tokenized) == 1


def test_the_key_does_not_change_from_process_to_process(folder, tmp_path):
    """Strings hash differently in each."""
    read(folder, tmp_path / "cache")
    before = sorted(path.name for path in (tmp_path / "cache").iterdir())
    code = (
        "import sys; from spacy_elmo.training.text.corpus import build_text_corpus_v1 as build; "
        "build(path=sys.argv[1], cache=sys.argv[2], lang='xx').read_stream()"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "cache")]
    subprocess.run(command, check=True, env=environment)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == before


def damage_size(data):
    return data[:-1]


def damage_start(data):
    return bytes([data[0] ^ 1]) + data[1:]


def damage_end(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def damage_all(data):
    return b""


@pytest.mark.parametrize("damage", [damage_size, damage_start, damage_end, damage_all])
@pytest.mark.parametrize("is_one_file", [True, False])
def test_damaged_shards_are_made_anew(folder, tmp_path, tokenized, damage, is_one_file):
    path = folder / "a.txt" if is_one_file else folder
    expected = read(path, tmp_path / "cache")
    n_before = len(tokenized)
    for shard in (tmp_path / "cache").iterdir():
        shard.write_bytes(damage(shard.read_bytes()))
    assert read(path, tmp_path / "cache") == expected
    assert len(tokenized) == 2 * n_before
    assert read(path, tmp_path / "cache") == expected
    assert len(tokenized) == 2 * n_before


def test_what_a_faulty_or_stopped_run_wrote_is_not_kept(tmp_path):
    write(tmp_path / "a.txt", b"fine\n" * 5000 + b"\xff\n")
    with pytest.raises(ValueError, match="line 5001"):
        read(tmp_path, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []

    def stop(n_bytes, n_bytes_in_all):
        raise KeyboardInterrupt

    corpus = make_corpus(path=str(tmp_path), cache=str(tmp_path / "cache"))
    with pytest.raises(KeyboardInterrupt):
        corpus.read_stream(stop)
    assert list((tmp_path / "cache").iterdir()) == []


KILLED = """
import os, signal, sys
from spacy_elmo.training.text.corpus import build_text_corpus_v1 as make_corpus
def kill(n_bytes, n_bytes_in_all):
    if n_bytes > n_bytes_in_all / 2:
        os.kill(os.getpid(), signal.SIGKILL)
make_corpus(path=sys.argv[1], cache=sys.argv[2], lang='xx', tokenized=True).read_stream(kill)
"""


def test_a_killed_run_leaves_nothing_that_is_trusted(tmp_path):
    sentences = make_sentences(20_000)
    write(tmp_path / "a.txt", "\n".join(map(" ".join, sentences)))
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a.txt"), str(cache)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    (leftover,) = cache.iterdir()
    assert read(tmp_path / "a.txt", cache, tokenized=True) == sentences
    assert leftover.exists()
    # It may belong to a run at work, until it is old.
    os.utime(leftover, (time.time() - 2 * MAX_AGE,) * 2)
    assert len(read(tmp_path / "a.txt", cache, tokenized=True, limit=9)) == 9
    assert not leftover.exists()


def test_two_runs_at_the_same_time_do_not_disturb_each_other(folder, tmp_path):
    """The second one starts and ends while the first one writes."""
    cache = tmp_path / "cache"
    results = []

    def read_too(n_bytes, n_bytes_in_all):
        if not results:
            results.append(read(folder, cache))

    corpus = make_corpus(path=str(folder), cache=str(cache))
    stream = corpus.read_stream(read_too)
    assert list(stream.iter_sentences()) == results[0] == read(folder, cache)
    # What is mapped stays as it is, even if the files are removed.
    shutil.rmtree(cache)
    assert list(stream.iter_sentences()) == results[0]


@pytest.mark.parametrize("cache", ["", False])
def test_no_cache_writes_nothing(folder, tmp_path, cache, monkeypatch):
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    corpus = make_corpus(path=str(folder), cache=cache)
    assert list(WordStream.from_corpus(corpus).iter_sentences())[:4] == SENTENCES
    assert not (tmp_path / "cache").exists()


def test_numbers_of_words_are_the_same_with_and_without_a_cache(folder, tmp_path):
    """They decide the order in which a batch's words are read, and so the last bits of weights."""
    streams = [
        make_corpus(path=str(folder), cache=cache).read_stream()
        for cache in ("", str(tmp_path / "cache"))
    ]
    streams.append(WordStream.from_sentences(make_corpus(path=str(folder))))
    for stream in streams[1:]:
        assert list(stream.words) == list(streams[0].words)
        assert stream.types.tolist() == streams[0].types.tolist()
        assert stream.lengths.tolist() == streams[0].lengths.tolist()


def test_the_default_directory(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / "own"
    make_corpus(path=str(folder)).read_stream()
    assert len(list((tmp_path / "own").glob("*.shard"))) == 3
    monkeypatch.delenv("SPACY_ELMO_CACHE")
    assert default_directory() == tmp_path / "xdg" / "spacy-elmo"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_directory() == tmp_path / ".cache" / "spacy-elmo"


def test_a_directory_that_cannot_be_written_is_named(folder, tmp_path):
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(OSError, match="cache is '.*file.cache', where .* Set cache to another"):
        read(folder, tmp_path / "file" / "cache")


def test_a_full_disk_is_named_and_leaves_nothing(folder, tmp_path, monkeypatch):
    def no_space(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spacy_elmo.training.text.shards.ShardWriter._write", no_space)
    with pytest.raises(OSError, match=r"No space left on device: .*\.shard'. Set cache to an"):
        read(folder, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_text_that_cannot_be_read_is_not_blamed_on_the_cache(folder, tmp_path, monkeypatch):
    corpus = make_corpus(path=str(folder), cache=str(tmp_path / "cache"))
    (folder / "a.txt").unlink()
    with pytest.raises(FileNotFoundError, match="a.txt"):
        corpus.read_stream()


@pytest.mark.parametrize("cache", ["cache", ""])
def test_progress_counts_the_bytes_of_the_files(tmp_path, cache):
    seen = []
    n_bytes = 0
    for name in ("a.txt", "b.txt.gz", "c.jsonl"):
        text = "\n".join('{"tokens": ["one", "%06d"]}' % n for n in range(3000))
        n_bytes += write(tmp_path / "texts" / name, text).stat().st_size
    directory = str(tmp_path / cache) if cache else ""
    for _ in range(2):
        seen.clear()
        corpus = make_corpus(path=str(tmp_path / "texts"), tokenized=True, cache=directory)
        WordStream.from_corpus(corpus, progress=lambda *numbers: seen.append(numbers))
        assert seen[-1] == (n_bytes, n_bytes)
        assert {total for _, total in seen} == {n_bytes}
        done = [number for number, _ in seen]
        assert done == sorted(done)
