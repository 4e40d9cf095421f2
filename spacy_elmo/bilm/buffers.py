"""Large intermediate results of training, kept from one step to the next.

A fresh buffer of tens of megabytes costs a page fault for each of its pages, which on a CPU takes
longer than much of what is computed in it. A training loop works in buffers of the same few
shapes all the time, so it keeps them.
"""

from contextlib import contextmanager
from math import prod
from typing import Dict, Iterator, List, Optional, Tuple

import torch
from torch import Tensor

from .products import round_up

_Kind = Tuple[torch.dtype, torch.device]
# Flat buffers that nothing uses at the moment.
_free: Optional[Dict[_Kind, List[Tensor]]] = None


@contextmanager
def reuse_buffers() -> Iterator[None]:
    """While the block runs, buffers that are given back are taken again; at its end they are
    freed. Not for several threads at a time."""
    global _free
    before, _free = _free, {}
    try:
        yield
    finally:
        _free = before


def take_buffer(shape: Tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A contiguous tensor of any content."""
    if _free is None:
        return torch.empty(shape, dtype=dtype, device=device)
    n = prod(shape)
    free = _free.setdefault((dtype, device), [])
    fitting = [flat for flat in free if n <= len(flat) <= 2 * _size_class(n)]
    if fitting:
        flat = min(fitting, key=len)
        # By identity: tensors compare element by element.
        free[:] = [other for other in free if other is not flat]
    else:
        flat = torch.empty(_size_class(n), dtype=dtype, device=device)
    return flat[:n].view(shape)


def give_back(*buffers: Tensor) -> None:
    """Say that nothing needs the contents of these tensors, which :func:`take_buffer` gave, any
    more."""
    if _free is not None:
        for buffer in buffers:
            flat = buffer if buffer._base is None else buffer._base
            if flat.dim() == 1:
                _free.setdefault((flat.dtype, flat.device), []).append(flat)


def _size_class(n: int) -> int:
    """A size near ``n``, of few sizes, so that buffers of changing sizes can serve each other and
    their number stays small."""
    step = max(64, 1 << max(0, n.bit_length() - 3))
    return round_up(max(1, n), step)


class Lease:
    """Buffers that are given back when nothing refers to this object any more; as an attribute of
    a graph's node, when the graph is freed.

    :param buffers: what nothing else will use then.
    """

    def __init__(self, *buffers: Tensor) -> None:
        self.buffers = buffers

    def __del__(self) -> None:
        give_back(*self.buffers)
