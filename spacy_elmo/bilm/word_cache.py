"""Vectors of words that were seen before."""

from threading import Lock
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .fixed_weights import Fingerprint
from .packing import take_rows

# Words whose vectors are kept (at the original size 64 MB).
MAX_WORDS = 2**15

# Words are encoded in groups of a multiple of this. A product of few rows is rounded in other ways;
# so a word's vector has the same bits whatever words it is encoded with.
WORDS_A_STEP = 16

# Words that a new table has room for; it grows by doubling.
FIRST_WORDS = 2**10


class WordCache:
    """Context-free vectors of the words that were seen since the weights last changed.

    When a table is full, it starts anew with the words that are asked for then: frequent words
    are back at once. Threads can share it. A copy or a pickle starts empty.

    :param max_words: words that are kept at most, 0 for none.
    """

    def __init__(self, max_words: int = MAX_WORDS) -> None:
        self.max_words = max_words
        self._lock = Lock()
        self._key: Optional[Fingerprint] = None
        self._rows: Dict[str, int] = {}
        self._table: Optional[Tensor] = None

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> Tuple[type, Tuple[int]]:
        return type(self), (self.max_words,)

    def vectors(
        self, words: Sequence[str], key: Fingerprint, make: Callable[[Sequence[str]], Tensor]
    ) -> Tensor:
        """Vectors of distinct words.

        :param key: the fingerprint of the weights.
        :param make: gives the vectors of words that are not there.
        :returns: *Shape:* (n_words, size)
        """
        if self.max_words == 0:
            self._drop(key)
            return make(words)
        with self._lock:
            if key != self._key:
                self._drop(key)
            missing = [word for word in words if word not in self._rows]
            if not missing:
                return self._look_up(words)
            new = make(missing)
            if len(self._rows) + len(missing) <= self.max_words:
                self._add(missing, new)
                return self._look_up(words)
            numbers = {word: number for number, word in enumerate(missing)}
            vectors = new.new_empty(len(words), new.shape[1])
            is_new = torch.tensor([word in numbers for word in words], device=new.device)
            vectors[is_new] = new
            if len(missing) < len(words):
                vectors[~is_new] = self._look_up([word for word in words if word not in numbers])
            self._drop(key)
            self._add(words[: self.max_words], vectors[: self.max_words])
            return vectors

    def clear(self) -> None:
        """Forget all words."""
        with self._lock:
            self._drop(None)

    def _look_up(self, words: Sequence[str]) -> Tensor:
        assert self._table is not None
        rows = [self._rows[word] for word in words]
        return take_rows(self._table, torch.tensor(rows, device=self._table.device))

    def _add(self, words: Sequence[str], vectors: Tensor) -> None:
        n_before, n = len(self._rows), len(self._rows) + len(words)
        if self._table is None or n > len(self._table):
            size = FIRST_WORDS
            while size < n:
                size *= 2
            table = vectors.new_empty(min(size, self.max_words), vectors.shape[1])
            if self._table is not None:
                table[:n_before] = self._table[:n_before]
            self._table = table
        self._table[n_before:n] = vectors
        self._rows.update(zip(words, range(n_before, n)))

    def _drop(self, key: Optional[Fingerprint]) -> None:
        self._key, self._rows, self._table = key, {}, None


def in_chunks(make: Callable[[List[str]], Tensor], words: Sequence[str], chunk_size: int) -> Tensor:
    """What a function of words gives, chunk by chunk of words of like length, since the time for a
    chunk is that of its longest word."""
    order = sorted(range(len(words)), key=lambda number: len(words[number]))
    parts: List[Tensor] = []
    for begin in range(0, len(order), chunk_size):
        chunk = [words[number] for number in order[begin : begin + chunk_size]]
        n_more = -len(chunk) % WORDS_A_STEP
        parts.append(make(chunk + chunk[:1] * n_more)[: len(chunk)])
    vectors = parts[0].new_empty(len(words), parts[0].shape[1])
    vectors[torch.tensor(order, device=vectors.device)] = torch.cat(parts)
    return vectors
