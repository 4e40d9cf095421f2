"""What becomes of text that cannot be read: an error, or warnings that are not too many."""

import warnings
from pathlib import Path
from typing import Sequence

ON_ERROR = ("stop", "skip")

# Faults that are told one by one; of the others only their number is.
MAX_WARNINGS = 10


class FaultReport:
    """Tells of faults in the files of one corpus.

    on_error (str): "stop" to raise the first one, "skip" to warn.
    """

    def __init__(self, on_error: str) -> None:
        self._on_error = on_error
        self._n_faults = 0

    def found(self, path: Path, faults: Sequence[str], n_faults: int = 1) -> None:
        """Tell of faults of a file.

        path (Path): The file.
        faults (Sequence[str]): The first of them, each with its line.
        n_faults (int): All of them.
        RAISES ValueError: on_error is "stop" and there is a fault.
        """
        if n_faults and self._on_error == "stop":
            raise ValueError(
                f'{path}, {faults[0]} Set on_error to "skip" (evaluate: --on-error skip) to leave '
                "out what cannot be read."
            )
        for fault in faults[: max(0, MAX_WARNINGS - self._n_faults)]:
            warnings.warn(f"Left out: {path}, {fault}", stacklevel=2)
        self._n_faults += n_faults

    def close(self) -> None:
        """Tell how many faults there are that were not told one by one."""
        if self._n_faults > MAX_WARNINGS:
            warnings.warn(
                f"Left out: {self._n_faults - MAX_WARNINGS:,} more lines or files, "
                f"{self._n_faults:,} in all.",
                stacklevel=2,
            )
