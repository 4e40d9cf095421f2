"""The directory of a file that is being made, which a killed process leaves behind: data, and a
journal of what is whole."""

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Optional, Type

from ..training.files import write_files
from ..training.locks import only_writer
from .layers import name_layers

JOURNAL_FILE = "journal.json"

Settings = Dict[str, Any]

# Of these a fingerprint is kept, which would tell nobody anything.
CONTENTS = ("model", "input")

# What the settings are called where a user gives them.
OPTIONS = {
    "version": "version of spacy-elmo",
    "model": "model",
    "input": "input",
    "format": "format",
    "layers": "layers",
    "precision": "precision",
    "initial_state": "initial state",
    "batch_tokens": "batch tokens",
    "keep_sentences": "forget sentences",
}


class PartialDirectory:
    """The directory beside an output that is not complete. A context manager, which keeps other
    processes away and at the end removes a directory without a journal.

    :param output: the path of the output.
    :param resume: whether to go on with what is there.
    :param overwrite: whether to replace what is there.
    """

    def __init__(self, output: Path, *, resume: bool, overwrite: bool) -> None:
        self.output = output
        self.path = partial_path(output)
        self._resume = resume
        self._overwrite = overwrite
        self._lock = ExitStack()
        self._is_removed = False

    def __enter__(self) -> "PartialDirectory":
        """
        :raises FileExistsError: a run that was stopped left it, and it is not said what to do.
        :raises BlockingIOError: another process makes the same output.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock.enter_context(only_writer(self.path, self.output))
        if self._has_journal() and not self._resume:
            if not self._overwrite:
                self._lock.close()
                raise FileExistsError(
                    f"{self.path} is of a run that was stopped. Go on with it (--resume), or start "
                    "anew (--overwrite)."
                )
            (self.path / JOURNAL_FILE).unlink()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if not self._is_removed and not self._has_journal():
            self.remove()
        self._lock.close()

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        # Without the journal, what a kill leaves is not taken for something to go on with.
        (self.path / JOURNAL_FILE).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        self._is_removed = True

    def read_journal(self, settings: Settings) -> Optional[Dict[str, Any]]:
        """What was last written to the journal, if there is one.

        :param settings: those of this run.
        :raises ValueError: the journal is of a run with other settings, or damaged.
        """
        path = self.path / JOURNAL_FILE
        if not self._has_journal():
            return None
        try:
            journal = json.loads(path.read_text(encoding="utf-8"))
            different = differences(dict(journal["settings"]), settings)
            found: Dict[str, Any] = dict(journal["state"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged ({type(error).__name__}: {error}). Start anew (--overwrite)."
            ) from error
        if different:
            raise ValueError(
                f"{self.path} is of a run with other settings: {different}. Give the same ones, or "
                "start anew (--overwrite)."
            )
        return found

    def write_journal(self, settings: Settings, state: Dict[str, Any]) -> None:
        """Note that everything up to here is on the disk."""
        text = json.dumps({"settings": settings, "state": state})
        write_files(self.path, {JOURNAL_FILE: text.encode("ascii")})

    def _has_journal(self) -> bool:
        return (self.path / JOURNAL_FILE).exists()


def partial_path(output: Path) -> Path:
    """Where the directory of an output is."""
    return output.with_name(output.name + ".partial")


def differences(before: Settings, now: Settings) -> str:
    """In which settings two runs differ, in words; empty where they do not."""
    found: List[str] = []
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            values = f"{_shown(name, before):.60} before, {_shown(name, now):.60} now"
            how = "other contents than before" if name in CONTENTS else values
            found.append(f"{OPTIONS.get(name, name)} ({how})")
    return ", ".join(found)


def _shown(name: str, settings: Settings) -> str:
    """A value as a user gives it."""
    value = settings.get(name)
    if name == "keep_sentences":
        value = not value
    if name == "layers" and isinstance(value, list) and value:
        value = name_layers(value)
    return repr(value)
