"""NumPy's ``.npz``: an array a sentence under its number as text.

It is an uncompressed zip file. Python's library cannot go on with one whose end was not written,
and keeps all entries in memory, so the records are written here, each entry when its array is
there, and the directory at the end.
"""

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, Optional

import numpy

from ..blocks import Block
from .sink import Contents, SequentialSink, State, open_at, sync

# Larger numbers do not fit the records' fields; they go into extra ones ("zip64").
MAX_32_BITS = 2**32 - 1
MAX_16_BITS = 2**16 - 1

_PIECE_BYTES = 1 << 20


class NpzSink(SequentialSink):
    """See the module."""

    suffixes = (".npz",)

    def __init__(
        self,
        contents: Contents,
        directory: Path,
        state: Optional[State] = None,
        stream: Optional[BinaryIO] = None,
    ) -> None:
        super().__init__(contents, directory, state, stream)
        self._n_entries = state["n_entries"] if state else 0
        size = state["directory_size"] if state else None
        self._directory = open_at(directory / "directory", size)

    def write(self, block: Block) -> None:
        for number, array in enumerate(block.arrays, block.first):
            self._add(f"{number}.npy", array)

    def flush(self) -> State:
        sync(self._directory)
        sizes = {"n_entries": self._n_entries, "directory_size": self._directory.tell()}
        return {**super().flush(), **sizes}

    def finish(self) -> Path:
        begin = self.size
        self._directory.seek(0)
        while piece := self._directory.read(_PIECE_BYTES):
            self.append(piece)
        self.append(_end_records(self._n_entries, begin, self.size, self.contents.settings))
        return super().finish()

    def close(self) -> None:
        super().close()
        self._directory.close()

    @staticmethod
    def stored_settings(path: Path) -> Optional[str]:
        with zipfile.ZipFile(path) as file:
            return file.comment.decode("utf-8")

    def _add(self, name: str, array: "numpy.ndarray") -> None:
        buffer = io.BytesIO()
        little = array.astype(array.dtype.newbyteorder("<"))
        numpy.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
        data = buffer.getbuffer()
        info = zipfile.ZipInfo(name)
        info.CRC = zlib.crc32(data)
        info.file_size = info.compress_size = len(data)
        info.header_offset = self.size
        self.append(info.FileHeader())
        self._directory.write(_directory_record(info))
        self._n_entries += 1
        self.append(bytes(data))


def _directory_record(info: zipfile.ZipInfo) -> bytes:
    """The record of an entry in the directory (APPNOTE.TXT of PKWARE, 4.3.12)."""
    values = [info.file_size, info.compress_size, info.header_offset]
    large = [value for value in values if value > MAX_32_BITS]
    extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    name = info.filename.encode("ascii")
    version = zipfile.ZIP64_VERSION if large else zipfile.DEFAULT_VERSION
    record = struct.pack(
        "<4s6H3L5H2L",
        b"PK\1\2",
        info.create_system << 8 | version,
        version,
        0,  # flags
        zipfile.ZIP_STORED,
        0,  # time
        1 << 5 | 1,  # 1 January 1980, the first date there is
        info.CRC,
        min(info.compress_size, MAX_32_BITS),
        min(info.file_size, MAX_32_BITS),
        len(name),
        len(extra),
        0,  # comment
        0,  # disk
        0,  # internal attributes
        0o600 << 16,  # external attributes: the rights of the file
        min(info.header_offset, MAX_32_BITS),
    )
    return record + name + extra


def _end_records(n_entries: int, begin: int, end: int, comment: str) -> bytes:
    """What follows the directory (4.3.14 to 4.3.16)."""
    size = end - begin
    records = b""
    if n_entries > MAX_16_BITS or begin > MAX_32_BITS or size > MAX_32_BITS:
        version = zipfile.ZIP64_VERSION
        records += struct.pack(
            "<4sQ2H2L4Q", b"PK\6\6", 44, version, version, 0, 0, n_entries, n_entries, size, begin
        )
        records += struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    n_entries = min(n_entries, MAX_16_BITS)
    text = comment.encode("utf-8")
    records += struct.pack(
        "<4s4H2LH",
        b"PK\5\6",
        0,
        0,
        n_entries,
        n_entries,
        min(size, MAX_32_BITS),
        min(begin, MAX_32_BITS),
        len(text),
    )
    return records + text
