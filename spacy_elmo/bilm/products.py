"""Precision and sizes of the products in hand-written training passes."""

import torch
from torch import Tensor

# Rows of a matrix are a multiple of this many columns apart, which vector units like.
COLUMNS = 16


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The precision that autocast wants products of a tensor's device to have; without autocast,
    the tensor's own."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def round_up(n: int, step: int) -> int:
    """The next multiple of ``step``."""
    return -(-n // step) * step
