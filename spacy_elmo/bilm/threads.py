"""Threads of our own for work that frees Python's lock; torch's serve torch's operations alone."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import Callable, List, Optional, Sequence


def run_all(tasks: Sequence[Callable[[], None]], n_threads: int) -> None:
    """Run tasks, side by side where there are several threads, the first one in the thread that
    asks. Ends when all have ended.

    :raises Exception: what the first failing task raised.
    """
    if n_threads < 2:
        for task in tasks:
            task()
        return
    first, *others = tasks
    futures: List["Future[None]"] = []
    # Python gives no threads any more when it is about to end.
    with suppress(RuntimeError):
        for task in others:
            futures.append(_pool().submit(task))
    errors = [_error_of(task) for task in (first, *others[len(futures) :])]
    for task, future in zip(others, futures):
        # What no thread has begun is done here, so that callers never wait for each other.
        if future.cancel():
            errors.append(_error_of(task))
    errors += [future.exception() for future in futures if not future.cancelled()]
    for error in errors:
        if error is not None:
            raise error


def _error_of(task: Callable[[], None]) -> Optional[BaseException]:
    try:
        task()
    except BaseException as error:
        return error
    return None


@lru_cache(maxsize=None)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="spacy-elmo")


# A forked process has the pool, but none of its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
