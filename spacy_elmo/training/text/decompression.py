"""Compressed files, read as a stream of bytes."""

import gzip
import io
import lzma
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, Tuple, Type

from .paths import compression_of

# Compressed bytes of a .zst file that are looked at in one go. Four of them can stand for 128 kB.
ZSTD_PIECE = 1024


@contextmanager
def open_compressed(path: Path) -> Iterator[Tuple[BinaryIO, Callable[[], int]]]:
    """The bytes of a file, decompressed if its name says that it is compressed.

    path (Path): The file.
    YIELDS (Tuple[BinaryIO, Callable]): A buffered reader, and what tells how many bytes of the
        file itself are read so far.
    RAISES ImportError: The file is a .zst file and zstandard is missing.
    """
    with path.open("rb", buffering=0) as raw:
        compression = compression_of(path)
        opened: Any = raw
        if compression == ".gz":
            opened = gzip.GzipFile(fileobj=raw)
        elif compression == ".xz":
            opened = lzma.LZMAFile(raw)
        elif compression == ".zst":
            opened = _ZstdFile(io.BufferedReader(raw))
        yield io.BufferedReader(opened), raw.tell


def damage_errors() -> Tuple[Type[Exception], ...]:
    """What reading a damaged compressed file raises."""
    errors = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
    try:
        from zstandard import ZstdError
    except ImportError:
        return errors
    return (*errors, ZstdError)


def require_decompression(path: Path) -> None:
    """Fail before any file is read.

    RAISES ImportError: The file is a .zst file and zstandard is missing.
    """
    if compression_of(path) == ".zst":
        try:
            import zstandard  # noqa: F401
        except ImportError:
            raise ImportError(
                f"{path}: reading .zst files needs zstandard. Install it with: "
                "pip install spacy-elmo[zstd]"
            ) from None


class _ZstdFile(io.RawIOBase):
    """Unlike zstandard's own reader, tells a file that was cut off from one that is whole."""

    def __init__(self, file: BinaryIO) -> None:
        import zstandard

        self._decompressor = zstandard.ZstdDecompressor()
        self._file = file
        self._frame = self._decompressor.decompressobj()
        self._is_inside = False
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._output:
            if not self._input:
                self._input = self._file.read(ZSTD_PIECE)
            if not self._input:
                if self._is_inside:
                    raise EOFError("the file ends within a frame")
                return 0
            if not self._is_inside:
                self._frame = self._decompressor.decompressobj()
                self._is_inside = True
            self._output = memoryview(self._frame.decompress(self._input))
            self._input = b""
            if self._frame.eof:
                self._input = self._frame.unused_data
                self._is_inside = False
        n = min(len(buffer), len(self._output))
        buffer[:n] = self._output[:n]
        self._output = self._output[n:]
        return n
