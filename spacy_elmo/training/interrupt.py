"""Ctrl-C as a wish that the training loop looks at between two steps."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Dict, Optional, Type


class StopRequest:
    """While the block runs, the first SIGINT or SIGTERM only sets :attr:`requested`; a second
    one acts as it did before. Does nothing outside of the main thread, where Python allows no
    signal handlers."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: Dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: Optional[FrameType]) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            # None stands for a handler that was not set from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
