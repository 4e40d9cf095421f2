"""Settings that make a pipeline faster: they change where and how, and not what."""

import threading

import numpy
import pytest
import torch

from spacy_elmo.models import devices
from spacy_elmo.models.architectures import build_elmo_v1

from .conftest import TEXTS, bilm_of, make_examples, train

N_THREADS, N_DOCS = 8, 200


def tensors(nlp, texts=TEXTS):
    others = [name for name in nlp.pipe_names if name != "elmo"]
    return [doc.tensor for doc in nlp.pipe(texts, disable=others)]


def test_precision_and_cached_words_reach_the_bilm(make_nlp):
    exact, low, uncached = (
        make_nlp(model=model) for model in ({}, {"precision": "bfloat16"}, {"cached_words": 0})
    )
    expected = tensors(exact)
    for found, wanted in zip(tensors(uncached), expected):
        numpy.testing.assert_allclose(found, wanted, atol=1e-5, rtol=0)
    differences = [numpy.abs(a - b).max() for a, b in zip(tensors(low), expected)]
    assert 1e-5 < max(differences) < 0.1
    assert len(bilm_of(exact).word_cache) > 0 and len(bilm_of(uncached).word_cache) == 0


def test_settings_are_no_part_of_the_saved_weights(make_nlp, tmp_path):
    import spacy

    nlp = make_nlp(model={"precision": "bfloat16", "device": "cpu"})
    nlp.to_disk(tmp_path)
    changes = {"components.elmo.model.precision": "float32"}
    expected = tensors(make_nlp())
    for found, wanted in zip(tensors(spacy.load(tmp_path, config=changes)), expected):
        numpy.testing.assert_allclose(found, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "model,match",
    [
        ({"device": "gpu"}, "device is 'gpu'; expected 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'"),
        ({"cached_words": -1}, r"cached_words is -1; expected 0 \(none\) or more"),
    ],
)
def test_settings_that_cannot_be_are_named(make_nlp, model, match):
    with pytest.raises(ValueError, match=match):
        make_nlp(model=model)
    with pytest.raises(ValueError, match="precision is 'half'; expected 'float32' or 'bfloat16'"):
        build_elmo_v1(precision="half")


def test_a_forked_worker_with_cuda_gives_one_message(make_nlp, monkeypatch):
    nlp = make_nlp(model={"device": "cuda"})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(ValueError, match=r"n_process.*Leave n_process at 1"):
        list(nlp.pipe(TEXTS))


def test_training_on_a_gpu_without_cupy_is_refused(make_nlp, monkeypatch):
    nlp = make_nlp("tagger", frozen=False)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    monkeypatch.setattr(
        type(bilm_of(nlp)), "device", property(lambda bilm: torch.device("cuda", 0))
    )
    monkeypatch.setattr(devices, "get_torch_default_device", lambda: torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="no optimizer without CuPy"):
        nlp.update(make_examples(nlp), sgd=optimizer)


def test_no_vector_of_the_old_weights_is_left_after_training(make_nlp):
    nlp = make_nlp("tagger", frozen=False)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    optimizer.learn_rate = 0.1
    before = tensors(nlp)
    for _ in range(2):
        nlp.update(make_examples(nlp), sgd=optimizer)
        found = tensors(nlp)
        fresh = make_nlp("tagger")
        bilm_of(fresh).load_state_dict(bilm_of(nlp).state_dict())
        for one, other in zip(found, tensors(fresh)):
            numpy.testing.assert_allclose(one, other, atol=1e-5, rtol=0)
    assert numpy.abs(found[0] - before[0]).max() > 1e-3


def test_threads_share_a_pipeline(make_nlp):
    nlp = make_nlp(model={"cached_words": 40})
    texts = [f"word{i % 70} at the bank of word{i % 11} ." for i in range(N_DOCS)]
    expected = [doc.tensor.copy() for doc in make_nlp().pipe(texts)]
    results = {}

    def work(number):
        rng = numpy.random.default_rng(number)
        order = rng.permutation(N_DOCS)
        if number % 2:
            found = [nlp(texts[i]).tensor for i in order]
        else:
            found = [doc.tensor for doc in nlp.pipe([texts[i] for i in order], batch_size=16)]
        results[number] = max(numpy.abs(a - expected[i]).max() for a, i in zip(found, order))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == N_THREADS and max(results.values()) < 1e-5
    assert len(bilm_of(nlp).word_cache) <= 40


def test_training_frozen_keeps_vectors(make_nlp):
    nlp = make_nlp("tagger")
    before = tensors(nlp)
    train(nlp, steps=2)
    for one, other in zip(tensors(nlp), before):
        numpy.testing.assert_array_equal(one, other)
