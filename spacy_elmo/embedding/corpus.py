"""A corpus to a file of vectors: read it, embed it block by block, and lose nothing on the way."""

import errno
import hashlib
import json
import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, Optional, Union

import numpy

from ..about import __version__
from ..bilm import BATCH_TOKENS, BiLM, InitialState
from ..bilm.bilm import INITIAL_STATES
from ..formats import to_bytes
from ..training.files import find_target
from .blocks import Embedder
from .layers import Layers, layer_weights
from .partial import PartialDirectory, differences
from .sentences import Reader, Source
from .sinks import SINKS, Contents
from .spool import Spool, make_spool

PRECISIONS = ("float32", "float16")

#: Numbers of the errors of a disk, or a share of one, that is full.
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

# Seconds between two entries of the journal, which is what a killed run loses.
CHECKPOINT_SECONDS = 5.0

SPOOL_FILE = "sentences.jsonl"

#: Called with what is done, "read" (bytes) or "embed" (tokens), how much of it, and of how much.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class EmbeddedCorpus:
    """What was written.

    :param n_embedded: tokens that this call embedded; the others were there before.
    """

    n_sentences: int
    n_tokens: int
    n_embedded: int


def embed_corpus(
    bilm: BiLM,
    source: Source,
    output: Union[str, Path, BinaryIO],
    *,
    layers: Layers = "all",
    precision: str = "float32",
    format: Optional[str] = None,
    keep_sentences: bool = True,
    lang: Optional[str] = None,
    initial_state: InitialState = "warm",
    batch_tokens: int = BATCH_TOKENS,
    resume: bool = False,
    overwrite: bool = False,
    progress: Optional[Progress] = None,
) -> EmbeddedCorpus:
    """Write the vectors of all sentences of a corpus to a file, in their order. Memory does not
    grow with the corpus, but for the text in an HDF5 file (``keep_sentences``).

    The file appears when it is complete. Until then, what is done is in a directory beside it
    (``NAME.partial``), also after an error or a kill, and ``resume`` goes on from there.

    :param source: a ``.txt``, ``.jsonl`` or ``.spacy`` file, also a compressed one, whose name
        tells what it is; an open binary file with a sentence a line; or lists of words. A blank
        line is a sentence without tokens.
    :param output: the file, of a symbolic link its target; or a binary stream, which cannot be
        resumed.
    :param layers: ``"all"``, ``"top"``, ``"average"``, a layer's number, or a weight a layer.
    :param precision: ``"float32"`` or ``"float16"``, of what is written.
    :param format: ``"hdf5"``, ``"npz"``, ``"safetensors"`` or ``"parquet"``; none to go by the
        name of the output.
    :param keep_sentences: whether to write the text, where the format has a place for it.
    :param lang: code of the spaCy language that tokenizes raw text; none where words stand between
        blanks.
    :param initial_state: see :meth:`BiLM.embed`.
    :param batch_tokens: positions that run at a time. It bounds memory.
    :param resume: go on with a run that was stopped, which the same arguments were given. A file
        that is complete is left as it is.
    :param overwrite: replace a file, or a run that was stopped.
    :param progress: told how far it is.
    :raises ValueError: an argument, or something in the corpus, is not as expected; or what is to
        be resumed is of another corpus or biLM, or has other settings.
    :raises FileExistsError: the output is there, or a run was stopped, and it is not said what to
        do with it.
    :raises OSError: something cannot be read or written, or another process writes the output.
    :raises ImportError: the format needs a package that is missing.
    """
    job = _Job(
        bilm=bilm,
        format=_find_format(format, output),
        layers=layers,
        precision=precision,
        keep_sentences=keep_sentences,
        initial_state=initial_state,
        batch_tokens=batch_tokens,
        progress=progress or _ignore,
    )
    if isinstance(output, (str, Path)):
        output = _find_target(Path(output))
        if isinstance(source, (str, Path)):
            _check_places(Path(source), output)
    reader = Reader(lang, lambda n, total: job.progress("read", n, total))
    sentences = reader.read(source)
    name = str(source) if isinstance(source, (str, Path)) else "The input"
    if not isinstance(output, Path):
        if resume:
            raise ValueError("resume was given, but a stream cannot be resumed; write to a file.")
        with tempfile.TemporaryDirectory() as directory:
            spool = make_spool(sentences, Path(directory) / SPOOL_FILE, name)
            return job.run(spool, Path(directory), stream=output)
    path = output
    if path.exists() and not (resume or overwrite):
        raise FileExistsError(f"{path} exists. Replace it (--overwrite), or write elsewhere.")
    partial_directory = PartialDirectory(path, resume=resume, overwrite=overwrite)
    with _naming_on_full_disk(path), partial_directory as partial:
        # Read again where a run is resumed, to see whether they are the sentences of that run.
        spool = make_spool(sentences, partial.path / SPOOL_FILE, name)
        if resume and path.exists():
            different = job.differences(path, spool)
            if not different:
                partial.remove()
                return EmbeddedCorpus(spool.n_sentences, spool.n_tokens, 0)
            if not overwrite:
                raise FileExistsError(
                    f"{path} exists, and is of a run with other settings: {different}. Replace it "
                    "(--overwrite), or write elsewhere."
                )
        return job.run(spool, partial.path, partial=partial)


@dataclass
class _Job:
    """Everything about a run but where it reads and writes."""

    bilm: BiLM
    format: str
    layers: Layers
    precision: str
    keep_sentences: bool
    initial_state: InitialState
    batch_tokens: int
    progress: Progress

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(
                f"precision is {self.precision!r}; expected {' or '.join(PRECISIONS)}."
            )
        if self.initial_state not in INITIAL_STATES:
            raise ValueError(
                f"initial_state is {self.initial_state!r}; expected one of "
                f"{', '.join(INITIAL_STATES)}."
            )
        if self.batch_tokens < 1:
            raise ValueError(f"batch_tokens is {self.batch_tokens}; expected 1 or more.")
        self.weights = layer_weights(self.layers, self.bilm.config.mixture_size)
        self.sink = SINKS[self.format]
        self.sink.require()
        if self.initial_state == "warm":
            # Before the weights are hashed, of which the state is a part.
            self.bilm.warm_up()
        self._model = hashlib.blake2b(to_bytes(self.bilm), digest_size=16).hexdigest()

    def settings(self, spool: Spool) -> Dict[str, Any]:
        """What decides each byte of the output."""
        return {
            "version": __version__,
            "model": self._model,
            "input": spool.digest,
            "format": self.format,
            "layers": "all" if self.weights is None else self.weights,
            "precision": self.precision,
            "initial_state": self.initial_state,
            "batch_tokens": self.batch_tokens,
            "keep_sentences": self.keep_sentences,
        }

    def differences(self, path: Path, spool: Spool) -> str:
        """How a complete file differs from what this run would write, in words."""
        try:
            before = json.loads(self.sink.stored_settings(path) or "")
            assert isinstance(before, dict)
        # Any file can stand there.
        except Exception:
            return "it was not written by this command, or not in this format"
        return differences(before, self.settings(spool))

    def run(
        self,
        spool: Spool,
        directory: Path,
        *,
        partial: Optional[PartialDirectory] = None,
        stream: Optional[BinaryIO] = None,
    ) -> EmbeddedCorpus:
        """Embed, to a stream or to the output of a partial directory."""
        settings = self.settings(spool)
        journal = partial.read_journal(settings) if partial is not None else None
        contents = Contents(
            spool=spool,
            n_layers=None if self.weights is not None else self.bilm.config.mixture_size,
            width=self.bilm.width,
            dtype=numpy.dtype(self.precision),
            keep_sentences=self.keep_sentences,
            settings=json.dumps(settings),
        )
        first, state, carried = 0, None, None
        if journal is not None:
            first, state, carried = journal["n_sentences"], journal["sink"], journal["carried"]
        embedder = Embedder(
            self.bilm,
            weights=self.weights,
            precision=self.precision,
            initial_state=self.initial_state,
            batch_tokens=self.batch_tokens,
            carried=carried,
        )
        n_before = n_done = spool.count_tokens(first)
        self.progress("embed", n_done, spool.n_tokens)

        def done(n_tokens: int) -> None:
            nonlocal n_done
            n_done += n_tokens
            self.progress("embed", n_done, spool.n_tokens)

        sink = self.sink(contents, directory, state, stream)
        try:
            last = time.monotonic()
            for block in embedder.iter_blocks(spool.skip(first), first, done):
                sink.write(block)
                if partial is not None and time.monotonic() - last >= CHECKPOINT_SECONDS:
                    journal = {
                        "n_sentences": block.first + len(block.sentences),
                        "sink": sink.flush(),
                        "carried": embedder.carried(),
                    }
                    partial.write_journal(settings, journal)
                    last = time.monotonic()
            complete = sink.finish()
        finally:
            sink.close()
        if partial is not None:
            os.replace(complete, partial.output)
            partial.remove()
        return EmbeddedCorpus(spool.n_sentences, spool.n_tokens, spool.n_tokens - n_before)


@contextmanager
def _naming_on_full_disk(path: Path) -> Iterator[None]:
    """Give the error of a full disk, which names no file or a temporary one, that of the output."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def _find_target(output: Path) -> Path:
    streamed = ", ".join(name for name, sink in SINKS.items() if sink.can_stream)
    return find_target(output, f", or - for the standard output with --format, one of {streamed}")


def _check_places(source: Path, output: Path) -> None:
    if source.exists() and output.exists() and source.samefile(output):
        raise ValueError(f"The output {output} is the input; expected another file.")


def _find_format(format: Optional[str], output: Union[str, Path, BinaryIO]) -> str:
    is_file = isinstance(output, (str, Path))
    streamed = ", ".join(name for name, sink in SINKS.items() if sink.can_stream)
    if format is None and not is_file:
        raise ValueError(
            f"A stream has no name that tells the format: give it (--format), one of {streamed}."
        )
    if format is None:
        suffix = Path(str(output)).suffix
        format = next((name for name, sink in SINKS.items() if suffix in sink.suffixes), None)
    if format is None:
        known = ", ".join(suffix for sink in SINKS.values() for suffix in sink.suffixes)
        raise ValueError(
            f"The output is {str(output)!r}; expected a name that ends in {known}, or the format "
            "(--format)."
        )
    if format not in SINKS:
        raise ValueError(f"format is {format!r}; expected one of {', '.join(SINKS)}.")
    if not is_file and not SINKS[format].can_stream:
        raise ValueError(f"{format} cannot be written to a stream; expected one of {streamed}.")
    return format


def _ignore(what: str, n: int, total: int) -> None:
    """Tells nobody."""
