"""The recurrence of an LSTM layer without gradients, for inference.

A token costs few operations besides the products, but each of them goes over as many values as
the products give. So all four gates come from one sigmoid: ``tanh(x) = 2 * sigmoid(2 * x) - 1``,
and torch's sigmoid takes a fifth of the time of its tanh. The factors of 2 are in the weights and
in the cell value, which is kept doubled.
"""

from typing import Iterator, List, Optional, Tuple

import torch
from torch import Tensor

from .fixed_weights import FixedLinear

# Positions whose input half of the gates is formed by one product and kept at a time (at the
# original size 32 MB).
POSITIONS_A_PRODUCT = 512


class Recurrence:
    """An LSTM layer of one direction with its weights arranged for inference.

    :param input_weight: *Shape:* (4 * cell_size, input_size)
    :param state_weight: *Shape:* (4 * cell_size, projection_dim)
    :param bias: what is added to the gates. *Shape:* (4 * cell_size,)
    :param projection_weight: *Shape:* (projection_dim, cell_size)
    :param dtype: of the products. The cell value and the outputs keep their own.
    """

    def __init__(
        self,
        input_weight: Tensor,
        state_weight: Tensor,
        bias: Tensor,
        projection_weight: Optional[Tensor],
        cell_clip: Optional[float],
        proj_clip: Optional[float],
        dtype: torch.dtype,
    ) -> None:
        with torch.inference_mode(False), torch.no_grad():
            size = len(bias) // 4
            factors = bias.new_ones(4 * size, 1)
            factors[2 * size : 3 * size] = 2
            self.dtype = dtype
            self.cell_size = size
            self.cell_clip, self.proj_clip = cell_clip, proj_clip
            self.of_input = FixedLinear(
                (input_weight * factors).to(dtype), (bias * factors.squeeze(1)).to(dtype)
            )
            self.of_state = FixedLinear((state_weight * factors).to(dtype))
            self.projection = (
                None
                if projection_weight is None
                else FixedLinear((projection_weight * 2).to(dtype))
            )

    def __call__(
        self, x: Tensor, batch_sizes: List[int], hidden: Tensor, cell: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Run over a packed batch.

        :param x: *Shape:* (n_positions, input_size)
        :param batch_sizes: sequences running at each step.
        :param hidden: state before the first step. *Shape:* (n_sequences, projection_dim)
        :param cell: *Shape:* (n_sequences, cell_size)
        :returns: outputs, *Shape:* (n_positions, projection_dim), and each sequence's hidden and
            cell state after its own last step.
        """
        size = self.cell_size
        last_hidden, last_cell = torch.empty_like(hidden), torch.empty_like(cell)
        outputs = x.new_empty(len(x), hidden.shape[1])
        double_cell = cell * 2
        gated_cell = torch.empty_like(double_cell)
        hidden = hidden.to(self.dtype).contiguous()
        begin = 0
        n_before = len(cell)
        for sizes in split_steps(batch_sizes, POSITIONS_A_PRODUCT):
            end = begin + sum(sizes)
            gates_of_input = self.of_input(x[begin:end].to(self.dtype)).split(sizes)
            for n, of_input, output in zip(sizes, gates_of_input, outputs[begin:end].split(sizes)):
                if n < n_before:
                    last_hidden[n:n_before] = hidden[n:]
                    last_cell[n:n_before] = double_cell[n:]
                    hidden, double_cell = hidden[:n], double_cell[:n]
                    gated_cell, n_before = gated_cell[:n], n
                gates = self.of_state(hidden, add=of_input).sigmoid_().to(cell.dtype)
                in_gate, forget_gate, candidate, out_gate = gates.split(size, dim=1)
                double_cell.mul_(forget_gate)
                double_cell.addcmul_(in_gate, candidate, value=4).sub_(in_gate, alpha=2)
                if self.cell_clip is not None:
                    double_cell.clamp_(-2 * self.cell_clip, 2 * self.cell_clip)
                torch.sigmoid(double_cell, out=gated_cell).sub_(0.5).mul_(out_gate)
                if self.projection is None:
                    hidden = torch.mul(gated_cell, 2, out=output).to(self.dtype)
                else:
                    hidden = self.projection(gated_cell.to(self.dtype))
                    if self.proj_clip is not None:
                        hidden.clamp_(-self.proj_clip, self.proj_clip)
                    output.copy_(hidden)
            begin = end
        # Sequences that end first stand last in a packed batch.
        last_hidden[:n_before] = hidden
        last_cell[:n_before] = double_cell
        return outputs, last_hidden, last_cell.mul_(0.5)


def split_steps(batch_sizes: List[int], max_positions: int) -> Iterator[List[int]]:
    """Steps in blocks of at most so many positions, but at least one step."""
    block: List[int] = []
    n_positions = 0
    for size in batch_sizes:
        if block and n_positions + size > max_positions:
            yield block
            block, n_positions = [], 0
        block.append(size)
        n_positions += size
    yield block
