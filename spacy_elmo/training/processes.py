"""What the other processes of a run have in common."""

import multiprocessing
import os
import threading
from multiprocessing.process import BaseProcess


def end_with_parent() -> None:
    """Let this process end with the one that began it, also where that is killed: its work would
    otherwise go on unseen. Nothing happens in a process that no other one began."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
