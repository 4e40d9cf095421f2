"""The parts of a folder of text."""

from pathlib import Path
from typing import List

SUFFIXES = (".txt", ".jsonl", ".spacy")
COMPRESSED = ("", ".gz", ".xz", ".zst")


def find_part(folder: Path, part: str) -> List[str]:
    """The files of ``train``, ``dev`` or ``test``, by name."""
    endings = tuple(suffix + end for suffix in SUFFIXES for end in COMPRESSED)
    found = sorted(str(path) for path in folder.glob(f"{part}*") if path.name.endswith(endings))
    if not found:
        raise SystemExit(
            f"{folder} has no {part}* file; expected train*, dev* and test*, each .txt, .jsonl or "
            ".spacy, also .gz, .xz or .zst. Name the folder: --vars.text path/to/folder"
        )
    return found


def find_one(folder: Path, part: str) -> str:
    """The only file of ``dev`` or ``test``."""
    found = find_part(folder, part)
    if len(found) > 1:
        raise SystemExit(f"{folder} has {', '.join(found)}; expected one {part}* file.")
    return found[0]
