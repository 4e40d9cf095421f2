"""Packed time-major batches: sequences of any lengths side by side, without a padded position.

Rows of a packed batch are ordered by time step, then by falling length: the first token of every
sequence, the second token of every sequence that has one, and so on. A recurrent step then reads
one contiguous block, and no padding exists that could leak into a result.
"""

from dataclasses import dataclass
from typing import Dict, List, Sequence

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
        length = torch.tensor(lengths, dtype=torch.int64)
        order = torch.argsort(length, descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(lengths))
        # Of all sequences, those longer than t are running at step t.
        ending = torch.bincount(length)
        running = len(lengths) - torch.cumsum(ending, 0)[:-1]
        first_row = torch.cumsum(running, 0) - running

        sequence = torch.repeat_interleave(torch.arange(len(lengths)), length)
        begin = torch.cumsum(length, 0) - length
        time = torch.arange(int(length.sum())) - begin[sequence]
        rows = first_row[time] + rank[sequence]
        mirrored = first_row[length[sequence] - 1 - time] + rank[sequence]
        reverse = torch.empty_like(rows)
        reverse[rows] = mirrored
        return cls(order=order, batch_sizes=running.tolist(), rows=rows, reverse=reverse)


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
