"""What commands show: a progress bar, and messages that keep out of the way of a result."""

import sys
from types import TracebackType
from typing import Dict, Optional, Type, TypeVar

import typer
from tqdm import tqdm
from wasabi import Printer

T = TypeVar("T", bound="BarOwner")


class BarOwner:
    """A context manager with one bar at a time, which ends with it."""

    def __init__(self) -> None:
        self._bar: Optional["tqdm[None]"] = None

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the bar, so that what is printed next starts on a line of its own."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class ResultPrinter:
    """Prints where a result does not go: on the standard error, if the result is on the standard
    output.

    to_stderr (bool): The result is on the standard output.
    """

    def __init__(self, to_stderr: bool) -> None:
        self._to_stderr = to_stderr
        self._printer = Printer(no_print=True)

    def show(self, text: Optional[str]) -> None:
        typer.echo(text or "", err=self._to_stderr)

    def good(self, text: str) -> None:
        self.show(self._printer.good(text))

    def table(self, rows: Dict[str, str]) -> None:
        self.show(self._printer.table(rows))

    def fail(self, title: str, text: str, status: int = 1) -> None:
        """Say what went wrong, and end the process."""
        self.show(self._printer.fail(title, text))
        sys.exit(status)
