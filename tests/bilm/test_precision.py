"""Products of a lower precision: nearly the same vectors, and only where they are asked for."""

import numpy
import pytest
import torch

from spacy_elmo.bilm.precision import autocast

from .test_embed import assert_close, make_sentence

pytestmark = pytest.mark.usefixtures("either_recurrence")

SENTENCES = [make_sentence(length, seed=length) for length in (1, 4, 12, 30)]


def cosines(left, right):
    """Of each layer's rows, the lowest."""
    products = [
        (a * b).sum(-1) / (numpy.linalg.norm(a, axis=-1) * numpy.linalg.norm(b, axis=-1))
        for a, b in zip(left, right)
    ]
    return numpy.concatenate(products, axis=1).min(axis=1)


@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
def test_bfloat16_is_near_float32(make_bilm, initial_state):
    bilm = make_bilm(scale=1.5)
    exact = bilm.embed(SENTENCES, initial_state=initial_state)
    near = bilm.embed(SENTENCES, initial_state=initial_state, precision="bfloat16")
    assert all(array.dtype == numpy.float32 for array in near)
    assert (cosines(exact, near) > 0.999).all()
    # The token layer is of float32 anyway; the layers above are not.
    assert_close([a[:1] for a in near], [a[:1] for a in exact])
    assert max(numpy.abs(a - b).max() for a, b in zip(exact, near)) > 1e-4
    assert_close(bilm.embed(SENTENCES, initial_state=initial_state), exact, atol=0)


def test_the_callers_autocast_changes_nothing(bilm):
    expected = bilm.embed(SENTENCES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(bilm.embed(SENTENCES), expected, atol=0)


def test_a_precision_that_is_none_or_not_there_is_named(bilm, monkeypatch):
    with pytest.raises(ValueError, match=r"precision is 'half'; expected one of float32, bfloat16"):
        bilm.embed(SENTENCES, precision="half")
    with pytest.raises(ValueError, match=r"'bfloat16', which this device \(mps\) does not have; s"):
        autocast(torch.device("mps"), "bfloat16")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(ValueError, match=r"this device \(cuda\) does not have"):
        autocast(torch.device("cuda"), "bfloat16")
