"""The files of the data sets, compressed or not, and result files."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from spacy_elmo.formats.atomic import write_together

DECOMPRESS: Dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
}


def find_bytes(folder: Path, name: str) -> Optional[bytes]:
    """The content of a file that may be there as it is, as ``.gz`` or as ``.xz``.

    :param name: path below the folder, without the ending of the compression.
    """
    for ending, decompress in DECOMPRESS.items():
        path = folder / f"{name}{ending}"
        if path.exists():
            return decompress(path.read_bytes())
    return None


def read_text(folder: Path, name: str, encoding: str = "utf-8") -> str:
    """The text of such a file, with ``\\n`` at the end of a line.

    :raises FileNotFoundError: it is not there.
    """
    data = find_bytes(folder, name)
    if data is None:
        raise missing(folder, name)
    return data.decode(encoding).replace("\r\n", "\n")


def missing(folder: Path, *names: str) -> FileNotFoundError:
    """The error for data that is not there."""
    return FileNotFoundError(
        f"{folder} has no {' nor '.join(names)} (plain, .gz or .xz). Fetch the data with "
        "`spacy project assets`, or name a folder that has it: `--vars.data FOLDER`."
    )


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_together(path.parent, {path.name: lambda temporary: _write(temporary, text)})


def is_result_of(path: Path, fingerprint: str) -> bool:
    """Is there a result file with this fingerprint of settings, data and weights?"""
    if not path.exists():
        return False
    return bool(json.loads(path.read_text(encoding="utf-8"))["fingerprint"] == fingerprint)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
