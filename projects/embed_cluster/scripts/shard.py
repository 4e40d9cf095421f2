"""Cut a text with a sentence a line into files of so many lines."""

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from spacy_elmo.training.files import open_atomic
from spacy_elmo.training.text.decompression import open_compressed


def main(
    text: Annotated[Path, typer.Argument(help="The text, also a compressed one")],
    output: Annotated[Path, typer.Argument(help="Folder for the files")],
    lines: Annotated[int, typer.Option(min=1, help="Lines of a file")] = 10_000,
) -> None:
    n_files = 0
    with open_compressed(text) as (file, _):
        while piece := list(islice(file, lines)):
            with open_atomic(output / f"{n_files:06}.txt") as target:
                target.writelines(piece)
            n_files += 1
    # What an earlier run with shorter files left would be embedded, too.
    for path in output.glob("[0-9]*.txt"):
        if int(path.stem) >= n_files:
            path.unlink()
    print(f"Saved: {output}, {n_files} files of at most {lines:,} lines")


if __name__ == "__main__":
    typer.run(main)
