"""Compare the rows of all Parquet files with the corpus: each token once, in its place."""

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Annotated, Iterator, List, Tuple

import pyarrow.parquet as pq
import typer

from spacy_elmo.embedding.sentences import Reader
from spacy_elmo.training.files import write_files

from .corpus import find_shards

#: Number of the sentence, number of the token in it, and its text.
Row = Tuple[int, int, str]


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder of the corpus")],
    output: Annotated[Path, typer.Argument(help="Folder of the Parquet files")],
    report: Annotated[Path, typer.Option(help="JSON file for the counts")],
    lang: Annotated[str, typer.Option(help="Language of the tokenizer; none: blanks")] = "",
) -> None:
    shards = find_shards(corpus, output)
    counts = {"files": len(shards), "sentences": 0, "tokens": 0, "rows": 0}
    faults: List[str] = []
    for shard, place in shards.items():
        if not place.exists():
            faults.append(f"{place} is missing")
            continue
        found = rows_of(place)
        for number, (_, words) in enumerate(Reader(lang or None).read(shard)):
            counts["sentences"] += 1
            counts["tokens"] += len(words)
            for expected in ((number, position, word) for position, word in enumerate(words)):
                row = next(found, None)
                counts["rows"] += row is not None
                if row != expected:
                    faults.append(f"{place} has the row {row}; expected {expected}")
                    break
            else:
                continue
            break
        rest = sum(1 for _ in found)
        counts["rows"] += rest
        if rest:
            faults.append(f"{place} has {rest:,} more rows")
    known = set(shards.values())
    left = [path for path in output.absolute().rglob("*.parquet*") if path not in known]
    faults += [f"{path} is of no file of the corpus" for path in left]
    write_files(report.parent, {report.name: json.dumps(counts, indent=2).encode("ascii")})
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()))
    if faults:
        sys.exit("\n".join(chain(faults[:20], [f"{len(faults)} faults in all"])))


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of a Parquet file, without its vectors."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["sentence", "token", "text"]):
            yield from zip(*(column.to_pylist() for column in batch.columns))


if __name__ == "__main__":
    typer.run(main)
