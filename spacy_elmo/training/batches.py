"""Windows over parallel streams of text: what one training step reads and predicts."""

from dataclasses import dataclass
from typing import Iterator, List

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from .encoding import BOS_TYPE, EOS_TYPE, EncodedText


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


@dataclass(frozen=True)
class Batch:
    """One window of all rows, packed (see :mod:`spacy_elmo.bilm.packing`).

    :param characters: the batch's distinct words, in groups. *Shape:* (n_words, n_characters)
    :param batch_sizes: rows running at each time step, in both directions.
    """

    characters: List[Tensor]
    batch_sizes: List[int]
    forward: Direction
    backward: Direction

    @property
    def n_predictions(self) -> int:
        """Predictions of both directions."""
        return len(self.forward.targets) + len(self.backward.targets)


class Batches:
    """The windows of one pass over a text, in the order in which state is carried along.

    The positions are cut into rows of equal length (to one position), which are read side by
    side: forward from left to right, backward from right to left over the same row. What follows
    a row's last position is still its target, so each direction predicts every token once, and
    one mark a sentence. As in bilm-tf, state runs on across sentences and windows.

    :param text: the encoded text.
    :param types: its positions in the order to read them. *Shape:* (n_positions,)
    :param n_rows: rows; of a text with fewer positions, that many.
    :param unroll_steps: positions of a row in a window.
    """

    def __init__(
        self,
        text: EncodedText,
        types: NDArray[numpy.int32],
        *,
        n_rows: int,
        unroll_steps: int,
    ) -> None:
        self.text = text
        self.types = types
        self.unroll_steps = unroll_steps
        n_rows = min(n_rows, len(types))
        shorter, self._n_longer = divmod(len(types), n_rows)
        lengths = numpy.full(n_rows, shorter, dtype=numpy.int64)
        lengths[: self._n_longer] += 1
        self._ends = numpy.cumsum(lengths)
        self._begins = self._ends - lengths
        self._shorter = shorter

    def __len__(self) -> int:
        return count_windows(len(self.types), len(self._begins), self.unroll_steps)

    def __iter__(self) -> Iterator[Batch]:
        for begin in range(0, int(self._ends[0]), self.unroll_steps):
            yield self._window(begin)

    def _window(self, begin: int) -> Batch:
        """The window that starts ``begin`` positions from where each row is read from."""
        full = numpy.arange(begin, min(begin + self.unroll_steps, self._shorter))[:, None]
        batch_sizes = [len(self._begins)] * len(full)
        ahead = (self._begins + full).ravel()
        back = (self._ends - 1 - full).ravel()
        if self._n_longer and begin <= self._shorter < begin + self.unroll_steps:
            # The longer rows' last position.
            batch_sizes.append(self._n_longer)
            ahead = numpy.append(ahead, self._begins[: self._n_longer] + self._shorter)
            back = numpy.append(back, self._ends[: self._n_longer] - 1 - self._shorter)
        rows = self.text.rows[self.types[numpy.concatenate([ahead, back])]]
        distinct, words = numpy.unique(rows, return_inverse=True)
        return Batch(
            characters=self.text.gather_characters(distinct),
            batch_sizes=batch_sizes,
            forward=self._direction(ahead, words[: len(ahead)], EOS_TYPE, 1),
            backward=self._direction(back, words[len(ahead) :], BOS_TYPE, -1),
        )

    def _direction(
        self,
        positions: NDArray[numpy.int64],
        words: NDArray[numpy.int64],
        last_mark: int,
        step: int,
    ) -> Direction:
        predicting = numpy.flatnonzero(self.types[positions] != last_mark)
        targets = self.text.targets[self.types[positions[predicting] + step]]
        return Direction(*map(torch.from_numpy, (words, predicting, targets)))


def count_windows(n_positions: int, n_rows: int, unroll_steps: int) -> int:
    """Steps of one pass over a text: the longest row's positions, in windows."""
    longest = -(-n_positions // min(n_rows, n_positions))
    return -(-longest // unroll_steps)
