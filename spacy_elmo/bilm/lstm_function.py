"""The recurrence of an LSTM layer with a backward pass of its own, for training.

torch's autograd would keep every intermediate result of every step and form the gradient of each
weight by one product a step. Here a step keeps what its derivative needs, in buffers that hold
all steps, and each weight's gradient is one product over all of them.

Under autocast the products and the gates are of the low precision; the cell state and what is
summed over time stay float32.
"""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .buffers import Lease, give_back, take_buffer
from .products import COLUMNS, autocast_dtype, round_up

_clip_backward = torch.ops.aten.hardtanh_backward.grad_input
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


def run_lstm(
    x: Tensor,
    batch_sizes: List[int],
    hidden: Tensor,
    cell: Tensor,
    input_weight: Tensor,
    state_weight: Tensor,
    bias: Tensor,
    projection_weight: Optional[Tensor],
    cell_clip: Optional[float],
    proj_clip: Optional[float],
) -> Tuple[Tensor, Tensor, Tensor]:
    """One layer of one direction over a packed batch, with gradients.

    No gradient flows into ``hidden`` and ``cell`` or out of the state that is returned: training
    cuts its graph between two windows (truncated backpropagation through time).

    :param x: *Shape:* (n_positions, input_size)
    :param batch_sizes: sequences running at each step.
    :param hidden: state before the first step. *Shape:* (n_sequences, projection_dim)
    :param cell: *Shape:* (n_sequences, cell_size)
    :param input_weight: *Shape:* (4 * cell_size, input_size)
    :param state_weight: *Shape:* (4 * cell_size, projection_dim)
    :param bias: what is added to the gates. *Shape:* (4 * cell_size,)
    :param projection_weight: *Shape:* (projection_dim, cell_size)
    :returns: outputs, *Shape:* (n_positions, projection_dim), and each sequence's hidden and cell
        state after its own last step.
    """
    dtype = autocast_dtype(x)
    weights = (input_weight, state_weight, bias, projection_weight)
    with torch.autocast(x.device.type, enabled=False):
        found: Tuple[Tensor, Tensor, Tensor] = _LSTM.apply(
            x.to(input_weight.dtype),
            batch_sizes,
            hidden.detach(),
            cell.detach(),
            *weights,
            cell_clip,
            proj_clip,
            dtype,
        )
    return found


class _LSTM(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        batch_sizes: List[int],
        hidden: Tensor,
        cell: Tensor,
        input_weight: Tensor,
        state_weight: Tensor,
        bias: Tensor,
        projection_weight: Optional[Tensor],
        cell_clip: Optional[float],
        proj_clip: Optional[float],
        dtype: torch.dtype,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        n_positions, input_size = x.shape
        n_sequences, size = cell.shape
        output_size = hidden.shape[1]
        full = x.dtype
        is_low = dtype != full

        def take(n_rows: int, n_columns: int, kind: torch.dtype = dtype) -> Tensor:
            return take_buffer((n_rows, n_columns), kind, x.device)

        # What each position reads: its input, the output of the step before, and a one, which
        # the bias is the weight of.
        weight = _joined_weight(input_weight, state_weight, bias, dtype)
        read = take(n_positions, weight.shape[1])
        read[:, :input_size].copy_(x)
        read[:, input_size + output_size :].zero_()
        read[:, input_size + output_size].fill_(1)
        gates = take(n_positions, 4 * size)
        cells = take(n_positions, size)
        tanh_cells = take(n_positions, size)
        gated = take(n_positions, size)
        outputs = torch.empty(n_positions, output_size, dtype=full, device=x.device)
        # The products of a step go where the step before has put its own, which a cache still
        # holds; what is kept is written once, when the gates are made of them.
        products = take(n_sequences, 4 * size)
        wide_in_gate = take(n_sequences, size, full)
        widened = take(n_sequences, size, full)
        new_cell, old_cell = take(n_sequences, size, full), take(n_sequences, size, full)
        low_output = take(n_sequences, output_size)
        scratch = (products, wide_in_gate, widened, new_cell, old_cell, low_output)
        old_cell.copy_(cell)

        if projection_weight is not None:
            projection_weight = projection_weight.to(dtype)
        weight_t = weight.t()
        projection_weight_t = None if projection_weight is None else projection_weight.t()
        ended: List[Tuple[Tensor, Tensor]] = []
        steps = zip(
            batch_sizes,
            *(
                buffer.split(batch_sizes)
                for buffer in (
                    read,
                    read[:, input_size : input_size + output_size],
                    *gates.split(size, dim=1),
                    gates[:, : 2 * size],
                    cells,
                    tanh_cells,
                    gated,
                    outputs,
                )
            ),
        )
        for n, now, before, in_gate, forget_gate, candidate, out_gate, *rest in steps:
            both, kept_cell, tanh_cell, gated_cell, output = rest
            if n < len(hidden):
                ended.append((hidden[n:], old_cell[n : len(hidden)].clone()))
                hidden = hidden[:n]
                wide_in_gate, widened = wide_in_gate[:n], widened[:n]
                new_cell, old_cell = new_cell[:n], old_cell[:n]
                low_output, products = low_output[:n], products[:n]
            before.copy_(hidden)
            torch.mm(now, weight_t, out=products)
            torch.sigmoid(products[:, : 2 * size], out=both)
            torch.sigmoid(products[:, 3 * size :], out=out_gate)
            of_candidate = products[:, 2 * size : 3 * size]
            if is_low:
                # A tanh of the low precision takes longer than one of float32 and two copies.
                torch.mul(widened.copy_(forget_gate), old_cell, out=new_cell)
                candidate.copy_(_tanh(widened.copy_(of_candidate), widened))
                new_cell.addcmul_(wide_in_gate.copy_(in_gate), widened)
            else:
                _tanh(of_candidate, candidate)
                torch.mul(forget_gate, old_cell, out=new_cell)
                new_cell.addcmul_(in_gate, candidate)
            if cell_clip is not None:
                new_cell.clamp_(-cell_clip, cell_clip)
            kept_cell.copy_(new_cell)
            if is_low:
                tanh_cell.copy_(_tanh(new_cell, widened))
            else:
                _tanh(new_cell, tanh_cell)
            torch.mul(out_gate, tanh_cell, out=gated_cell)

            hidden = output
            if projection_weight_t is None:
                hidden.copy_(gated_cell)
            else:
                if is_low:
                    hidden.copy_(torch.mm(gated_cell, projection_weight_t, out=low_output))
                else:
                    torch.mm(gated_cell, projection_weight_t, out=hidden)
                if proj_clip is not None:
                    hidden.clamp_(-proj_clip, proj_clip)
            new_cell, old_cell = old_cell, new_cell
        ended.append((hidden, old_cell.clone()))
        # Sequences that end first stand last in a packed batch.
        last_hidden, last_cell = (torch.cat(parts) for parts in zip(*reversed(ended)))
        give_back(*scratch)

        ctx.save_for_backward(
            outputs, cell, input_weight.to(dtype), state_weight.to(dtype), projection_weight
        )
        ctx.kept = Lease(read, gates, cells, tanh_cells, gated)
        ctx.batch_sizes, ctx.clips, ctx.dtype = batch_sizes, (cell_clip, proj_clip), dtype
        ctx.mark_non_differentiable(last_hidden, last_cell)
        return outputs, last_hidden, last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Tuple[Optional[Tensor], ...]:
        outputs, first_cell, input_weight, state_weight, projection_weight = ctx.saved_tensors
        read, gates, cells, tanh_cells, gated = ctx.kept.buffers
        cell_clip, proj_clip = ctx.clips
        n_positions, output_size = outputs.shape
        n_sequences, size = first_cell.shape
        input_size = input_weight.shape[1]
        full = outputs.dtype
        dtype: torch.dtype = ctx.dtype
        is_low = dtype != full

        def take(n_rows: int, n_columns: int, kind: torch.dtype = dtype) -> Tensor:
            return take_buffer((n_rows, n_columns), kind, grad.device)

        d_gates = take(n_positions, 4 * size)
        d_outputs = take(n_positions, output_size)
        d_hidden = take(n_sequences, output_size, full)
        d_before = take(n_sequences, output_size)
        d_gated = take(n_sequences, size)
        d_cell, d_cell_before = take(n_sequences, size, full), take(n_sequences, size, full)
        low_cell = take(n_sequences, size)
        widened = take(n_sequences, size, full)

        sizes = ctx.batch_sizes
        cells_before = (first_cell.to(dtype), *cells.split(sizes)[:-1])
        steps = zip(
            sizes,
            (*sizes[1:], 0),
            cells_before,
            *(
                buffer.split(sizes)
                for buffer in (
                    grad,
                    outputs,
                    d_outputs,
                    *gates.split(size, dim=1),
                    *d_gates.split(size, dim=1),
                    gates[:, : 2 * size],
                    d_gates[:, : 2 * size],
                    d_gates,
                    cells,
                    tanh_cells,
                )
            ),
        )
        for n, n_after, cell_before, d_above, output, d_output, *rest in reversed(list(steps)):
            in_gate, forget_gate, candidate, out_gate = rest[:4]
            d_in, d_forget, d_candidate, d_out = rest[4:8]
            both, d_both, d_gate, kept_cell, tanh_cell = rest[8:]
            # Gradient of this step's output: from above, and from the steps after it.
            d_now = d_hidden[:n]
            d_now.copy_(d_above)
            d_now[:n_after].add_(d_before[:n_after])
            if projection_weight is not None and proj_clip is not None:
                _clip_backward(d_now, output, -proj_clip, proj_clip, grad_input=d_now)
            d_output.copy_(d_now)
            through, now, low, wide = d_gated[:n], d_cell[:n], low_cell[:n], widened[:n]
            if projection_weight is None:
                through.copy_(d_output)
            else:
                torch.mm(d_output, projection_weight, out=through)
            torch.mul(through, tanh_cell, out=d_out)
            through.mul_(out_gate)
            if is_low:
                _tanh_backward(through, tanh_cell, grad_input=through)
                now.copy_(through)
            else:
                _tanh_backward(through, tanh_cell, grad_input=now)
            now[:n_after].add_(d_cell_before[:n_after])
            if cell_clip is not None:
                wide_cell = wide.copy_(kept_cell) if is_low else kept_cell
                _clip_backward(now, wide_cell, -cell_clip, cell_clip, grad_input=now)
            if is_low:
                low.copy_(now)
                torch.mul(now, wide.copy_(forget_gate), out=d_cell_before[:n])
            else:
                low = now
                torch.mul(now, forget_gate, out=d_cell_before[:n])
            torch.mul(low, candidate, out=d_in)
            torch.mul(low, cell_before[:n], out=d_forget)
            torch.mul(low, in_gate, out=d_candidate)
            _sigmoid_backward(d_both, both, grad_input=d_both)
            _tanh_backward(d_candidate, candidate, grad_input=d_candidate)
            _sigmoid_backward(d_out, out_gate, grad_input=d_out)
            torch.mm(d_gate, state_weight, out=d_before[:n])

        d_x = torch.mm(d_gates, input_weight).to(full)
        # The product runs faster this way round.
        d_weight = torch.mm(read.t().contiguous(), d_gates).t().contiguous()
        n_read = input_size + output_size
        d_projection = (
            None if projection_weight is None else torch.mm(d_outputs.t(), gated).to(full)
        )
        give_back(d_gates, d_outputs, d_hidden, d_before, d_gated)
        give_back(d_cell, d_cell_before, low_cell, widened)
        return (
            d_x,
            None,
            None,
            None,
            d_weight[:, :input_size].to(full).contiguous(),
            d_weight[:, input_size:n_read].to(full).contiguous(),
            d_weight[:, n_read].to(full),
            d_projection,
            None,
            None,
            None,
        )


def _tanh(x: Tensor, out: Tensor) -> Tensor:
    """``tanh(x) = 2 * sigmoid(2 * x) - 1``, which takes a quarter of the time of torch's tanh."""
    return torch.mul(x, 2, out=out).sigmoid_().mul_(2).sub_(1)


def _joined_weight(
    input_weight: Tensor, state_weight: Tensor, bias: Tensor, dtype: torch.dtype
) -> Tensor:
    """The weights of a position's gates side by side, the bias among them, and columns of zeros
    up to a number that vector units like."""
    sizes = (input_weight.shape[1], state_weight.shape[1], 1)
    n_columns = round_up(sum(sizes), COLUMNS)
    joined = torch.zeros(len(bias), n_columns, dtype=dtype, device=bias.device)
    parts = joined.split((*sizes, n_columns - sum(sizes)), dim=1)
    for part, weight in zip(parts, (input_weight, state_weight, bias.unsqueeze(1))):
        part.copy_(weight)
    return joined
