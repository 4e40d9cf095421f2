"""Dropout: the share of zeros, the mean, the seed."""

import pytest
import torch

from spacy_elmo.bilm.dropout import dropout


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.99])
def test_the_share_of_zeros_is_the_rate_and_the_mean_stays(rate):
    torch.manual_seed(0)
    dropped = dropout(torch.ones(501, 401), rate)
    assert float((dropped == 0).float().mean()) == pytest.approx(rate, abs=0.005)
    assert float(dropped.mean()) == pytest.approx(1, abs=0.05)
    assert len(dropped.unique()) == (1 if rate == 0 else 2)


def test_values_fall_independently():
    """Neighbours share a random number, but no bit of it."""
    torch.manual_seed(0)
    is_zero = (dropout(torch.ones(100_000), 0.3) == 0).float()
    for distance in (1, 2, 3, 4):
        both = (is_zero[:-distance] * is_zero[distance:]).mean()
        assert float(both) == pytest.approx(0.09, abs=0.005)


def test_the_seed_tells_what_is_dropped():
    x = torch.randn(33, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(x, 0.4)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.4), first)
    (grad,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(grad * x.detach(), first.detach())
    assert not torch.equal(dropout(x, 0.4), first)


def test_no_values_are_no_error():
    assert dropout(torch.ones(0, 3), 0.1).shape == (0, 3)
