"""The file format of tokenized text."""

import io

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spacy_elmo.training.text.stream
from spacy_elmo.training.text.shards import ShardWriter, StoredWords, open_shard
from spacy_elmo.training.text.stream import number_sentences

from ..conftest import make_sentences

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


def write_shard(path, parts, faults=()):
    with path.open("wb") as file:
        writer = ShardWriter(file)
        for sentences in parts:
            writer.append(number_sentences(sentences))
        for fault in faults:
            writer.add_fault(fault, max_kept=2)
        writer.finish()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.lists(WORDS, min_size=1, max_size=6), max_size=4), max_size=4))
def test_what_is_written_piece_by_piece_is_read_as_one_text(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("shard") / "a.shard"
    write_shard(path, parts)
    stream = open_shard(path).stream
    sentences = [sentence for part in parts for sentence in part]
    assert list(stream.iter_sentences()) == sentences
    expected = number_sentences(sentences)
    assert list(stream.words) == list(expected.words)
    assert [stream.words[n] for n in range(len(stream.words))] == list(expected.words)
    assert stream.types.tolist() == expected.types.tolist()
    assert stream.count_words() == expected.count_words()


def test_faults_are_kept_as_far_as_asked(tmp_path):
    write_shard(tmp_path / "a", [], ["line 1: ü", "line 2", "line 3"])
    shard = open_shard(tmp_path / "a")
    assert (shard.faults, shard.n_faults) == (["line 1: ü", "line 2"], 3)
    assert shard.stream.n_sentences == 0


def test_every_cut_and_every_flipped_byte_is_told(tmp_path):
    path = tmp_path / "a"
    write_shard(path, [make_sentences(2)], ["line 1"])
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        assert open_shard(path) is None
        path.write_bytes(whole[:n] + bytes([whole[n] ^ 64]) + whole[n + 1 :])
        assert open_shard(path) is None
    path.write_bytes(whole + b"\0")
    assert open_shard(path, verify=False) is None
    path.write_bytes(whole[:100] + whole)
    assert open_shard(path, verify=False) is None
    path.write_bytes(whole)
    assert open_shard(path).stream.n_sentences == 2
    assert open_shard(tmp_path / "none") is None


def test_stored_words_are_a_sequence(tmp_path):
    write_shard(tmp_path / "a", [[["a", "bank", "Ærø"]]])
    words = open_shard(tmp_path / "a").stream.words
    assert isinstance(words, StoredWords)
    assert list(words[:4]) == ["<S>", "</S>", "a", "bank"]
    assert "Ærø" in words and words.index("bank") == 3
    with pytest.raises(IndexError, match="The word is number 5; expected 0 to 4"):
        words[5]
    with pytest.raises(ValueError, match="expected the first words"):
        words[1:]


def test_the_file_need_not_be_seekable_or_named():
    file = io.BytesIO()
    ShardWriter(file).finish()
    assert file.getvalue().endswith(b"elmoshrd")


def test_memory_that_was_released_comes_back(tmp_path, monkeypatch):
    monkeypatch.setattr(spacy_elmo.training.text.stream, "MAX_MAPPED_BYTES", 0)
    monkeypatch.setattr(spacy_elmo.training.text.stream, "RELEASE_AFTER", 10)
    write_shard(tmp_path / "a", [make_sentences(2000)])
    stream = open_shard(tmp_path / "a").stream
    expected = number_sentences(make_sentences(2000))
    assert (stream.count_types() == expected.count_types()).all()
    found, wanted = (each.shuffled_types((0, 0)) for each in (stream, expected))
    for begin in range(0, stream.n_positions - 8, 8):
        positions = numpy.arange(begin, begin + 8)
        assert (found[positions] == wanted[positions]).all()
    assert list(stream.words) == list(expected.words)
