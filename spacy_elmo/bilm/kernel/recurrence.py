"""LSTM layers with their weights arranged for the compiled recurrence, and how threads share a
packed batch."""

import threading
from functools import partial
from math import inf
from typing import List, Optional, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..products import round_up
from ..threads import run_all
from .library import BatchArguments, LayerArguments, Variant, address

# Vectors that a panel of a weight has side by side: PANEL of kernel.c.
PANEL = 4

# Sequences that are worth a thread: each thread reads all weights at each step.
ROWS_A_THREAD = 4

# Positions that a call of the library runs, about. Between two calls Ctrl-C is heard; at the
# original size a call takes a quarter of a second.
POSITIONS_A_CALL = 1024


class CompiledRecurrence:
    """An LSTM layer of one direction for the compiled recurrence, with the arguments of
    :class:`~spacy_elmo.bilm.recurrence.Recurrence`.

    A sequence's result has the same bits whatever else is in the batch, and for any number of
    threads.

    :param variant: the instruction set and precision to use.
    """

    def __init__(
        self,
        input_weight: Tensor,
        state_weight: Tensor,
        bias: Tensor,
        projection_weight: Optional[Tensor],
        cell_clip: Optional[float],
        proj_clip: Optional[float],
        variant: Variant,
    ) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self.variant = variant
            lanes, n_inputs = variant.lanes, variant.n_inputs
            cell_size = len(bias) // 4
            n_cell_panels = -(-cell_size // lanes)
            n_output_panels = 0
            projection: Optional[Tensor] = None
            if projection_weight is not None:
                n_output_panels = -(-len(projection_weight) // (PANEL * lanes))
                outputs = projection_weight.new_zeros(n_output_panels * PANEL * lanes, cell_size)
                outputs[: len(projection_weight)] = projection_weight
                vectors = outputs.view(n_output_panels, PANEL, lanes, cell_size)
                projection = _in_panels(vectors, n_cell_panels * lanes, n_inputs)
            # Without a projection, what the gates read is what the cells give, in whole vectors.
            n_hidden = state_weight.shape[1] if n_output_panels else n_cell_panels * lanes
            self._weights = [
                _in_panels(_gates(input_weight, lanes), input_weight.shape[1], n_inputs),
                _in_panels(_gates(state_weight, lanes), n_hidden, n_inputs),
                projection,
                _in_panels(_gates(bias[:, None], lanes), 1, 1),
            ]
            self.input_size, self.output_size = input_weight.shape[1], state_weight.shape[1]
            self.cell_size = cell_size
            self.arguments = LayerArguments(
                self.input_size,
                self.output_size,
                cell_size,
                n_cell_panels,
                n_output_panels,
                *(None if weight is None else weight.data_ptr() for weight in self._weights),
                inf if cell_clip is None else cell_clip,
                inf if proj_clip is None else proj_clip,
            )

    def __call__(
        self, x: Tensor, batch_sizes: List[int], hidden: Tensor, cell: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Run over a packed batch; see :class:`~spacy_elmo.bilm.recurrence.Recurrence`."""
        chain = Chain([self], x, [(hidden, cell)])
        run_chains([chain], batch_sizes)
        return (chain.outputs[0].to(x.dtype), *chain.states[0])


def _gates(weight: Tensor, lanes: int) -> Tensor:
    """A weight of the gates by panels, each with the four gates of a vector's cells.

    *Shapes:* weight (4 * cell_size, n_in), result (n_panels, 4, lanes, n_in)
    """
    n_cells = len(weight) // 4
    n_panels = -(-n_cells // lanes)
    padded = weight.new_zeros(4, n_panels * lanes, weight.shape[1])
    padded[:, :n_cells] = weight.view(4, n_cells, -1)
    return padded.view(4, n_panels, lanes, -1).transpose(0, 1)


def _in_panels(vectors: Tensor, n_in: int, n_inputs: int) -> Tensor:
    """A weight in the order in which products read it.

    *Shapes:* vectors (n_panels, PANEL, lanes, n_in or less), result
        (n_panels, n_in / n_inputs, PANEL, lanes, n_inputs)
    """
    padded = vectors.new_zeros(*vectors.shape[:3], round_up(n_in, n_inputs))
    padded[..., : vectors.shape[3]] = vectors
    panels = padded.unflatten(3, (-1, n_inputs)).permute(0, 3, 1, 2, 4)
    return panels.to(torch.bfloat16 if n_inputs == 2 else torch.float32).contiguous()


class Chain:
    """Layers of which each reads what the one before gives, over a packed batch.

    :param layers: the layers of one direction.
    :param x: what the first one reads. *Shape:* (n_positions, input_size)
    :param states: hidden and cell state of each layer before the first step.
    :param has_skips: is what a layer reads added to what it gives, from the second layer on?

    After a run, ``outputs`` has what each layer gives, *Shape:* (n_positions, output_size), and
    ``states`` each sequence's states after its own last step.
    """

    def __init__(
        self,
        layers: Sequence[CompiledRecurrence],
        x: Tensor,
        states: Sequence[Tuple[Tensor, Tensor]],
        has_skips: bool = False,
    ) -> None:
        self.layers = layers
        self.x = x.to(torch.float32).contiguous()
        self.states = [(_copy(hidden), _copy(cell)) for hidden, cell in states]
        self.has_skips = has_skips
        self.outputs = [self.x.new_empty(len(x), layer.output_size) for layer in layers]

    def run(
        self, batch_sizes: NDArray[numpy.int64], first: int, last: int, stop: threading.Event
    ) -> None:
        """Run some of the sequences; others can run in other threads meanwhile.

        :param batch_sizes: sequences running at each step.
        :param stop: ends the run early.
        """
        n_sequences, n_positions = int(batch_sizes[0]), int(batch_sizes.sum())
        # The position at which each call begins, and the step.
        begins = numpy.cumsum(batch_sizes) - batch_sizes
        steps = numpy.flatnonzero(numpy.diff(begins // POSITIONS_A_CALL, prepend=-1)).tolist()
        x = self.x
        for number, (layer, (hidden, cell)) in enumerate(zip(self.layers, self.states)):
            output = self.outputs[number]
            read = _address(x, n_positions, layer.input_size)
            written = _address(output, n_positions, layer.output_size)
            of_hidden = _address(hidden, n_sequences, layer.output_size)
            of_cell = _address(cell, n_sequences, layer.cell_size)
            for step, end in zip(steps, [*steps[1:], len(batch_sizes)]):
                if stop.is_set():
                    return
                batch = BatchArguments(
                    read + int(begins[step]) * x.stride(0) * x.element_size(),
                    written + int(begins[step]) * output.stride(0) * output.element_size(),
                    batch_sizes[step:].ctypes.data,
                    end - step,
                    first,
                    last,
                    of_hidden,
                    of_cell,
                    self.has_skips and number > 0,
                )
                layer.variant.run(layer.arguments, batch)
            x = output


def _address(tensor: Tensor, n_rows: int, n_columns: int) -> int:
    return address(tensor, torch.float32, n_rows, n_columns)


def _copy(state: Tensor) -> Tensor:
    """In float32, row by row in memory; by numpy for the reason that take_rows gives."""
    return torch.from_numpy(state.detach().float().numpy().copy(order="C"))


def run_chains(chains: Sequence[Chain], batch_sizes: List[int]) -> None:
    """Run chains side by side, by as many threads as torch would use. Where these are more than
    chains, they share the sequences of each.

    :param batch_sizes: sequences running at each step, in all chains.
    """
    sizes = numpy.array(batch_sizes, dtype=numpy.int64)
    for chain in chains:
        for state in chain.states:
            if len(state[0]) != batch_sizes[0]:
                raise ValueError(
                    f"The state of {len(state[0])} sequences was given for a batch of "
                    f"{batch_sizes[0]}; expected one row a sequence."
                )
    n_threads = torch.get_num_threads()
    n_parts = min(n_threads // len(chains), batch_sizes[0] // ROWS_A_THREAD)
    ranges = split_sequences(sizes, max(1, n_parts))
    stop = threading.Event()

    def run(chain: Chain, first: int, last: int) -> None:
        try:
            chain.run(sizes, first, last, stop)
        except BaseException:
            # Ctrl-C, too: the other threads need not go on.
            stop.set()
            raise

    try:
        run_all([partial(run, chain, *ends) for ends in ranges for chain in chains], n_threads)
    finally:
        stop.set()


def split_sequences(batch_sizes: NDArray[numpy.int64], n_parts: int) -> List[Tuple[int, int]]:
    """Ranges of sequences that have about as many positions each."""
    n_sequences = int(batch_sizes[0])
    # Positions of the first sequences, by how many these are.
    counts = [int(numpy.minimum(batch_sizes, n).sum()) for n in range(n_sequences + 1)]
    goals = [counts[-1] * part / n_parts for part in range(1, n_parts)]
    ends = [0, *numpy.searchsorted(counts, goals).tolist(), n_sequences]
    return [(first, last) for first, last in zip(ends, ends[1:]) if first < last]
