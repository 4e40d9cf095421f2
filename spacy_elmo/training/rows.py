"""Rows of whole sentences: how a text is read to score it, rather than to train on it."""

from typing import Callable, Iterable, Iterator, List, Tuple, TypeVar

import numpy
import torch
from numpy.typing import NDArray

from .batches import Batch, Direction
from .encoding import EncodedText
from .text.stream import BOS_TYPE, EOS_TYPE

# Positions that a row has at least. Fewer would read more words without what stands before them:
# at 250 perplexities are 0.2 % higher than in one long row, at 1,000 0.04 %.
POSITIONS_A_ROW = 1000

_Sentence = TypeVar("_Sentence")


def iter_rows(
    sentences: Iterable[_Sentence], n_positions: Callable[[_Sentence], int]
) -> Iterator[List[_Sentence]]:
    """The sentences of each row: a row ends with the one that fills it, so the rows follow from
    the text alone.

    :param n_positions: positions of a sentence.
    """
    row: List[_Sentence] = []
    length = 0
    for sentence in sentences:
        row.append(sentence)
        length += n_positions(sentence)
        if length >= POSITIONS_A_ROW:
            yield row
            row, length = [], 0
    if row:
        yield row


class Rows:
    """Rows that stand one after the other in a text, to be read side by side.

    :param text: the encoded text.
    :param types: the positions of all rows. *Shape:* (n_positions,)
    :param lengths: positions of each row. *Shape:* (n_rows,)
    """

    def __init__(
        self, text: EncodedText, types: NDArray[numpy.int32], lengths: NDArray[numpy.int64]
    ) -> None:
        self.text = text
        self.types = types
        # A packed batch has the longest rows first.
        order = numpy.argsort(-lengths, kind="stable")
        self._lengths = lengths[order]
        self._begins = (numpy.cumsum(lengths) - lengths)[order]

    def iter_windows(self, unroll_steps: int) -> Iterator[Batch]:
        """What to read and to predict in some steps after the other."""
        longest = int(self._lengths[0])
        for begin in range(0, longest, unroll_steps):
            ahead, back, batch_sizes = self._positions(begin, min(begin + unroll_steps, longest))
            read = self.types[numpy.concatenate([ahead, back])]
            distinct, words = numpy.unique(self.text.rows[read], return_inverse=True)
            yield Batch(
                characters=self.text.gather_characters(distinct),
                batch_sizes=batch_sizes,
                forward=self._direction(words[: len(ahead)], self._predicted(ahead, EOS_TYPE, 1)),
                backward=self._direction(words[len(ahead) :], self._predicted(back, BOS_TYPE, -1)),
            )

    def predicted(self) -> Tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """The positions that are predicted, in the order of the windows, in each direction."""
        ahead, back, _ = self._positions(0, int(self._lengths[0]))
        return self._predicted(ahead, EOS_TYPE, 1)[1], self._predicted(back, BOS_TYPE, -1)[1]

    def _positions(
        self, begin: int, end: int
    ) -> Tuple[NDArray[numpy.int64], NDArray[numpy.int64], List[int]]:
        """The positions that each direction reads in these steps, and rows running at each."""
        steps = numpy.arange(begin, end)[:, None]
        running = steps < self._lengths
        ahead = (self._begins + steps)[running]
        back = (self._begins + self._lengths - 1 - steps)[running]
        return ahead, back, running.sum(1).tolist()

    def _predicted(
        self, positions: NDArray[numpy.int64], last_mark: int, step: int
    ) -> Tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """Which of the positions predict something, and where that stands."""
        predicting = numpy.flatnonzero(self.types[positions] != last_mark)
        return predicting, positions[predicting] + step

    def _direction(
        self,
        words: NDArray[numpy.int64],
        predicted: Tuple[NDArray[numpy.int64], NDArray[numpy.int64]],
    ) -> Direction:
        predicting, positions = predicted
        targets = self.text.targets[self.types[positions]].astype(numpy.int64)
        return Direction(*map(torch.from_numpy, (words, predicting, targets)))
