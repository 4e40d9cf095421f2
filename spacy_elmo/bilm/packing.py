"""Packed time-major batches: sequences of any lengths side by side, without a padded position.

Rows of a packed batch are ordered by time step, then by falling length: the first token of every
sequence, the second token of every sequence that has one, and so on. A recurrent step then reads
one contiguous block, and no padding exists that could leak into a result.
"""

from dataclasses import dataclass
from typing import Dict, List, Sequence

import numpy
import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Where each position of each sequence lies in a packed batch.

    :param order: sequence numbers by falling length. *Shape:* (n_sequences,)
    :param batch_sizes: sequences still running at each time step. Length: the longest sequence.
    :param rows: packed row of every position, sequence by sequence in the order given.
        *Shape:* (n_positions,)
    :param reverse: packed row of the position that mirrors each packed row in its own sequence.
        *Shape:* (n_positions,)
    """

    order: Tensor
    batch_sizes: List[int]
    rows: Tensor
    reverse: Tensor

    @classmethod
    def from_lengths(cls, lengths: Sequence[int]) -> "Packing":
        """Plan the packing of sequences of these lengths, each 1 or more."""
        length = numpy.array(lengths, dtype=numpy.int64)
        order = numpy.argsort(-length, kind="stable")
        rank = numpy.empty_like(order)
        rank[order] = numpy.arange(len(length))
        # Of all sequences, those longer than t are running at step t.
        running = len(length) - numpy.cumsum(numpy.bincount(length))[:-1]
        first_row = numpy.cumsum(running) - running

        sequence = numpy.repeat(numpy.arange(len(length)), length)
        begin = numpy.cumsum(length) - length
        time = numpy.arange(int(length.sum())) - begin[sequence]
        rows = first_row[time] + rank[sequence]
        reverse = numpy.empty_like(rows)
        reverse[rows] = first_row[length[sequence] - 1 - time] + rank[sequence]
        return cls(
            order=torch.from_numpy(order),
            batch_sizes=running.tolist(),
            rows=torch.from_numpy(rows),
            reverse=torch.from_numpy(reverse),
        )


@dataclass(frozen=True)
class PackedWords:
    """The words of a packed batch.

    :param words: the distinct words.
    :param numbers: which of them each packed row is. *Shape:* (n_positions,)
    :param lengths: positions of each sentence.
    :param batch_sizes: see :class:`Packing`, as ``rows`` and ``reverse``, here on the device.
    """

    words: List[str]
    numbers: Tensor
    lengths: List[int]
    batch_sizes: List[int]
    rows: Tensor
    reverse: Tensor

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], device: torch.device) -> "PackedWords":
        """Pack sentences of one word or more; marks are words like others."""
        numbers_of: Dict[str, int] = {}
        positions = [
            numbers_of.setdefault(word, len(numbers_of))
            for sentence in sentences
            for word in sentence
        ]
        lengths = [len(sentence) for sentence in sentences]
        packing = Packing.from_lengths(lengths)
        rows, reverse = packing.rows.to(device), packing.reverse.to(device)
        numbers = torch.empty_like(rows)
        numbers[rows] = torch.tensor(positions, device=device)
        return cls(list(numbers_of), numbers, lengths, packing.batch_sizes, rows, reverse)


def take_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Rows of a table, without gradients.

    On a CPU by numpy, in this thread. torch would share the copy among its threads, and these then
    keep their cores busy with waiting for some milliseconds, where others could compute.

    *Shapes:* table (n, ...), rows (n_rows,)
    """
    if table.device.type != "cpu" or table.dtype != torch.float32:
        return table.detach()[rows]
    return torch.from_numpy(table.detach().numpy()[rows.numpy()])
