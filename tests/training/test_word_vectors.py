"""Files and pipelines of word vectors: what is read, and faults by line."""

import gzip

import numpy
import pytest
import spacy

from spacy_elmo.training.word_vectors import open_vectors

from .test_word_table import make_vectors, write_pipeline, write_vectors

NAMES = ["the", "東京", "New York", "."]


@pytest.mark.parametrize("kind", ["v.vec", "v.txt", "v.gz", "pipeline"])
def test_vectors_are_found(tmp_path, kind):
    vectors = make_vectors(NAMES)
    writer = write_pipeline if kind == "pipeline" else write_vectors
    found = open_vectors(writer(tmp_path / kind, vectors))
    assert found.dim == 5
    assert set(found.first(0)) == set(NAMES) and len(found.first(2)) == 2
    some = found.find(["the", "New York", "elsewhere"])
    assert set(some) == {"the", "New York"}
    for word, vector in some.items():
        numpy.testing.assert_array_equal(vector, vectors[word])


def test_floret_has_a_vector_of_any_word_but_no_list(tmp_path):
    nlp = spacy.blank("en")
    nlp.vocab.vectors = spacy.vectors.Vectors(
        data=numpy.random.default_rng(0).normal(size=(20, 5)).astype("f"),
        mode="floret",
        minn=2,
        maxn=3,
        hash_count=1,
        strings=nlp.vocab.strings,
    )
    nlp.to_disk(tmp_path / "floret")
    found = open_vectors(str(tmp_path / "floret"))
    numpy.testing.assert_allclose(found.find(["ab"])["ab"], nlp.vocab.get_vector("ab"))
    with pytest.raises(ValueError, match="has vectors for any word and no list of words"):
        found.first(0)


def test_lines_that_are_no_text_are_left_out(tmp_path):
    (tmp_path / "v.vec").write_bytes(b"2 2\n\xe6\x9d 1 2\nthe 3 4\n")
    assert open_vectors(str(tmp_path / "v.vec")).first(0) == ["the"]


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", r"v.vec, line 1: b''; expected a word and its vector"),
        (b"word\n", r"v.vec, line 1: b'word'; expected a word and its vector"),
        (
            b"2 3\n\x00\x12\x90",
            r"v.vec, line 2: .*; expected a word and 3 numbers. Binary files are",
        ),
        (b"2 3\nthe a b c\n", r"line 2: b'the a b c'; expected a word and 3 numbers"),
        (b"2 2\nthe 1 2\na 1\n", r"line 3: b'a 1'; expected a word and 2 numbers"),
        (b"3 2\nthe 1 2\na 1 2\n", r"v.vec has 2 vectors; expected 3, as its first line says"),
        (b"2 2\nthe 1 2\na 1 x\n", r"line 3: could not convert"),
        (b"2 2\nthe 1 2\na 1 nan\n", r"line 3: a number that is NaN"),
    ],
)
def test_faulty_files(tmp_path, data, message):
    (tmp_path / "v.vec").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        open_vectors(str(tmp_path / "v.vec")).find(["the", "a"])


def test_compressed_file_cut_short(tmp_path):
    data = gzip.compress(b"2 2\nthe 1 2\na 1 2\n" * 50)
    (tmp_path / "v.vec.gz").write_bytes(data[:-9])
    with pytest.raises(ValueError, match=r"v.vec.gz is damaged or cut short"):
        open_vectors(str(tmp_path / "v.vec.gz")).find(["the"])


def test_pipelines_without_vectors(tmp_path):
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match="blank is a spaCy pipeline without vectors"):
        open_vectors(str(tmp_path / "blank"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is no spaCy pipeline"):
        open_vectors(str(tmp_path / "empty"))
