"""Files that are written whole or not at all."""

import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Iterator, Mapping
from uuid import uuid4

from ..formats.atomic import naming, write_together


def write_files(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write files, atomically and together.

    :param directory: made if it is not there.
    :param contents: the bytes of each file by its name.
    :raises ValueError: ``directory`` is a file.
    :raises OSError: writing failed; the previous files are as they were.
    """
    write_together(directory, {name: partial(_write, data) for name, data in contents.items()})


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece, which takes its place at the end of the ``with`` block;
    after an error the previous file is whole and nothing else is left.

    :param path: the file; directories above it are made if they are not there.
    :raises ValueError: ``path`` is a directory.
    :raises OSError: writing failed.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a directory; expected the path of a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with naming(path), temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
