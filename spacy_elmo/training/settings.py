"""The plain values of a training config's blocks, each checked on its own."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Optional

ORDERS = ("shuffled", "text")
ENTRIES = ("text", "vectors")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class VocabularySettings:
    """The ``[vocab]`` block.

    :param path: a vocabulary file to use as it is, whatever the other settings say; none takes
        that of ``[training] init``, or else builds one from the training text.
    :param max_size: words kept of the text, the special entries not counted; 0 for all.
    :param min_count: occurrences that a word needs to be kept.
    """

    path: Optional[str] = None
    max_size: int = 0
    min_count: int = 1

    def __post_init__(self) -> None:
        if self.path is not None and not isinstance(self.path, str):
            _fail("path", self.path, "the path of a vocabulary file, or null to build one")
        _require_int("max_size", self.max_size, 0, "a number of words, or 0 for all")
        _require_int("min_count", self.min_count, 1, "a whole number, 1 or more")
        if self.path is not None and not Path(self.path).is_file():
            _fail("path", self.path, "a vocabulary file that exists, or null to build one")


@dataclass(frozen=True)
class WordsSettings:
    """The ``[words]`` block: the words of the table of ``[bilm.words]``, and their first vectors.

    :param path: a vocabulary file whose words are taken, whatever the settings below say.
    :param entries: where the words come from otherwise. ``text``: the training text. ``vectors``:
        the file or pipeline of ``vectors``, in its order.
    :param max_size: words at most, the special entries not counted; 0 for all.
    :param min_count: occurrences in the training text that a word needs. With 1 the text has no
        unknown word, and the vector of ``<UNK>`` is never trained.
    :param vectors: first vectors: a text file of word2vec or fastText, or a spaCy pipeline with
        vectors (a directory or the name of a package); none for random ones.
    """

    path: Optional[str] = None
    entries: str = "text"
    max_size: int = 0
    min_count: int = 2
    vectors: Optional[str] = None

    def __post_init__(self) -> None:
        if self.path is not None and not (isinstance(self.path, str) and Path(self.path).is_file()):
            _fail("path", self.path, "a vocabulary file that exists, or null")
        if self.entries not in ENTRIES:
            _fail("entries", self.entries, "'text' or 'vectors'")
        _require_int("max_size", self.max_size, 0, "a number of words, or 0 for all")
        _require_int("min_count", self.min_count, 1, "a whole number, 1 or more")
        if self.vectors is not None and not (isinstance(self.vectors, str) and self.vectors):
            _fail("vectors", self.vectors, "a file of vectors, a spaCy pipeline, or null")
        if self.entries == "vectors" and self.vectors is None:
            _fail("entries", self.entries, "'text', as vectors is null")


@dataclass(frozen=True)
class TrainingSettings:
    """The plain values of the ``[training]`` block.

    :param max_epochs: passes over the training text at most, 0 for no limit.
    :param max_steps: steps at most, 0 for no limit.
    :param max_hours: hours of training at most, all sittings of a resumed run together, 0 for no
        limit. One of the three limits is needed.
    :param patience: evaluations in a row without a better mean perplexity that end the run, 0 to
        never end it for that.
    :param batch_size: rows of text that a process reads side by side. ``N`` processes read
        ``N * batch_size`` rows.
    :param unroll_steps: positions of a row in a window, through which gradients flow.
    :param grad_accumulation: windows a step, whose gradients are averaged, each prediction
        counting the same. State is carried from window to window all the same.
    :param eval_frequency: steps between evaluations on the held-out text.
    :param checkpoint_minutes: minutes after which a checkpoint is written between two evaluations;
        0 for none there.
    :param grad_clip: largest norm of all gradients together, 0 for no limit.
    :param order: ``shuffled``: whole sentences in a new random order every epoch. ``text``: as
        they stand.
    :param seed: of the weights, the order, the samples and the dropout.
    :param n_threads: threads of a torch operation, 0 for torch's own choice. Small models gain
        little from a second one, and lose much where another program uses that core.
    :param device: ``cpu``, ``cuda``, ``cuda:N``, or ``auto``: ``cuda`` where there is one. With
        several processes, ``cuda`` is a device for each.
    :param precision: of the products of a training step. ``bfloat16`` is fast on CUDA and on CPUs
        with AMX or AVX-512 BF16. Weights, optimizer and evaluations are float32 anyway.
    :param init: a model to start from instead of random weights.
    """

    max_epochs: int = 0
    max_steps: int = 0
    max_hours: float = 0.0
    patience: int = 0
    batch_size: int = 128
    unroll_steps: int = 20
    grad_accumulation: int = 1
    eval_frequency: int = 1000
    checkpoint_minutes: float = 10.0
    grad_clip: float = 1.0
    order: str = "shuffled"
    seed: int = 0
    n_threads: int = 0
    device: str = "cpu"
    precision: str = "float32"
    init: Optional[str] = None

    def __post_init__(self) -> None:
        for name in ("max_epochs", "max_steps"):
            _require_int(name, getattr(self, name), 0, "a whole number, or 0 for no limit")
        for name in ("max_hours", "checkpoint_minutes", "grad_clip"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not 0 <= value < float("inf"):
                _fail(name, value, "a number, or 0 for none")
        if self.max_epochs == 0 and self.max_steps == 0 and self.max_hours == 0:
            _fail("max_epochs", 0, "1 or more, as neither max_steps nor max_hours sets a limit")
        _require_int("patience", self.patience, 0, "a number of evaluations, or 0 for no limit")
        for name in ("batch_size", "unroll_steps", "grad_accumulation", "eval_frequency"):
            _require_int(name, getattr(self, name), 1, "a whole number, 1 or more")
        if self.order not in ORDERS:
            _fail("order", self.order, "'shuffled' or 'text'")
        _require_int("seed", self.seed, 0, "a whole number, 0 or more")
        _require_int("n_threads", self.n_threads, 0, "a whole number, or 0 for torch's choice")
        if not isinstance(self.device, str) or not re.fullmatch(
            r"cpu|cuda(:\d+)?|auto", self.device
        ):
            _fail("device", self.device, "'cpu', 'cuda', 'cuda:N' or 'auto'")
        if self.precision not in PRECISIONS:
            _fail("precision", self.precision, "'float32' or 'bfloat16'")
        if self.init is not None and not isinstance(self.init, str):
            _fail("init", self.init, "the path of a model, or null for random weights")


def _require_int(name: str, value: Any, minimum: int, expected: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        _fail(name, value, expected)


def _fail(name: str, value: Any, expected: str) -> NoReturn:
    raise ValueError(f"{name} is {value!r}; expected {expected}.")
