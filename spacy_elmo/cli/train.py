"""``spacy elmo train``."""

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer
from spacy.cli._util import import_code, parse_config_overrides
from wasabi import msg

from ..training import read_config, train
from ..training.loop import BEST, LAST
from .progress import ConsoleReporter

# What a shell reports of a program that Ctrl-C ended.
INTERRUPTED = 130


def train_cli(
    ctx: typer.Context,  # holds the overrides
    config_path: Annotated[
        Path, typer.Argument(help="Path to the config file", exists=True, allow_dash=True)
    ],
    output_path: Annotated[
        Path,
        typer.Option(
            "--output", "--output-path", "-o", help="Directory to store the trained models in"
        ),
    ],
    code_path: Annotated[
        Optional[Path],
        typer.Option(
            "--code",
            "-c",
            help="Path to a Python file with more registered functions, to be imported",
        ),
    ] = None,
) -> None:
    """
    Train a biLM on text files (one paragraph a line, blank lines between documents; .txt,
    .txt.gz, .txt.xz). Writes model-best and model-last, which the "source" of an elmo component
    takes, and log.jsonl. Any setting of the config can be given as an option, for instance
    --paths.train text.txt or --training.max_epochs 2.
    """
    overrides = parse_config_overrides(ctx.args)
    import_code(code_path)
    with ConsoleReporter() as reporter:
        try:
            config = read_config(config_path, overrides)
            result = train(config, output_path, reporter=reporter)
        except (ValueError, OSError, ImportError, FloatingPointError) as error:
            reporter.close()
            msg.fail("Training failed", str(error), exits=1)
        except KeyboardInterrupt:
            reporter.close()
            msg.warn("Stopped", exits=INTERRUPTED)
    if result.is_interrupted:
        msg.warn(f"Stopped after step {result.n_steps}", f"Saved: {output_path / LAST}")
        sys.exit(INTERRUPTED)
    assert result.best is not None
    msg.good(
        f"Held-out perplexity {result.best.perplexity:.2f} (forward "
        f"{result.best.forward_perplexity:.2f}, backward {result.best.backward_perplexity:.2f})",
        f"Best model, of step {result.best.step}: {output_path / BEST}",
    )
