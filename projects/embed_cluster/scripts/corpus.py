"""The files of a corpus and where the vectors of each go."""

from pathlib import Path
from typing import Dict

from spacy_elmo.training.text.paths import find_files


def find_shards(corpus: Path, output: Path) -> Dict[Path, Path]:
    """The Parquet file of each file of a corpus, by their absolute paths.

    :raises ValueError: there is no file, or two of them would have the same Parquet file.
    """
    corpus, output = corpus.absolute(), output.absolute()
    shards: Dict[Path, Path] = {}
    for path in find_files(corpus):
        place = path.relative_to(corpus)
        # The whole name is kept: a.txt and a.jsonl are two files.
        shards[path] = output / place.with_name(place.name + ".parquet")
    return shards
