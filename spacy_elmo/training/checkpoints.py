"""Checkpoints: all that a run needs to go on as if it had never stopped."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional

import torch
from torch import Tensor

from ..bilm import BiLMState, LSTMState
from ..formats.atomic import write_together
from .output import CHECKPOINT, LAST
from .progress import Progress
from .run import Run
from .start import WARM_STATE
from .steps import Stepper

VERSION = 1

PARTS = ("settings", "fingerprints", "model", "optimizer", "states", "progress")

#: Settings that may be others when a run goes on; texts and vocabulary are compared by content.
FREE = {
    f"training.{name}"
    for name in (
        "max_epochs",
        "max_steps",
        "max_hours",
        "patience",
        "eval_frequency",
        "checkpoint_minutes",
        "n_threads",
        "device",
    )
} | {"vocab.path", "words.path", "words.vectors"}


class Checkpoints:
    """The checkpoint of a run, written by its first process.

    :param output: the directory of the run.
    :param settings: what the weights depend on, by dotted name.
    :param run: the run; its model is saved and filled.
    :param stepper: its optimizer and carried state are saved and filled.
    """

    def __init__(
        self, output: Path, settings: Mapping[str, Any], run: Run, stepper: Stepper
    ) -> None:
        self.path = output / CHECKPOINT
        self.run = run
        self.stepper = stepper
        self.world = stepper.world
        self.settings = {**settings, "processes": self.world.size}
        self._last: Optional[Progress] = None

    def is_due(self, progress: Progress) -> bool:
        """Whether the last checkpoint is older than ``checkpoint_minutes``."""
        assert self._last is not None
        minutes = self.stepper.settings.checkpoint_minutes
        return 0 < minutes * 60 <= progress.seconds - self._last.seconds

    def save(self, progress: Progress) -> None:
        """Write a checkpoint; all processes take part, as each has its own carried state.

        :raises OSError: writing failed; the checkpoint before is whole.
        """
        states = self.world.gather(pack_state(self.stepper.state))
        if self.world.is_first:
            weights = self.run.model.state_dict()
            contents = {
                "settings": self.settings,
                "fingerprints": self.run.fingerprints,
                "model": {name: weights[name] for name in weights if name not in WARM_STATE},
                "optimizer": self.stepper.optimizer.state_dict(),
                "states": states,
                "progress": progress.to_dict(),
            }
            self.write(write_checkpoint, self.path, contents)
        self._last = replace(progress)

    def load(self) -> Progress:
        """Go on from the checkpoint: fill model, optimizer and carried state.

        :returns: how far the run had come.
        :raises ValueError: the file is damaged, or belongs to a run with other settings or texts.
        """
        contents = self.world.share(partial(read_checkpoint, self.path))
        check_settings(self.path, contents["settings"], self.settings)
        check_texts(self.path, contents["fingerprints"], self.run.fingerprints)
        self.run.model.load_state_dict(contents["model"])
        self.stepper.optimizer.load_state_dict(contents["optimizer"])
        state = contents["states"][self.world.rank]
        self.stepper.state = unpack_state(state, self.world.device)
        progress = Progress.from_dict(contents["progress"])
        self._last = replace(progress)
        return progress

    def write(self, write: Callable[..., None], *values: Any) -> None:
        """Call a function that writes files; if it fails, say what is left.

        :raises OSError: writing failed.
        """
        try:
            write(*values)
        except OSError as error:
            left = "What was there before is whole."
            if self._last is not None:
                left = (
                    f"The checkpoint of step {self._last.step} is whole ({self.path}): go on from "
                    "it with --resume."
                )
            raise OSError(f"Saving failed: {error}. {left}") from error


def write_checkpoint(path: Path, contents: Mapping[str, Any]) -> None:
    """Write a checkpoint, atomically.

    :param contents: tensors and plain values, in dicts and lists.
    :raises OSError: writing failed; the checkpoint before is as it was.
    """
    write_together(path.parent, {path.name: partial(_write, {"version": VERSION, **contents})})


def read_checkpoint(path: Path) -> Dict[str, Any]:
    """Read what :func:`write_checkpoint` wrote, onto the CPU. Runs no code from the file.

    :raises ValueError: the file is damaged, or of another version.
    """
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # A damaged file fails in many ways.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(_damaged(path, reason)) from error
    version = contents.get("version") if isinstance(contents, dict) else None
    missing = [name for name in PARTS if version == VERSION and name not in contents]
    if missing:
        raise ValueError(_damaged(path, f"no {', '.join(missing)}"))
    if version != VERSION:
        raise ValueError(
            f"{path} is a checkpoint of version {version}; this spacy-elmo reads {VERSION}. Go on "
            "with the spacy-elmo that wrote it."
        )
    return contents


def _damaged(path: Path, reason: str) -> str:
    way_out = "Start anew with --overwrite"
    if (last := path.parent / LAST).is_dir():
        way_out += f", or with another --output from the last model: --init {last}"
    return f"{path} is no checkpoint, or a damaged one ({reason}). {way_out}."


def check_settings(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Compare the settings of a run that goes on with those of its checkpoint.

    :raises ValueError: one differs that must not; the message names all of those.
    """
    differing = [
        f"{_bracketed(name)} was {before.get(name)!r} and is {now.get(name)!r}"
        for name in sorted({*before, *now} - FREE)
        if before.get(name) != now.get(name)
    ]
    if differing:
        raise ValueError(
            f"{path} is the checkpoint of a run with other settings: {'; '.join(differing)}. Give "
            "them as they were to go on, or another output to start anew. (Limits, patience, "
            "eval_frequency, checkpoint_minutes, logger, device and n_threads may change.)"
        )


def check_texts(path: Path, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Compare the texts of a run that goes on with those of its checkpoint.

    :raises ValueError: one is another text; the message says which.
    """
    differing = [name for name in now if before.get(name) != now[name]]
    if differing:
        raise ValueError(
            f"{path} is the checkpoint of a run with another {' and another '.join(differing)}. "
            "Give the same to go on, or another output to start anew."
        )


def pack_state(state: Optional[BiLMState]) -> Optional[List[List[List[Tensor]]]]:
    """The carried state as plain lists on the CPU: direction, layer, (hidden, cell)."""
    if state is None:
        return None
    return [[[part.cpu() for part in layer] for layer in stack] for stack in state]


def unpack_state(
    packed: Optional[List[List[List[Tensor]]]], device: torch.device
) -> Optional[BiLMState]:
    """The reverse of :func:`pack_state`."""
    if packed is None:
        return None
    stacks = [
        [LSTMState(*(part.to(device) for part in layer)) for layer in stack] for stack in packed
    ]
    return BiLMState(*stacks)


def _write(contents: Mapping[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        try:
            torch.save(contents, file)
        except RuntimeError as error:
            # torch makes an error of its own of a write that failed.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def _bracketed(name: str) -> str:
    """``training.optimizer.eps`` as ``[training.optimizer] eps``."""
    block, _, field = name.rpartition(".")
    return f"[{block}] {field}" if block else field
