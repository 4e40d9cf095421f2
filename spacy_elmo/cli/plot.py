"""``spacy elmo plot``."""

from pathlib import Path
from typing import Annotated, List

import typer
from wasabi import msg

from ..training.plotting import SUFFIXES, X_AXES, plot, read_log


def plot_cli(
    paths: Annotated[
        List[Path],
        typer.Argument(
            metavar="LOG... OUT",
            help="Logs of training runs, or the directories that spacy elmo train wrote; at last "
            "the figure to write, a .png or .svg file",
        ),
    ],
    x: Annotated[
        str,
        typer.Option("--x", metavar="|".join(X_AXES), help="What the horizontal axis counts"),
    ] = "steps",
) -> None:
    """
    Draw training loss, held-out perplexity and learning rate of one or more runs into one figure.
    Needs matplotlib: pip install spacy-elmo[plots]
    """
    *logs, figure = paths
    try:
        if not logs:
            raise ValueError(
                f"{figure} is the only path; expected one or more logs, then the figure, whose "
                f"name ends in {' or '.join(SUFFIXES)}."
            )
        plot([read_log(path) for path in logs], figure, x=x)
    except (ValueError, OSError, ImportError) as error:
        msg.fail("Nothing was plotted", str(error), exits=1)
    msg.good(f"Saved: {figure}")
