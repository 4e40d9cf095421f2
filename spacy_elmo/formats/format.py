"""What a format of weights is: a name, how it is recognised, read and written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Tuple

from ..bilm import BiLM


def _float32(path: Path) -> str:
    return "float32"


@dataclass(frozen=True)
class Format:
    """A format of published weights.

    :param name: its registered name.
    :param contents: the files it consists of, in words, for messages.
    :param patterns: the names of these files, with ``*`` for any text. Only files with such
        names are taken out of an archive.
    :param matches: does this directory, or this one file, hold the format? Looks at names and
        first bytes only.
    :param read: the biLM in a directory or file that matches.
    :param write: write a biLM into a directory, which is made if it is not there. A write that
        fails leaves what was there before. A format that is read only raises a ``ValueError``.
    :param stored_type: the type of the weights in a directory or file that matches, in words. All
        become float32 when they are read.
    """

    name: str
    contents: str
    patterns: Tuple[str, ...]
    matches: Callable[[Path], bool]
    read: Callable[[Path], BiLM]
    write: Callable[[BiLM, Path], None]
    stored_type: Callable[[Path], str] = _float32
