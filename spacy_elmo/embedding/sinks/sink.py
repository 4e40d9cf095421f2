"""What every output format does: write blocks in order, stop at any time, and go on."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Dict, Optional, Tuple

import numpy

from ..blocks import Block
from ..spool import Spool

#: What a sink must know to go on, as JSON can hold it.
State = Dict[str, Any]

#: Where formats keep what a file was made of.
SETTINGS_KEY = "spacy_elmo"

OUTPUT_FILE = "output"


@dataclass(frozen=True)
class Contents:
    """What a file will hold.

    :param n_layers: layers of each array; none where they are summed.
    :param width: size of a row.
    :param dtype: of the values.
    :param keep_sentences: whether the file holds the text, where its format has a place for it.
    :param settings: what the file is made of, as JSON.
    """

    spool: Spool
    n_layers: Optional[int]
    width: int
    dtype: "numpy.dtype[Any]"
    keep_sentences: bool
    settings: str

    def shape(self, n_tokens: int) -> Tuple[int, ...]:
        """The shape of a sentence's array."""
        rows = (n_tokens, self.width)
        return rows if self.n_layers is None else (self.n_layers, *rows)

    def n_bytes(self, n_tokens: int) -> int:
        """The size of a sentence's array."""
        return (self.n_layers or 1) * n_tokens * self.width * self.dtype.itemsize


class Sink(ABC):
    """Writes one file.

    :param directory: where the file is made, beside whatever else is needed for it.
    :param state: what :meth:`flush` gave when it was last called; none to start anew.
    :param stream: where to write, in place of a file; without a state.
    """

    #: Names of such files end in this.
    suffixes: Tuple[str, ...]

    #: The package that writes the format, and the extra that installs it; none where no extra does.
    package: Optional[Tuple[str, str]] = None

    #: Whether a stream can be written, which has no way back.
    can_stream: bool

    @abstractmethod
    def __init__(
        self,
        contents: Contents,
        directory: Path,
        state: Optional[State] = None,
        stream: Optional[BinaryIO] = None,
    ) -> None: ...

    @abstractmethod
    def write(self, block: Block) -> None:
        """Add a block."""

    @abstractmethod
    def flush(self) -> State:
        """Bring what was written so far to the disk, and tell how to go on from here."""

    @abstractmethod
    def finish(self) -> Path:
        """Complete the file, and tell where it is."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open, whatever is written."""

    @classmethod
    def require(cls) -> None:
        """Fail before anything is done.

        :raises ImportError: the package is missing.
        """
        if cls.package is None:
            return
        name, extra = cls.package
        try:
            import_module(name)
        except ImportError:
            raise ImportError(
                f"Writing {cls.suffixes[0]} files needs {name}. Install it with: "
                f"pip install spacy-elmo[{extra}]"
            ) from None

    @staticmethod
    @abstractmethod
    def stored_settings(path: Path) -> Optional[str]:
        """What a complete file was made of. May raise any error where it is another file."""


class SequentialSink(Sink):
    """Writes its file from begin to end, so that a stream will do."""

    can_stream = True

    def __init__(
        self,
        contents: Contents,
        directory: Path,
        state: Optional[State] = None,
        stream: Optional[BinaryIO] = None,
    ) -> None:
        self.contents = contents
        self.path = directory / OUTPUT_FILE
        self.size = 0
        self._is_own = stream is None
        self._file = stream or open_at(self.path, state["size"] if state else None)
        if state is not None:
            self.size = state["size"]

    def append(self, data: bytes) -> None:
        """Write the next bytes of the file."""
        self._file.write(data)
        self.size += len(data)

    def flush(self) -> State:
        if self._is_own:
            sync(self._file)
        return {"size": self.size}

    def finish(self) -> Path:
        self._file.flush()
        if self._is_own:
            sync(self._file)
        return self.path

    def close(self) -> None:
        if self._is_own:
            self._file.close()


def open_at(path: Path, size: Optional[int]) -> BinaryIO:
    """A file to write on from its first ``size`` bytes, the others of which are dropped; without a
    size a new file.

    :raises ValueError: the file is shorter.
    """
    if size is None:
        return path.open("w+b")
    file = path.open("r+b")
    if (found := file.seek(0, os.SEEK_END)) < size:
        file.close()
        raise ValueError(
            f"{path} has {found} bytes; expected {size} or more. It cannot be resumed: give "
            "--overwrite in place of --resume."
        )
    file.truncate(size)
    file.seek(size)
    return file


def sync(file: BinaryIO) -> None:
    """Bring a file to the disk."""
    file.flush()
    os.fsync(file.fileno())
