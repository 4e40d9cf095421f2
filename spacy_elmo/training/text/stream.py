"""Text as numbers of distinct words, in memory or in a memory-mapped file."""

import mmap
from array import array
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    runtime_checkable,
)

import numpy
from numpy.typing import NDArray

from ...bilm import BOS, EOS

# Numbers of the sentence marks among the distinct words.
BOS_TYPE, EOS_TYPE = 0, 1

# Positions, or sentences, that are looked at in one go.
A_PIECE = 1 << 20

# Of a larger mapped file the memory is released now and then: each sentence that is read at
# random brings some 64 kB of it, so these positions bring about as many bytes.
MAX_MAPPED_BYTES = 1 << 29
RELEASE_AFTER = 80_000

#: Called with the bytes read so far and in all.
Progress = Callable[[int, int], None]


@runtime_checkable
class StreamCorpus(Protocol):
    """A corpus that gives its text as numbers, rather than word by word."""

    def read_stream(self, progress: Optional[Progress] = None) -> "WordStream": ...


@dataclass(frozen=True)
class WordStream:
    """Sentences one after the other, each between its marks, as numbers of distinct words.

    :param words: the distinct words in the order in which the text first has them; before them
        stand the marks ``<S>`` and ``</S>``.
    :param types: number of each position's word. *Shape:* (n_positions,), int32
    :param lengths: positions of each sentence, its marks included. *Shape:* (n_sentences,), int32
    :param file: the file that holds all of this, if it is mapped into memory.
    """

    words: Sequence[str]
    types: NDArray[numpy.int32]
    lengths: NDArray[numpy.int32]
    file: Optional[mmap.mmap] = field(default=None, repr=False, compare=False)

    @classmethod
    def from_corpus(
        cls, corpus: Iterable[Sequence[str]], progress: Optional[Progress] = None
    ) -> "WordStream":
        """Read a corpus in the cheapest way it has: from memory-mapped files where it is a
        :class:`~spacy_elmo.training.text.corpus.TextCorpus` or has such a method ``read_stream``,
        else as any iterable of sentences.

        :param progress: told how much is read, where the corpus knows.
        :raises ValueError: the corpus is faulty or has no word.
        """
        if not isinstance(corpus, StreamCorpus):
            return cls.from_sentences(corpus)
        stream = corpus.read_stream(progress)
        _require_words(stream)
        return stream

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[str]]) -> "WordStream":
        """Number the words of sentences; those without a word are left out.

        :raises ValueError: a sentence is a string and no list of words, or none has a word.
        """
        stream = number_sentences(sentences)
        _require_words(stream)
        return stream

    @property
    def n_sentences(self) -> int:
        return len(self.lengths)

    @property
    def n_positions(self) -> int:
        """Tokens and sentence marks."""
        return len(self.types)

    @property
    def n_tokens(self) -> int:
        return self.n_positions - 2 * self.n_sentences

    @property
    def n_predictions(self) -> int:
        """What one direction predicts: every token, and one mark a sentence."""
        return self.n_tokens + self.n_sentences

    @cached_property
    def begins(self) -> NDArray[Any]:
        """First position of each sentence. *Shape:* (n_sentences,), int32 where that will do"""
        # Half the memory; the longest texts need more.
        dtype = numpy.int32 if self.n_positions < 2**31 else numpy.int64
        begins = numpy.cumsum(self.lengths, dtype=dtype)
        begins -= self.lengths
        return begins

    @cached_property
    def _counts(self) -> NDArray[numpy.int64]:
        counts = numpy.zeros(len(self.words), dtype=numpy.int64)
        for begin in range(0, self.n_positions, A_PIECE):
            piece = self.types[begin : begin + A_PIECE]
            counts += numpy.bincount(piece, minlength=len(self.words))
            self.release()
        return counts

    def count_types(self) -> NDArray[numpy.int64]:
        """How often each distinct word is in the text. *Shape:* (n_distinct,)"""
        return self._counts

    def count_words(self) -> Dict[str, int]:
        """How often each word, the marks not counted, is in the text."""
        return dict(islice(zip(self.words, self.count_types().tolist()), 2, None))

    def iter_sentences(self) -> Iterator[List[str]]:
        """The words of each sentence."""
        begin = 0
        for first in range(0, self.n_sentences, 1000):
            for length in self.lengths[first : first + 1000].tolist():
                types = self.types[begin + 1 : begin + length - 1].tolist()
                yield [self.words[number] for number in types]
                begin += length

    def release(self) -> None:
        """Give back the memory of a large mapped file; it is filled again where it is read."""
        file = self.file
        if file is not None and len(file) > MAX_MAPPED_BYTES and hasattr(file, "madvise"):
            file.madvise(mmap.MADV_DONTNEED)

    def head(self, n_sentences: int) -> "WordStream":
        """The first sentences and their words."""
        lengths = self.lengths[:n_sentences]
        types = self.types[: int(lengths.sum(dtype=numpy.int64))]
        n_words = max(EOS_TYPE, int(types.max(initial=0))) + 1
        return WordStream(self.words[:n_words], types, lengths)

    def shuffled_types(self, seed: Tuple[int, ...]) -> "ShuffledTypes":
        """The positions with whole sentences in random order.

        :param seed: the same seed gives the same order.
        """
        return ShuffledTypes(self, seed)


class ShuffledTypes:
    """The types of a stream with its sentences in random order. Nothing is copied: where a
    position's word stands in the stream is looked up when it is read.

    :param stream: the text.
    :param seed: the same seed gives the same order.
    """

    def __init__(self, stream: WordStream, seed: Tuple[int, ...]) -> None:
        self._stream = stream
        self._n_read = 0
        order = numpy.random.default_rng(seed).permutation(stream.n_sentences)
        lengths = stream.lengths[order]
        self._ends = numpy.cumsum(lengths, dtype=stream.begins.dtype)
        # Where a sentence comes from minus where it goes is the same for all its positions.
        self._shifts = stream.begins[order]
        self._shifts -= self._ends
        self._shifts += lengths

    def __len__(self) -> int:
        return self._stream.n_positions

    def __getitem__(self, positions: NDArray[numpy.int64]) -> NDArray[numpy.int32]:
        """The types at positions, which are found faster where they rise.

        :param positions: of any shape, each 0 or more and less than the length.
        """
        # With another type than that of the ends, numpy would convert all ends.
        sentences = numpy.searchsorted(self._ends, positions.astype(self._ends.dtype), "right")
        types = self._stream.types[positions + self._shifts[sentences]]
        self._n_read += positions.size
        if self._n_read >= RELEASE_AFTER:
            self._stream.release()
            self._n_read = 0
        return types


class StreamMerger:
    """Puts streams one after the other, with one numbering of their words.

    :param write: takes the types of each piece, int32, as bytes.
    """

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write = write
        self._numbers: Dict[str, int] = {}
        self.n_positions = 0
        self.lengths = array("i")

    @property
    def words(self) -> List[str]:
        """The distinct words so far, after the marks."""
        return [BOS, EOS, *self._numbers]

    def append(self, stream: WordStream) -> None:
        """Write a stream after those before it."""
        numbers = self._numbers
        # A word that spells a mark is a word of its own, so that it ends no sentence.
        new_types = numpy.empty(len(stream.words), dtype=numpy.int32)
        new_types[:2] = BOS_TYPE, EOS_TYPE
        for number, word in enumerate(islice(stream.words, 2, None), 2):
            new_types[number] = numbers.setdefault(word, len(numbers) + 2)
        for begin in range(0, stream.n_positions, A_PIECE):
            self._write(new_types[stream.types[begin : begin + A_PIECE]].tobytes())
            stream.release()
        self.n_positions += stream.n_positions
        self.lengths.frombytes(stream.lengths.astype(numpy.int32).tobytes())


def merge_streams(streams: Iterable[WordStream]) -> WordStream:
    """One stream of several, in memory."""
    types = array("i")
    merger = StreamMerger(types.frombytes)
    for stream in streams:
        merger.append(stream)
    return WordStream(merger.words, _as_numpy(types), _as_numpy(merger.lengths))


def number_sentences(sentences: Iterable[Sequence[str]]) -> WordStream:
    """As :meth:`WordStream.from_sentences`, but the text may be empty."""
    numbers: Dict[str, int] = {}
    types = array("i")
    lengths = array("i")
    for sentence in sentences:
        if isinstance(sentence, str):
            raise ValueError(
                f"The corpus gave the string {sentence!r:.80}; expected sentences as lists of "
                "words."
            )
        if len(sentence) == 0:
            continue
        types.append(BOS_TYPE)
        types.extend([numbers.setdefault(word, len(numbers) + 2) for word in sentence])
        types.append(EOS_TYPE)
        lengths.append(len(sentence) + 2)
    return WordStream([BOS, EOS, *numbers], _as_numpy(types), _as_numpy(lengths))


def _as_numpy(values: "array[int]") -> NDArray[numpy.int32]:
    return numpy.frombuffer(values, dtype=numpy.int32)


def _require_words(stream: WordStream) -> None:
    if stream.n_sentences == 0:
        raise ValueError("The corpus has no words; expected one sentence or more.")
