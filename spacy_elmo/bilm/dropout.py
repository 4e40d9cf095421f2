"""Dropout that draws few random numbers."""

import torch
from torch import Tensor

# What one random number of 64 bits holds.
NUMBERS, LEVELS = 4, 2**16


def dropout(x: Tensor, rate: float) -> Tensor:
    """Set values to zero at random and scale the others up, so that the mean stays.

    On a CPU, drawing a random number for every value takes as long as much of an LSTM layer; 16
    bits of one are enough to tell whether a value stays, if ``rate`` is taken to a multiple of
    2 ** -16.

    :param x: any shape.
    :param rate: part of the values that become zero, below 1.
    """
    n = x.numel()
    numbers = torch.empty(-(-n // NUMBERS), dtype=torch.int64, device=x.device)
    # All 64 bits are random.
    numbers.random_(-(2**63), None)
    n_dropped = round(rate * LEVELS)
    is_kept = numbers.view(torch.int16)[:n] >= n_dropped - LEVELS // 2
    scale = LEVELS / max(1, LEVELS - n_dropped)
    return x * is_kept.to(x.dtype).mul_(scale).view(x.shape)
