"""Which files a path, a directory or a pattern stands for, and what their names say of them."""

import glob
import os
from pathlib import Path
from typing import List, Sequence, Union

TXT, JSONL, DOCBIN = ".txt", ".jsonl", ".spacy"
KINDS = (TXT, JSONL, DOCBIN)
COMPRESSIONS = (".gz", ".xz", ".zst")
SUFFIXES = (*KINDS, *(kind + compression for kind in KINDS for compression in COMPRESSIONS))

_EXPECTED = f"{', '.join(KINDS)} files, also with {', '.join(COMPRESSIONS)}"


def find_files(path: Union[str, Path, Sequence[Union[str, Path]]]) -> List[Path]:
    """The files that a path, or each of a list of paths, stands for.

    path (Union[str, Path, Sequence]): A file; a directory, whose .txt, .jsonl and .spacy files,
        also compressed ones, are taken at any depth; or a pattern such as ``data/**/*.txt.gz``,
        which takes every file it matches. Files of a directory or a pattern are sorted by name,
        and hidden ones left out.
    RETURNS (List[Path]): The files.
    RAISES ValueError: A path is not there, or stands for no file.
    """
    if not isinstance(path, (str, Path)):
        return [file for part in path for file in find_files(part)]
    name = os.path.expanduser(path)
    if os.path.isdir(name):
        everything = os.path.join(glob.escape(name), "**", "*")
        files = [file for file in _match(everything) if file.name.endswith(SUFFIXES)]
        if not files:
            raise ValueError(f"path is {name!r}, a directory without {_EXPECTED}.")
        return files
    if os.path.exists(name):
        return [Path(name)]
    if not glob.has_magic(name):
        raise ValueError(f"path is {name!r}, which does not exist.")
    files = _match(name)
    if not files:
        raise ValueError(f"path is {name!r}, a pattern that no file matches.")
    return files


def kind_of(path: Path) -> str:
    """How a file is read: as its name says, without the suffix of a compression; a file of any
    other name is text.

    RETURNS (str): .txt, .jsonl or .spacy.
    """
    name = path.name.removesuffix(compression_of(path))
    return next((kind for kind in KINDS if name.endswith(kind)), TXT)


def compression_of(path: Path) -> str:
    """RETURNS (str): .gz, .xz, .zst or an empty string."""
    return path.suffix if path.suffix in COMPRESSIONS else ""


def _match(pattern: str) -> List[Path]:
    return sorted(path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file())
