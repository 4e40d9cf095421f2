"""Vectors for people: what ``vector`` and ``similarity`` of tokens, spans and Docs follow."""

import multiprocessing
import pickle
import warnings

import numpy
import pytest
from spacy.tokens import Doc, DocBin

from spacy_elmo.pipeline import set_vector_hooks

from .conftest import WIDTH

RIVER = "The bank of the river"
MONEY = "The bank lent money"


@pytest.fixture(params=[False, True], ids=["no table", "static vectors"])
def nlp(make_nlp, request):
    nlp = make_nlp(lang="xx", vector_hooks=True)
    if request.param:
        nlp.vocab.set_vector("bank", numpy.ones(7, dtype="f"))
    return nlp


def cosine(left, right):
    return float(left @ right / numpy.linalg.norm(left) / numpy.linalg.norm(right))


def test_without_hooks_vectors_follow_the_context_unless_a_table_is_there(make_nlp):
    nlp = make_nlp(lang="xx")
    river, money = nlp(RIVER), nlp(MONEY)
    assert not numpy.allclose(river[1].vector, money[1].vector)
    # spaCy compares the texts first.
    assert river[1].similarity(money[1]) == 1.0
    nlp.vocab.set_vector("bank", numpy.ones(7, dtype="f"))
    river, money = nlp(RIVER), nlp(MONEY)
    assert numpy.array_equal(river[1].vector, money[1].vector)
    assert river.tensor.shape == (5, WIDTH)


def test_with_hooks_all_vectors_are_those_of_the_tensor(nlp):
    doc = nlp(RIVER)
    for text, rows in ((doc[1], doc.tensor[1:2]), (doc[1:4], doc.tensor[1:4]), (doc, doc.tensor)):
        assert text.has_vector
        assert numpy.allclose(text.vector, rows.mean(axis=0), atol=1e-6)
        assert text.vector_norm == pytest.approx(numpy.linalg.norm(text.vector), rel=1e-5)


def test_with_hooks_similarity_follows_the_context(nlp):
    river, money = nlp(RIVER), nlp(MONEY)
    pairs = [
        (river[1], money[1]),
        (river[0:2], money[0:2]),
        (river, money),
        (river[1], money),
        (river[1:3], money[1]),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for left, right in pairs:
            assert left.similarity(right) == pytest.approx(cosine(left.vector, right.vector))
            assert left.similarity(right) < 0.99999
    assert river[1].similarity(nlp(RIVER)[1]) == pytest.approx(1.0)


def test_with_hooks_docs_without_words_have_zeros(nlp):
    empty, spaces, words = nlp(""), nlp("\n\n"), nlp(RIVER)
    assert empty.vector.shape == (WIDTH,) and not empty.vector.any() and not empty.has_vector
    assert empty.similarity(words) == words.similarity(spaces[0]) == 0.0
    assert words[2:2].vector.shape == (WIDTH,)


def test_vectors_of_another_width_are_named(make_nlp, nlp):
    nlp.vocab.set_vector("bank", numpy.ones(7, dtype="f"))
    static = nlp.make_doc("bank")
    with pytest.raises(ValueError, match=f"width {WIDTH} with one of width 7"):
        nlp(RIVER).similarity(static)
    with pytest.raises(ValueError, match="vector_hooks = true needs the vectors in doc.tensor"):
        make_nlp(lang="xx", vector_hooks=True, set_tensor=False)


def test_what_bytes_pickle_and_docbin_keep(nlp):
    doc = nlp(RIVER)
    assert numpy.array_equal(pickle.loads(pickle.dumps(doc))[1].vector, doc.tensor[1])
    with pytest.warns(UserWarning, match="W109"):
        data = doc.to_bytes()
    loaded = Doc(nlp.vocab).from_bytes(data)
    assert not loaded.user_hooks
    assert numpy.array_equal(set_vector_hooks(loaded)[1].vector, doc.tensor[1])
    (binned,) = DocBin(docs=[doc]).get_docs(nlp.vocab)
    assert not binned.tensor.size and not binned.user_hooks
    # The component gives a Doc without vectors what it had.
    assert numpy.allclose(nlp.get_pipe("elmo")(binned).vector, doc.vector, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*W109")
def test_docs_of_other_processes_have_tensors_and_no_hooks(make_nlp, monkeypatch):
    import spacy.language

    nlp = make_nlp(lang="xx", vector_hooks=True)
    expected = [doc.tensor for doc in nlp.pipe([RIVER, MONEY])]
    monkeypatch.setattr(spacy.language, "mp", multiprocessing.get_context("spawn"))
    docs = list(nlp.pipe([RIVER, MONEY], n_process=2, batch_size=1))
    for doc, tensor in zip(docs, expected):
        assert numpy.allclose(doc.tensor, tensor, atol=1e-5) and not doc.user_hooks
    river, money = map(set_vector_hooks, docs)
    assert river[1].similarity(money[1]) < 0.99999
