"""Chunks of text to streams of words, in this process or in several others."""

import multiprocessing
import signal
import sys
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Deque, Generator, Iterable, Iterator, List, Optional, Tuple, Type, Union

import spacy
import srsly
from spacy.language import Language

from ..processes import end_with_parent
from .splitters import Splitter
from .stream import WordStream, number_sentences
from .text_files import Chunk, sentences_of

# spaCy forgets no string that it has seen. A pipeline that knows this many is made anew.
MAX_STRINGS = 300_000

# Chunks that wait for each process, so that none of them idles.
CHUNKS_AHEAD = 3

Items = List[Union[str, List[str]]]
Tokenized = Generator[Tuple[WordStream, Chunk], None, None]


class Pipeline:
    """A spaCy pipeline of a tokenizer and what splits sentences.

    lang (str): Code of the spaCy language.
    splitter (Splitter): Adds what splits sentences.
    """

    def __init__(self, lang: str, splitter: Splitter) -> None:
        self.lang = lang
        self.splitter = splitter
        self._nlp: Optional[Language] = None

    def get(self) -> Language:
        """The pipeline, made when it is first needed.

        RAISES ValueError: There is no such language.
        """
        if self._nlp is None or len(self._nlp.vocab.strings) > MAX_STRINGS:
            try:
                self._nlp = spacy.blank(self.lang)
            except ImportError as error:
                raise ValueError(f"lang is {self.lang!r}: {error}") from error
            self.splitter(self._nlp)
        return self._nlp

    def forget(self) -> None:
        """Free the memory of the words seen."""
        self._nlp = None

    def tokenize(self, items: Items) -> WordStream:
        """The sentences of raw texts and of sentences, which may have no word."""
        return number_sentences(self._iter_sentences(items))

    def _iter_sentences(self, items: Items) -> Iterator[List[str]]:
        for item in items:
            if isinstance(item, str):
                nlp = self.get()
                yield from sentences_of(nlp(item), nlp)
            else:
                yield item


class Tokenizer:
    """Tokenizes chunks of text. A context manager, at whose end the other processes end.

    pipeline (Pipeline): What tokenizes here, and a copy of which does in other processes.
    n_process (int): Processes that tokenize; 1 for this one. They change no result.
    """

    def __init__(self, pipeline: Pipeline, n_process: int = 1) -> None:
        self._pipeline = pipeline
        self._n_process = n_process
        self._pool: Optional[ProcessPoolExecutor] = None

    def __enter__(self) -> "Tokenizer":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._pipeline.forget()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def tokenize(self, chunks: Iterable[Chunk]) -> Tokenized:
        """Words of chunks, in their order.

        YIELDS (Tuple[WordStream, Chunk]): The sentences of a chunk, none or more, and the chunk.
        RAISES ChildProcessError: A process ended by itself.
        """
        if self._n_process == 1:
            for chunk in chunks:
                yield self._pipeline.tokenize(chunk.items), chunk
            return
        waiting: Deque[Tuple["Future[WordStream]", Chunk]] = deque()
        try:
            for chunk in chunks:
                waiting.append((self._submit(chunk.items), chunk))
                if len(waiting) > CHUNKS_AHEAD * self._n_process:
                    future, done = waiting.popleft()
                    yield future.result(), done
            while waiting:
                future, done = waiting.popleft()
                yield future.result(), done
        except BrokenProcessPool:
            _end_writing(self._pool)
            raise ChildProcessError(
                f"One of n_process = {self._n_process} tokenizing processes ended by itself. It "
                "was killed, maybe for want of memory: set a lower n_process. Or it could not "
                'start: a script that trains needs the line if __name__ == "__main__": before '
                "its first call."
            ) from None
        finally:
            for future, _ in waiting:
                future.cancel()

    def _submit(self, items: Items) -> "Future[WordStream]":
        if not any(isinstance(item, str) for item in items):
            # Ready sentences are numbered faster than sent to another process.
            future: "Future[WordStream]" = Future()
            future.set_result(number_sentences(items))
            return future
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._n_process,
                # A forked process would share the state of torch's threads.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start_worker,
                initargs=(self._pipeline.lang, srsly.pickle_dumps(self._pipeline.splitter)),
            )
        return self._pool.submit(_tokenize_in_worker, items)


def _end_writing(pool: Optional[ProcessPoolExecutor]) -> None:
    """Let a thread that writes to processes that are dead fail. Before 3.11.5, Python waits for it
    for ever where the pipe is full (issue 94777 of CPython)."""
    if sys.version_info < (3, 11, 5):
        reader = getattr(getattr(pool, "_call_queue", None), "_reader", None)
        if reader is not None:
            reader.close()


_pipeline: Pipeline


def _start_worker(lang: str, splitter: bytes) -> None:
    global _pipeline
    # Ctrl-C reaches all processes; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    _pipeline = Pipeline(lang, srsly.pickle_loads(splitter))


def _tokenize_in_worker(items: Items) -> WordStream:
    return _pipeline.tokenize(items)
