"""The directory that a run writes: its checkpoint, its models and its log."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from .files import write_files
from .progress import Progress
from .run import Run
from .storage import save_language_model

BEST, LAST, LOG, CHECKPOINT = "model-best", "model-last", "log.jsonl", "checkpoint.pt"


def prepare_output(path: Path, *, resume: bool, overwrite: bool) -> bool:
    """Make the directory, or look at what an earlier run left there.

    :param resume: go on with the run there, if there is one.
    :param overwrite: take the place of the run there, if there is one.
    :returns: whether there is a checkpoint to go on from.
    :raises ValueError: the path is a file, or a run would be lost.
    :raises OSError: nothing can be written there.
    """
    if resume and overwrite:
        raise ValueError("Both --resume and --overwrite were given; expected one of them at most.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"The output {path} is a file; expected the path of a directory.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".{uuid4().hex}.tmp"
        probe.touch()
        probe.unlink()
    except OSError as error:
        why = error.strerror or error
        raise type(error)(f"The output {path} cannot be written: {why}") from None
    has_checkpoint = (path / CHECKPOINT).exists()
    found = [name for name in (CHECKPOINT, BEST, LAST, LOG) if (path / name).exists()]
    if found and not overwrite and not (resume and has_checkpoint):
        found_list = ", ".join(found)
        if resume:
            raise ValueError(
                f"The output {path} holds {found_list}, but no {CHECKPOINT} to go on from. Give "
                "--overwrite to replace it, or another output."
            )
        raise ValueError(
            f"The output {path} holds an earlier run ({found_list}). Give --resume to go on with "
            "it, --overwrite to replace it, or another output."
        )
    return resume and has_checkpoint


def clear_output(path: Path) -> None:
    """Remove models and log of the run before, and what a killed process left half written."""
    for name in (BEST, LAST):
        shutil.rmtree(path / name, ignore_errors=True)
    (path / LOG).unlink(missing_ok=True)
    remove_unfinished(path)


def remove_unfinished(path: Path) -> None:
    """Remove the temporary files that a process killed while writing left behind."""
    for directory in (path, path / BEST, path / LAST):
        for file in directory.glob(".*.tmp"):
            file.unlink(missing_ok=True)


def save_evaluated(run: Run, path: Path, progress: Progress) -> None:
    """Write what belongs to the last evaluation, if the weights are still those of it:
    ``model-last``, ``model-best`` if it is the best, and the log."""
    remove_unfinished(path)
    if not progress.is_evaluated:
        return
    evaluation = progress.evaluations[-1]
    # Facts that are the same in every run of a config, so that the files are too.
    names = ("step", "epoch", "forward_perplexity", "backward_perplexity", "perplexity")
    metadata = {name: getattr(evaluation, name) for name in names}
    run.warm_up()
    for name in (LAST, BEST) if progress.is_best else (LAST,):
        save_language_model(run.model, run.vocabulary, path / name, metadata)
    lines = [json.dumps(asdict(evaluation)) + "\n" for evaluation in progress.evaluations]
    write_files(path, {LOG: "".join(lines).encode("utf-8")})


def save_stopped(run: Run, path: Path, progress: Progress) -> None:
    """Write ``model-last`` with weights that nothing has evaluated."""
    if not progress.is_evaluated:
        run.warm_up()
        save_language_model(run.model, run.vocabulary, path / LAST)
