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
from .gates import KeptValues, make_gates
from .products import COLUMNS, autocast_dtype, round_up

_clip_backward = torch.ops.aten.hardtanh_backward.grad_input


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
        kept = KeptValues(take(n_positions, 4 * size), *(take(n_positions, size) for _ in range(3)))
        outputs = torch.empty(n_positions, output_size, dtype=full, device=x.device)
        # The products of a step go where the step before has put its own, which a cache still
        # holds; what is kept is written once, when the gates are made of them.
        products = take(n_sequences, 4 * size)
        low_output = take(n_sequences, output_size)
        last_cell = torch.empty(cell.shape, dtype=full, device=x.device).copy_(cell)
        last_hidden = torch.empty(hidden.shape, dtype=full, device=x.device).copy_(hidden)
        passes = make_gates(n_sequences, size, cell_clip, dtype, x)

        if projection_weight is not None:
            projection_weight = projection_weight.to(dtype)
        weight_t = weight.t()
        projection_weight_t = None if projection_weight is None else projection_weight.t()
        buffers = (read, read[:, input_size : input_size + output_size], kept, outputs)
        steps = zip(batch_sizes, *(buffer.split(batch_sizes) for buffer in buffers))
        for n, now, before, of_step, output in steps:
            # Sequences that end first stand last in a packed batch.
            last_hidden[n : len(hidden)] = hidden[n:]
            before.copy_(hidden[:n])
            product = torch.mm(now, weight_t, out=products[:n])
            passes.forward(product, last_cell[:n], of_step)
            gated_cell = of_step.gated
            hidden = output
            if projection_weight_t is None:
                hidden.copy_(gated_cell)
            else:
                if is_low:
                    hidden.copy_(torch.mm(gated_cell, projection_weight_t, out=low_output[:n]))
                else:
                    torch.mm(gated_cell, projection_weight_t, out=hidden)
                if proj_clip is not None:
                    hidden.clamp_(-proj_clip, proj_clip)
        last_hidden[: len(hidden)] = hidden
        passes.close()
        give_back(products, low_output)

        ctx.save_for_backward(
            outputs, cell, input_weight.to(dtype), state_weight.to(dtype), projection_weight
        )
        ctx.kept = Lease(read, *kept)
        ctx.batch_sizes, ctx.clips, ctx.dtype = batch_sizes, (cell_clip, proj_clip), dtype
        ctx.mark_non_differentiable(last_hidden, last_cell)
        return outputs, last_hidden, last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Tuple[Optional[Tensor], ...]:
        outputs, first_cell, input_weight, state_weight, projection_weight = ctx.saved_tensors
        read, *parts = ctx.kept.buffers
        kept = KeptValues(*parts)
        cell_clip, proj_clip = ctx.clips
        n_positions, output_size = outputs.shape
        n_sequences, size = first_cell.shape
        input_size = input_weight.shape[1]
        full = outputs.dtype
        dtype: torch.dtype = ctx.dtype

        def take(n_rows: int, n_columns: int, kind: torch.dtype = dtype) -> Tensor:
            return take_buffer((n_rows, n_columns), kind, grad.device)

        d_gates = take(n_positions, 4 * size)
        d_outputs = take(n_positions, output_size)
        d_hidden = take(n_sequences, output_size, full)
        d_before = take(n_sequences, output_size)
        d_gated = take(n_sequences, size)
        d_cell = take(n_sequences, size, full)
        passes = make_gates(n_sequences, size, cell_clip, dtype, grad)

        sizes = ctx.batch_sizes
        cells_before = (first_cell.to(dtype).contiguous(), *kept.cell.split(sizes)[:-1])
        buffers = (grad, outputs, d_outputs, kept, d_gates)
        steps = zip(
            sizes, (*sizes[1:], 0), cells_before, *(buffer.split(sizes) for buffer in buffers)
        )
        for n, n_after, cell_before, d_above, output, d_output, *rest in reversed(list(steps)):
            of_step, d_gate = rest
            # Gradient of this step's output: from above, and from the steps after it.
            d_now = d_hidden[:n]
            d_now.copy_(d_above)
            d_now[:n_after].add_(d_before[:n_after])
            if projection_weight is not None and proj_clip is not None:
                _clip_backward(d_now, output, -proj_clip, proj_clip, grad_input=d_now)
            d_output.copy_(d_now)
            through = d_gated[:n]
            if projection_weight is None:
                through.copy_(d_output)
            else:
                torch.mm(d_output, projection_weight, out=through)
            passes.backward(through, of_step, cell_before[:n], d_cell[:n], n_after, d_gate)
            torch.mm(d_gate, state_weight, out=d_before[:n])

        d_x = torch.mm(d_gates, input_weight).to(full)
        # The product runs faster this way round.
        d_weight = torch.mm(read.t().contiguous(), d_gates).t().contiguous()
        n_read = input_size + output_size
        d_projection = (
            None if projection_weight is None else torch.mm(d_outputs.t(), kept.gated).to(full)
        )
        passes.close()
        give_back(d_gates, d_outputs, d_hidden, d_before, d_gated, d_cell)
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
