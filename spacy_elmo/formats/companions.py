"""Files that may stand beside the weights of a biLM, and belong to them: what a language model
needs to predict words. Vectors need none of them."""

import gzip
import zlib
from pathlib import Path
from typing import List, Optional

VOCABULARY_FILE = "vocab.txt"
SOFTMAX_FILE = "softmax.safetensors"

#: The vocabulary is compressed in some archives of the NLPL repository.
VOCABULARY_FILES = (VOCABULARY_FILE, f"{VOCABULARY_FILE}.gz")
COMPANIONS = (*VOCABULARY_FILES, SOFTMAX_FILE)


def find_companions(place: Path) -> List[Path]:
    """The companions in a directory of weights, or beside one file of them."""
    directory = place if place.is_dir() else place.parent
    return [directory / name for name in COMPANIONS if (directory / name).is_file()]


def count_entries(place: Path) -> Optional[int]:
    """The lines of the vocabulary beside weights; none where there is no vocabulary.

    :raises ValueError: it is compressed, and damaged.
    """
    for path in find_companions(place):
        if path.name not in VOCABULARY_FILES:
            continue
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                return sum(1 for line in file if line.strip())
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is no complete gzip file ({error}).") from error
    return None
