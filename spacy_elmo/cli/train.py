"""``spacy elmo train``."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Dict, List, Optional

import click
import torch
import typer
from spacy.cli._util import import_code, parse_config_overrides
from wasabi import msg

from ..training import Result, read_config, train
from ..training.output import BEST, LAST
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
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run in the output directory as if it had never stopped; start "
            "anew if there is none",
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in the output directory")
    ] = False,
    init: Annotated[
        Optional[str],
        typer.Option(
            "--init", help="Model to start from, in any format that an elmo component reads"
        ),
    ] = None,
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
    Train a biLM on text files. Writes model-best and model-last, which the "source" of an elmo
    component takes, log.jsonl, and checkpoint.pt, from which --resume goes on. Any setting of the
    config can be given as an option, for instance --paths.train text.txt or
    --training.max_epochs 2. Several processes: torchrun --nproc-per-node 2 -m spacy_elmo train ...
    """
    overrides = _parse_overrides(ctx.args)
    if init is not None:
        overrides["training.init"] = init
    import_code(code_path)
    # Of several processes only the first one shows anything but errors.
    rank = int(os.environ.get("RANK", "0"))
    with ConsoleReporter() as reporter:
        try:
            config = read_config(config_path, overrides)
            reporter.shows_steps = config.get("training", {}).get("logger") is None
            result = train(
                config, output_path, resume=resume, overwrite=overwrite, reporter=reporter
            )
        except (ValueError, OSError, ImportError, FloatingPointError) as error:
            reporter.close()
            title = "Training failed" if rank == 0 else f"Training failed in process {rank}"
            msg.fail(title, str(error))
            # torchrun soon ends the other processes, which lose what they have not written yet.
            sys.stdout.flush()
            sys.exit(1)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reporter.close()
            msg.fail(
                "Training failed",
                f"There is not enough memory ({str(error).splitlines()[0]}). Lower batch_size or "
                "unroll_steps in [training] (grad_accumulation makes a step of several smaller "
                "windows), n_samples in [training.softmax], or the sizes in [bilm]. What was saved "
                "before is whole.",
                exits=1,
            )
        except KeyboardInterrupt:
            reporter.close()
            msg.warn("Stopped", exits=INTERRUPTED)
    if rank == 0:
        _show(result, output_path)
    if result.is_interrupted:
        sys.exit(INTERRUPTED)


def _parse_overrides(arguments: List[str]) -> Dict[str, Any]:
    try:
        return parse_config_overrides(arguments)
    except click.UsageError as error:
        msg.fail(
            error.format_message(),
            "Settings of the config are given with their block, for instance "
            "--training.max_hours 2. The other options: spacy elmo train --help",
            exits=1,
        )
        raise


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch, on a CPU or on CUDA, or Python could not get the memory that it asked for."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and "allocate memory" in str(error)
    )


def _show(result: Result, output_path: Path) -> None:
    if result.is_interrupted:
        msg.warn(
            f"Stopped after step {result.n_steps}",
            f"Saved: {output_path / LAST}. Go on with --resume",
        )
        return
    if result.n_steps == result.first_step:
        msg.info(
            f"This run ended at step {result.n_steps} by {result.ended_by}; nothing was left to "
            "do. With a higher limit it goes on"
        )
    elif result.ended_by in ("patience", "max_hours"):
        msg.info(f"Ended at step {result.n_steps} by {result.ended_by}")
    assert result.best is not None
    msg.good(
        f"Held-out perplexity {result.best.perplexity:.2f} (forward "
        f"{result.best.forward_perplexity:.2f}, backward {result.best.backward_perplexity:.2f})",
        f"Best model, of step {result.best.step}: {output_path / BEST}",
    )
