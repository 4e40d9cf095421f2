"""Files that belong together, written so that no reader ever finds a mix of old and new."""

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Tuple
from uuid import uuid4

# Files up to this size are compared with what they replace; bytes.
MAX_COMPARED = 1 << 20

Writer = Callable[[Path], None]


def write_together(directory: Path, writers: Mapping[str, Writer]) -> None:
    """Write several files of one directory: afterwards all of them are new, or after an error
    all of them are as they were, with no temporary file left.

    Small files that would not change are left alone. Where more than one file changes, the old
    ones are moved aside before the first new one takes its place, so that a process killed in
    between leaves files missing, but not old files beside new ones.

    :param directory: the directory, made if it is not there.
    :param writers: for each file name, a function that writes the file to the path it is given.
    :raises ValueError: ``directory`` is a file.
    :raises OSError: writing failed.
    """
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; expected the path of a directory.")
    directory.mkdir(parents=True, exist_ok=True)
    written: Dict[Path, Path] = {}
    try:
        for name, writer in writers.items():
            temporary = _beside(directory / name)
            written[directory / name] = temporary
            with naming(directory / name):
                writer(temporary)
                _flush(temporary)
        _replace({target: new for target, new in written.items() if not _is_same(target, new)})
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an ``OSError`` of the block the name of the file, if it has none, as that of a full
    disk, or that of a temporary file."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None or str(error.filename).endswith(".tmp")
        if unnamed and error.errno is not None:
            error.filename = str(path)
        raise


def _replace(files: Mapping[Path, Path]) -> None:
    if len(files) == 1:
        for target, new in files.items():
            os.replace(new, target)
        return
    aside: List[Tuple[Path, Path]] = []
    placed: List[Path] = []
    try:
        for target in files:
            if target.exists():
                old = _beside(target)
                os.replace(target, old)
                aside.append((target, old))
        for target, new in files.items():
            os.replace(new, target)
            placed.append(target)
    except BaseException:
        for target in placed:
            target.unlink(missing_ok=True)
        for target, old in aside:
            os.replace(old, target)
        raise
    for _, old in aside:
        old.unlink()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex}.tmp")


def _flush(path: Path) -> None:
    # Without this a crash of the machine can leave the new name with no content.
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _is_same(target: Path, new: Path) -> bool:
    if not target.is_file() or new.stat().st_size > MAX_COMPARED:
        return False
    return target.read_bytes() == new.read_bytes()
