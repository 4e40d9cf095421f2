"""Tokenized text on disk: one file holds a stream of words, to be mapped into memory.

A shard is the types, the sentences' lengths and the words' ends (little-endian int32, int32 and
int64), the words in UTF-8, and a footer that says how much there is of each. A file that was cut
off or changed is told by the footer and a checksum, so nothing else need be trusted.
"""

import json
import mmap
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, Tuple, Union, overload

import numpy
from numpy.typing import NDArray

from .stream import StreamMerger, WordStream

VERSION = 1
MAGIC = b"elmoshrd"

# Length of the footer's JSON, its checksum, and the magic word, at the very end.
_END = struct.Struct("<II8s")

_PIECE_BYTES = 1 << 22
_WORDS_A_PIECE = 10_000


@dataclass(frozen=True)
class Shard:
    """What a shard holds.

    :param stream: the text, mapped into memory.
    :param faults: the first of the faults that were left out of it.
    :param n_faults: all of them.
    """

    stream: WordStream
    faults: List[str]
    n_faults: int


class StoredWords(Sequence[str]):
    """Words that become strings only when they are looked at.

    :param data: all of them in UTF-8. *Shape:* (n_bytes,)
    :param ends: where each ends. *Shape:* (n_words,)
    """

    def __init__(self, data: NDArray[numpy.uint8], ends: NDArray[numpy.int64]) -> None:
        self._data = data
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> "StoredWords": ...

    def __getitem__(self, number: Union[int, slice]) -> Union[str, "StoredWords"]:
        if isinstance(number, slice):
            begin, end, step = number.indices(len(self))
            if begin != 0 or step != 1:
                raise ValueError(f"The slice is {number}; expected the first words, as in [:10].")
            return StoredWords(self._data, self._ends[:end])
        if not 0 <= number < len(self):
            raise IndexError(f"The word is number {number}; expected 0 to {len(self) - 1}.")
        begin = int(self._ends[number - 1]) if number else 0
        return self._data[begin : int(self._ends[number])].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        begin = 0
        for first in range(0, len(self), _WORDS_A_PIECE):
            ends = self._ends[first : first + _WORDS_A_PIECE]
            data = self._data[begin : int(ends[-1])].tobytes()
            last = 0
            for end in (ends - begin).tolist():
                yield data[last:end].decode("utf-8")
                last = end
            begin += last


class ShardWriter:
    """Writes a shard piece by piece.

    :param file: opened for writing, empty.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._checksum = 0
        self._merger = StreamMerger(self._write)
        self._faults: List[str] = []
        self._n_faults = 0

    @property
    def n_sentences(self) -> int:
        return len(self._merger.lengths)

    def append(self, stream: WordStream) -> None:
        """Add sentences."""
        self._merger.append(stream)

    def add_fault(self, fault: str, max_kept: int) -> None:
        """Note that something was left out."""
        self._n_faults += 1
        if self._n_faults <= max_kept:
            self._faults.append(fault)

    def finish(self) -> None:
        """Write what stands behind the types."""
        self._write(numpy.array(self._merger.lengths, dtype="<i4").tobytes())
        encoded = [word.encode("utf-8") for word in self._merger.words]
        ends = numpy.cumsum([len(word) for word in encoded], dtype="<i8")
        # Ends are of 8 bytes and start at a multiple of that.
        n_padding = -(self._merger.n_positions + self.n_sentences) % 2
        self._write(b"\0\0\0\0" * n_padding)
        self._write(ends.tobytes())
        self._write(b"".join(encoded))
        footer = {
            "n_positions": self._merger.n_positions,
            "n_sentences": self.n_sentences,
            "n_padding": n_padding,
            "n_words": len(encoded),
            "n_word_bytes": int(ends[-1]),
            "checksum": self._checksum,
            "faults": self._faults,
            "n_faults": self._n_faults,
        }
        data = json.dumps(footer).encode("ascii")
        self._file.write(data + _END.pack(len(data), zlib.crc32(data), MAGIC))

    def _write(self, data: bytes) -> None:
        self._checksum = zlib.crc32(data, self._checksum)
        self._file.write(data)


def open_shard(path: Path, *, verify: bool = True) -> Optional[Shard]:
    """Map a shard into memory.

    :param verify: whether to read it through and compare its checksum, too.
    :returns: the shard; none if there is none, or it is damaged.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            footer, n_bytes = _read_footer(file, size)
            if verify and _checksum(file, n_bytes) != footer["checksum"]:
                return None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, NotADirectoryError, _Damaged):
        return None
    ends = numpy.cumsum(_sizes(footer))
    data = numpy.frombuffer(mapped, dtype=numpy.uint8, count=n_bytes)
    types, lengths, _, word_ends, words = numpy.split(data, ends[:-1])
    stream = WordStream(
        words=StoredWords(words, word_ends.view("<i8")),
        types=types.view("<i4"),
        lengths=lengths.view("<i4"),
        file=mapped,
    )
    return Shard(stream, footer["faults"], footer["n_faults"])


class _Damaged(Exception):
    pass


def _read_footer(file: BinaryIO, size: int) -> Tuple[Dict[str, Any], int]:
    """The footer and the number of bytes before it."""
    if size < _END.size:
        raise _Damaged
    file.seek(size - _END.size)
    length, checksum, magic = _END.unpack(file.read(_END.size))
    n_bytes = size - _END.size - length
    if magic != MAGIC or n_bytes < 0:
        raise _Damaged
    file.seek(n_bytes)
    data = file.read(length)
    if zlib.crc32(data) != checksum:
        raise _Damaged
    footer = json.loads(data)
    if sum(_sizes(footer)) != n_bytes:
        raise _Damaged
    return footer, n_bytes


def _sizes(footer: Dict[str, Any]) -> List[int]:
    """Bytes of each part."""
    return [
        4 * footer["n_positions"],
        4 * footer["n_sentences"],
        4 * footer["n_padding"],
        8 * footer["n_words"],
        footer["n_word_bytes"],
    ]


def _checksum(file: BinaryIO, n_bytes: int) -> int:
    file.seek(0)
    checksum = 0
    for begin in range(0, n_bytes, _PIECE_BYTES):
        checksum = zlib.crc32(file.read(min(_PIECE_BYTES, n_bytes - begin)), checksum)
    return checksum
