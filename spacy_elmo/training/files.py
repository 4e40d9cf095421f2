"""Several small files of one directory, written all or none."""

from functools import partial
from pathlib import Path
from typing import Mapping

from ..formats.atomic import write_together


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
