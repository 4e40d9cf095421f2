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


def write_file(path: Path, data: bytes) -> None:
    """Write a file, atomically; of a symbolic link its target.

    :param path: the file; directories above it are made if they are not there.
    :raises ValueError: there is something else than a file.
    :raises OSError: writing failed; the previous file is as it was.
    """
    path = find_target(path)
    write_files(path.parent, {path.name: data})


def find_target(path: Path, instead: str = "") -> Path:
    """The file to replace where a path is to be written: of a symbolic link its target.

    :param instead: what else may be given in place of a pipe or a device, for the message.
    :raises ValueError: there is something else, such as a directory or a device.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a directory; expected the path of a file.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a pipe or a device; expected the path of a file{instead}.")
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise ValueError(f"{path} is a symbolic link that leads back to itself; expected a file.")
    return target


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece, which takes its place at the end of the ``with`` block;
    after an error the previous file is whole and nothing else is left.

    :param path: the file; directories above it are made if they are not there.
    :raises ValueError: ``path`` is a directory, a pipe or a device.
    :raises OSError: writing failed.
    """
    path = find_target(path)
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
