"""``spacy elmo convert``."""

import warnings
from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from ..formats import convert
from ..formats.conversion import TARGETS
from ..formats.native import PRECISIONS


def convert_cli(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="Weights of any supported format: directory, archive or file"
        ),
    ],
    target: Annotated[
        Path, typer.Argument(metavar="DST", help="Directory to write the weights into")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            "-t",
            metavar="|".join(TARGETS),
            help="native: config.json and model.safetensors; hdf5: options.json and weights.hdf5, "
            "as bilm-tf, AllenNLP and simple_elmo read them",
        ),
    ],
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            "-p",
            metavar="|".join(PRECISIONS),
            help="Type of the weights in the file; float16 halves it (native only)",
        ),
    ] = "float32",
    force: Annotated[
        bool,
        typer.Option(
            "--force", "-F", help="Write into a directory that holds something, over its files"
        ),
    ] = False,
) -> None:
    """
    Write weights in another format. What both formats can say stays as it is, to the last bit; what
    the new one cannot is named. A vocabulary beside the weights goes along.
    """
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            notes = convert(
                source,
                target,
                to,  # type: ignore[arg-type]
                precision=precision,  # type: ignore[arg-type]
                force=force,
            )
    except (ValueError, OSError, ImportError) as error:
        msg.fail("Nothing was converted", str(error), exits=1)
    for note in (*(str(warning.message) for warning in caught), *notes):
        msg.warn(note)
    msg.good(f"Saved: {target}")
