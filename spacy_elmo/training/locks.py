"""Directories that one process at a time writes."""

import os
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Iterator, Optional

fcntl: Optional[ModuleType]
try:
    import fcntl
except ImportError:
    # Windows. Two runs at a time that write the same are not noticed there.
    fcntl = None


@contextmanager
def only_writer(directory: Path, output: Path) -> Iterator[None]:
    """Keep a directory for this process while the block runs, which also ends with the process,
    in whatever way.

    :param output: what is made there, for the message.
    :raises BlockingIOError: another process has the directory.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                f"Another process is writing {output}. Wait for its end, or write elsewhere."
            ) from None
        except OSError:
            # Some network file systems have no locks; then nothing is noticed either.
            pass
        yield
    finally:
        os.close(handle)
