"""What the gates of an LSTM layer do at a step of training, and its derivative: compiled where that
is possible, else by torch's operations.

What a step keeps is of the precision of the products. The cell value and its gradient, which are
summed over time, are of full precision. Rows are those of the sequences that are running.
"""

from math import inf
from typing import List, NamedTuple, Optional, Protocol

import torch
from torch import Tensor

from .buffers import give_back, take_buffer
from .kernel import GatesArguments, Variant, address, variants

_clip_backward = torch.ops.aten.hardtanh_backward.grad_input
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class KeptValues(NamedTuple):
    """What a step keeps for its derivative, or all steps side by side.

    *Shapes:* gates (n, 4 * cell_size), the others (n, cell_size)
    """

    gates: Tensor
    cell: Tensor
    tanh_cell: Tensor
    #: What leaves the cells.
    gated: Tensor

    def split(self, batch_sizes: List[int]) -> List["KeptValues"]:
        """Those of each step."""
        return [KeptValues(*parts) for parts in zip(*(part.split(batch_sizes) for part in self))]


class Gates(Protocol):
    """The gates of a layer of one direction. Order: input, forget, candidate, output."""

    def forward(self, products: Tensor, cell: Tensor, kept: KeptValues) -> None:
        """A step.

        :param products: what the gates are made of; may be overwritten. *Shape:* (n, 4 * cell_size)
        :param cell: the cell value, in place. *Shape:* (n, cell_size)
        :param kept: is written.
        """

    def backward(
        self,
        d_gated: Tensor,
        kept: KeptValues,
        cell_before: Tensor,
        d_cell: Tensor,
        n_after: int,
        d_gates: Tensor,
    ) -> None:
        """Its derivative.

        :param d_gated: the gradient of what left the cells; may be overwritten.
        :param d_cell: the gradient of the cell value after the step, for its first ``n_after``
            rows; then that of the cell value before it.
        :param d_gates: is written: the gradient of the products.
        """

    def close(self) -> None:
        """Give back what it works with."""


def make_gates(
    n_sequences: int, cell_size: int, cell_clip: Optional[float], dtype: torch.dtype, like: Tensor
) -> Gates:
    """The gates of a layer.

    :param dtype: of the products, and of what a step keeps.
    :param like: a tensor of full precision on the device.
    """
    is_stored = dtype in (torch.float32, torch.bfloat16) and like.dtype == torch.float32
    if is_stored and like.device.type == "cpu" and variants():
        return CompiledGates(variants()[0], cell_clip, dtype)
    return TorchGates(n_sequences, cell_size, cell_clip, dtype, like)


class CompiledGates:
    """See :class:`Gates`."""

    def __init__(self, variant: Variant, cell_clip: Optional[float], dtype: torch.dtype) -> None:
        self.variant, self.dtype = variant, dtype
        self.cell_clip = inf if cell_clip is None else cell_clip

    def forward(self, products: Tensor, cell: Tensor, kept: KeptValues) -> None:
        """See :class:`Gates`."""
        n, size = cell.shape
        stored = [self._address(tensor, n, 4 * size) for tensor in (products, kept.gates)]
        stored += [self._address(tensor, n, size) for tensor in kept[1:]]
        of_cell = address(cell, torch.float32, n, size)
        step = GatesArguments(size, self.cell_clip, 0, *stored, None, None, of_cell)
        self.variant.pass_gates(step, n, False, self.dtype)

    def backward(
        self,
        d_gated: Tensor,
        kept: KeptValues,
        cell_before: Tensor,
        d_cell: Tensor,
        n_after: int,
        d_gates: Tensor,
    ) -> None:
        """See :class:`Gates`."""
        n, size = d_cell.shape
        step = GatesArguments(
            size,
            self.cell_clip,
            n_after,
            None,
            self._address(kept.gates, n, 4 * size),
            self._address(kept.cell, n, size),
            self._address(kept.tanh_cell, n, size),
            self._address(d_gated, n, size),
            self._address(cell_before, n, size),
            self._address(d_gates, n, 4 * size),
            address(d_cell, torch.float32, n, size),
        )
        self.variant.pass_gates(step, n, True, self.dtype)

    def _address(self, tensor: Tensor, n_rows: int, n_columns: int) -> int:
        return address(tensor, self.dtype, n_rows, n_columns)

    def close(self) -> None:
        """See :class:`Gates`."""


class TorchGates:
    """See :class:`Gates`."""

    def __init__(
        self,
        n_sequences: int,
        cell_size: int,
        cell_clip: Optional[float],
        dtype: torch.dtype,
        like: Tensor,
    ) -> None:
        self.is_low = dtype != like.dtype
        self.cell_clip = cell_clip
        shape = (n_sequences, cell_size)
        self._wide = take_buffer(shape, like.dtype, like.device)
        self._other = take_buffer(shape, like.dtype, like.device)
        self._low = take_buffer(shape, dtype, like.device)

    def forward(self, products: Tensor, cell: Tensor, kept: KeptValues) -> None:
        """See :class:`Gates`."""
        n, size = cell.shape
        gates, kept_cell, tanh_cell, gated = kept
        in_gate, forget_gate, candidate, out_gate = gates.split(size, dim=1)
        wide, other = self._wide[:n], self._other[:n]
        torch.sigmoid(products[:, : 2 * size], out=gates[:, : 2 * size])
        torch.sigmoid(products[:, 3 * size :], out=out_gate)
        of_candidate = products[:, 2 * size : 3 * size]
        if self.is_low:
            # A tanh of the low precision takes longer than one of float32 and two copies.
            cell.mul_(wide.copy_(forget_gate))
            candidate.copy_(_tanh(wide.copy_(of_candidate), wide))
            cell.addcmul_(other.copy_(in_gate), wide)
        else:
            _tanh(of_candidate, candidate)
            cell.mul_(forget_gate).addcmul_(in_gate, candidate)
        if self.cell_clip is not None:
            cell.clamp_(-self.cell_clip, self.cell_clip)
        kept_cell.copy_(cell)
        if self.is_low:
            tanh_cell.copy_(_tanh(cell, wide))
        else:
            _tanh(cell, tanh_cell)
        torch.mul(out_gate, tanh_cell, out=gated)

    def backward(
        self,
        d_gated: Tensor,
        kept: KeptValues,
        cell_before: Tensor,
        d_cell: Tensor,
        n_after: int,
        d_gates: Tensor,
    ) -> None:
        """See :class:`Gates`."""
        n, size = d_cell.shape
        gates, kept_cell, tanh_cell, _ = kept
        in_gate, forget_gate, candidate, out_gate = gates.split(size, dim=1)
        d_in, d_forget, d_candidate, d_out = d_gates.split(size, dim=1)
        now, wide = self._other[:n], self._wide[:n]
        torch.mul(d_gated, tanh_cell, out=d_out)
        d_gated.mul_(out_gate)
        if self.is_low:
            _tanh_backward(d_gated, tanh_cell, grad_input=d_gated)
            now.copy_(d_gated)
        else:
            _tanh_backward(d_gated, tanh_cell, grad_input=now)
        now[:n_after].add_(d_cell[:n_after])
        if self.cell_clip is not None:
            clipped = wide.copy_(kept_cell) if self.is_low else kept_cell
            _clip_backward(now, clipped, -self.cell_clip, self.cell_clip, grad_input=now)
        if self.is_low:
            low = self._low[:n].copy_(now)
            torch.mul(now, wide.copy_(forget_gate), out=d_cell)
        else:
            low = now
            torch.mul(now, forget_gate, out=d_cell)
        torch.mul(low, candidate, out=d_in)
        torch.mul(low, cell_before, out=d_forget)
        torch.mul(low, in_gate, out=d_candidate)
        both, d_both = gates[:, : 2 * size], d_gates[:, : 2 * size]
        _sigmoid_backward(d_both, both, grad_input=d_both)
        _tanh_backward(d_candidate, candidate, grad_input=d_candidate)
        _sigmoid_backward(d_out, out_gate, grad_input=d_out)

    def close(self) -> None:
        """See :class:`Gates`."""
        give_back(self._wide, self._other, self._low)


def _tanh(x: Tensor, out: Tensor) -> Tensor:
    """``tanh(x) = 2 * sigmoid(2 * x) - 1``, which takes a quarter of the time of torch's tanh."""
    return torch.mul(x, 2, out=out).sigmoid_().mul_(2).sub_(1)
