"""Windows over parallel streams of text: what one training step reads and predicts."""

from dataclasses import dataclass
from typing import Iterator, List, Union

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.token_reader import TokenIds
from .encoding import EncodedText
from .text.stream import BOS_TYPE, EOS_TYPE, ShuffledTypes

#: What stands at each position: looked up by an array of positions, in one of the same shape.
Types = Union[NDArray[numpy.int32], ShuffledTypes]


@dataclass(frozen=True)
class Direction:
    """What one direction reads and predicts in a batch.

    :param words: which of the batch's distinct words stands at each packed position.
        *Shape:* (n_positions,)
    :param predicting: packed positions that predict something; the last mark of a sentence in
        reading order does not. *Shape:* (n_predictions,)
    :param targets: vocabulary id of what they predict. *Shape:* (n_predictions,)
    """

    words: Tensor
    predicting: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> "Direction":
        """The same on a device."""
        return Direction(*(part.to(device) for part in (self.words, self.predicting, self.targets)))


@dataclass(frozen=True)
class Batch:
    """One window of all rows, packed (see :mod:`spacy_elmo.bilm.packing`).

    :param tokens: what the token layer reads of the batch's distinct words, in groups.
    :param batch_sizes: rows running at each time step, in both directions.
    """

    tokens: List[TokenIds]
    batch_sizes: List[int]
    forward: Direction
    backward: Direction

    @property
    def n_predictions(self) -> int:
        """Predictions of both directions."""
        return len(self.forward.targets) + len(self.backward.targets)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device, itself if it is there."""
        if self.forward.words.device == device:
            return self
        return Batch(
            tokens=[group.to(device) for group in self.tokens],
            batch_sizes=self.batch_sizes,
            forward=self.forward.to(device),
            backward=self.backward.to(device),
        )


class Batches:
    """The windows of one pass over a text, in the order in which state is carried along.

    The positions are cut into rows of equal length (to one position), which are read side by
    side: forward from left to right, backward from right to left over the same row. What follows
    a row's last position is still its target, so each direction predicts every token once, and
    one mark a sentence. As in bilm-tf, state runs on across sentences and windows.

    Several ranks (processes that train together) share the rows: all ranks together read and
    predict what one would, in the same number of windows. A rank that has nothing left to read
    in a window gets one of a single position that predicts nothing.

    :param text: the encoded text.
    :param types: its positions in the order to read them. *Shape:* (n_positions,)
    :param n_rows: rows of all ranks together; of a text with fewer positions, that many.
    :param unroll_steps: positions of a row in a window.
    :param rank: which of the ranks this is, counted from 0.
    :param n_ranks: ranks that share the rows.
    :raises ValueError: there is no such rank.
    """

    def __init__(
        self,
        text: EncodedText,
        types: Types,
        *,
        n_rows: int,
        unroll_steps: int,
        rank: int = 0,
        n_ranks: int = 1,
    ) -> None:
        if not 0 <= rank < n_ranks:
            raise ValueError(
                f"rank is {rank} of n_ranks {n_ranks}; expected 0 to {n_ranks - 1} of 1 or more."
            )
        self.text = text
        self.types = types
        self.unroll_steps = unroll_steps
        self._n_windows = count_windows(len(types), n_rows, unroll_steps)
        n_rows = min(n_rows, len(types))
        shorter, n_longer = divmod(len(types), n_rows)
        lengths = numpy.full(n_rows, shorter, dtype=numpy.int64)
        lengths[:n_longer] += 1
        begins = numpy.cumsum(lengths) - lengths
        mine = slice(n_rows * rank // n_ranks, n_rows * (rank + 1) // n_ranks)
        self._begins, self._lengths = begins[mine], lengths[mine]

    def __len__(self) -> int:
        return self._n_windows

    def __iter__(self) -> Iterator[Batch]:
        for number in range(len(self)):
            yield self.window(number)

    def window(self, number: int) -> Batch:
        """One window, without those before it.

        :param number: counted from 0.
        :raises IndexError: there are not that many windows.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"number is {number}; expected 0 to {len(self) - 1}.")
        begin = number * self.unroll_steps
        end = begin + self.unroll_steps
        return read_window(self.text, self.types, self._begins, self._lengths, begin, end)


def count_windows(n_positions: int, n_rows: int, unroll_steps: int) -> int:
    """Steps of one pass over a text: the longest row's positions, in windows."""
    longest = -(-n_positions // min(n_rows, n_positions))
    return -(-longest // unroll_steps)


def read_window(
    text: EncodedText,
    types: Types,
    begins: NDArray[numpy.int64],
    lengths: NDArray[numpy.int64],
    begin: int,
    end: int,
) -> Batch:
    """What some rows read and predict from step ``begin`` up to step ``end``.

    :param text: the encoded text.
    :param types: its positions in the order to read them. *Shape:* (n_positions,)
    :param begins: first position of each row, the longest rows first. *Shape:* (n_rows,)
    :param lengths: positions of each row. *Shape:* (n_rows,)
    """
    n_rows = int((lengths > begin).sum())
    if n_rows == 0:
        return _empty_window(text)
    begins, lengths = begins[:n_rows, None], lengths[:n_rows, None]
    end = min(end, int(lengths[0, 0]))
    # One step more than is read: what the last one predicts. Positions rise along each row, as
    # rising ones are looked up faster. Those outside of the text are never predicted.
    steps = numpy.arange(begin, end + 1)
    outermost = len(types) - 1
    ahead = types[(begins + steps).clip(0, outermost)].T
    back = types[(begins + lengths - 1 - steps[::-1]).clip(0, outermost)].T[::-1]
    is_read = (steps[:-1] < lengths).T  # [n_steps, n_rows]
    n_positions = int(is_read.sum())
    read = numpy.concatenate([ahead[:-1][is_read], back[:-1][is_read]])
    distinct, words = numpy.unique(text.rows[read], return_inverse=True)
    directions = []
    for numbers, words_read, following, last_mark in (
        (words[:n_positions], read[:n_positions], ahead[1:][is_read], EOS_TYPE),
        (words[n_positions:], read[n_positions:], back[1:][is_read], BOS_TYPE),
    ):
        predicting = numpy.flatnonzero(words_read != last_mark)
        targets = text.targets[following[predicting]].astype(numpy.int64)
        directions.append(Direction(*map(torch.from_numpy, (numbers, predicting, targets))))
    return Batch(text.gather(distinct), is_read.sum(axis=1).tolist(), *directions)


def _empty_window(text: EncodedText) -> Batch:
    nothing = torch.zeros(0, dtype=torch.int64)
    direction = Direction(torch.zeros(1, dtype=torch.int64), nothing, nothing)
    return Batch(text.gather(text.rows[[BOS_TYPE]]), [1], direction, direction)
