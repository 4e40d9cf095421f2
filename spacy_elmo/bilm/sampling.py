"""Samples of the vocabulary: which words a sampled softmax compares with."""

from typing import Callable, Dict, Literal

import torch
from torch import Tensor

Distribution = Literal["log_uniform", "counts"]


def log_uniform(counts: Tensor) -> Tensor:
    """Probability of each word in a log-uniform draw over the ranks by count, as in bilm-tf.

    :param counts: *Shape:* (n_words,)
    :returns: *Shape:* (n_words,), float64
    """
    rank = torch.empty(len(counts), dtype=torch.float64)
    order = torch.argsort(counts, descending=True, stable=True)
    rank[order] = torch.arange(len(counts), dtype=torch.float64)
    return torch.log1p(1 / (rank + 1)) / torch.log(torch.tensor(len(counts) + 1.0).double())


def by_counts(counts: Tensor) -> Tensor:
    """Probability of each word in a draw from the text; a word without a count counts as one.

    :param counts: *Shape:* (n_words,)
    :returns: *Shape:* (n_words,), float64
    """
    frequency = counts.clamp(min=1).double()
    return frequency / frequency.sum()


DRAWS: Dict[str, Callable[[Tensor], Tensor]] = {"log_uniform": log_uniform, "counts": by_counts}


def inclusion_probabilities(of_a_draw: Tensor, n_samples: int) -> Tensor:
    """Probability of each word to be among the distinct words of as many draws as give
    ``n_samples`` distinct words on average.

    :param of_a_draw: probability of each word in a draw, above 0. *Shape:* (n_words,), float64
    :returns: *Shape:* (n_words,), float32, sum ``min(n_samples, n_words)``
    """
    if n_samples >= len(of_a_draw):
        return torch.ones(len(of_a_draw))
    missed = torch.log1p(-of_a_draw.clamp(max=1 - 1e-12))
    # The expected number of distinct words grows with the number of draws.
    low, high = 0.0, 1.0
    while float(-torch.expm1(high * missed).sum()) < n_samples:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if float(-torch.expm1(middle * missed).sum()) < n_samples:
            low = middle
        else:
            high = middle
    return -torch.expm1(high * missed).float()


def draw_sample(inclusion: Tensor) -> Tensor:
    """A sample without replacement, of fixed size, in which each word is with a probability of
    its own: systematic sampling in random order (Madow 1949).

    :param inclusion: probabilities whose sum is a whole number, the size of the sample.
        *Shape:* (n_words,)
    :returns: rising word numbers. *Shape:* (n_samples,)
    """
    order = torch.randperm(len(inclusion), device=inclusion.device)
    ends = inclusion[order].double().cumsum(0)
    # Scaled so that rounding cannot change the size.
    ends *= ends[-1].round() / ends[-1]
    start = torch.rand((), dtype=torch.float64, device=inclusion.device)
    crossed = (ends + start).floor()
    is_drawn = crossed.diff(prepend=crossed.new_zeros(1)) > 0
    return order[is_drawn].sort().values
