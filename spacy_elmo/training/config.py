"""Training configs: read, resolved and validated before any work starts."""

from configparser import Error as ConfigParserError
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from spacy.util import SimpleFrozenDict, load_config
from thinc.api import ConfigValidationError

from ..bilm import BiLMConfig
from ..bilm.softmax import HeadMaker
from .optimizers import OptimizerMaker, Schedule
from .registry import registry

Corpus = Iterable[Sequence[str]]

ORDERS = ("shuffled", "text")


@dataclass(frozen=True)
class VocabularySettings:
    """The ``[vocab]`` block.

    :param path: a vocabulary file to use as it is, whatever the other settings say; none builds
        one from the training text.
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
class TrainingSettings:
    """The plain values of the ``[training]`` block.

    :param max_epochs: passes over the training text at most, 0 for no limit.
    :param max_steps: steps at most, 0 for no limit. One of both limits is needed.
    :param max_hours: hours of training at most, 0 for no limit; schedules do not know of it.
    :param batch_size: rows of text read side by side.
    :param unroll_steps: positions of a row in a step, through which gradients flow.
    :param eval_frequency: steps between evaluations on the held-out text.
    :param grad_clip: largest norm of all gradients together, 0 for no limit.
    :param order: ``shuffled``: whole sentences in a new random order every epoch. ``text``: as
        they stand.
    :param seed: of the weights, the order, the samples and the dropout.
    :param n_threads: threads of a torch operation, 0 for torch's own choice. Small models gain
        little from a second one, and lose much where another program uses that core.
    """

    max_epochs: int = 0
    max_steps: int = 0
    max_hours: float = 0.0
    batch_size: int = 128
    unroll_steps: int = 20
    eval_frequency: int = 1000
    grad_clip: float = 1.0
    order: str = "shuffled"
    seed: int = 0
    n_threads: int = 0

    def __post_init__(self) -> None:
        for name in ("max_epochs", "max_steps"):
            _require_int(name, getattr(self, name), 0, "a whole number, or 0 for no limit")
        if self.max_epochs == 0 and self.max_steps == 0:
            _fail("max_epochs", 0, "1 or more, as max_steps sets no limit either")
        for name in ("batch_size", "unroll_steps", "eval_frequency"):
            _require_int(name, getattr(self, name), 1, "a whole number, 1 or more")
        for name in ("max_hours", "grad_clip"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
                _fail(name, value, "a number, or 0 for no limit")
        if self.order not in ORDERS:
            _fail("order", self.order, "'shuffled' or 'text'")
        _require_int("seed", self.seed, 0, "a whole number, 0 or more")
        _require_int("n_threads", self.n_threads, 0, "a whole number, or 0 for torch's choice")


@dataclass(frozen=True)
class TrainingConfig:
    """A validated training config, every block resolved."""

    bilm: BiLMConfig
    vocabulary: VocabularySettings
    train: Corpus
    dev: Corpus
    training: TrainingSettings
    make_head: HeadMaker
    make_optimizer: OptimizerMaker
    schedule: Schedule

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "TrainingConfig":
        """Resolve a config whose variables are already filled in.

        :raises ValueError: a block or a field is unknown, missing or wrong; the message names it.
        """
        _refuse_unknown(config, _BLOCKS, "", "blocks")
        bilm = _block(config, "bilm")
        corpora = _block(config, "corpora")
        _refuse_unknown(corpora, ("train", "dev"), "[corpora] ", "blocks")
        training = _block(config, "training")
        plain = {key: value for key, value in training.items() if key not in _PARTS}
        try:
            bilm_config = BiLMConfig.from_dict(bilm)
        except ValueError as error:
            raise ValueError(f"[bilm] {error}") from None
        return cls(
            bilm=bilm_config,
            vocabulary=_read_block(VocabularySettings, config.get("vocab", {}), "vocab"),
            train=_resolve(corpora, "corpora.train", "readers"),
            dev=_resolve(corpora, "corpora.dev", "readers"),
            training=_read_block(TrainingSettings, plain, "training", known=_PARTS),
            make_head=_resolve(training, "training.softmax", "softmax_heads"),
            make_optimizer=_resolve(training, "training.optimizer", "torch_optimizers"),
            schedule=_resolve(training, "training.schedule", "torch_schedules"),
        )


_BLOCKS = ("paths", "bilm", "vocab", "corpora", "training")
_PARTS = ("softmax", "optimizer", "schedule")
_Settings = TypeVar("_Settings", VocabularySettings, TrainingSettings)


def read_config(
    path: Union[str, Path], overrides: Mapping[str, Any] = SimpleFrozenDict()
) -> Dict[str, Any]:
    """Read a config file and fill in its variables.

    :param path: the file, ``-`` for standard input.
    :param overrides: values by dotted name, for instance ``{"training.seed": 1}``.
    :raises ValueError: the file cannot be read as a config.
    """
    try:
        return load_config(path, overrides=dict(overrides), interpolate=True)
    except ConfigValidationError as error:
        raise ValueError(f"{path}: {_describe(error)}") from None
    except ConfigParserError as error:
        raise ValueError(f"{path}: {error}") from None


def _block(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    block = config.get(name)
    if not isinstance(block, Mapping):
        raise ValueError(f"The config has no block [{name}]; expected one.")
    return block


def _read_block(
    settings: Type[_Settings], values: Any, name: str, known: Sequence[str] = ()
) -> _Settings:
    names = [field.name for field in fields(settings)]
    if not isinstance(values, Mapping):
        raise ValueError(f"[{name}] is {values!r}; expected a block.")
    _refuse_unknown(values, names, f"[{name}] ", "settings", also=known)
    try:
        return settings(**values)
    except ValueError as error:
        raise ValueError(f"[{name}] {error}") from None


def _resolve(parent: Mapping[str, Any], name: str, registry_name: str) -> Any:
    """What a block with a registered function stands for."""
    block = parent.get(name.rsplit(".", 1)[1])
    key = f"@{registry_name}"
    if not isinstance(block, Mapping) or key not in block:
        available = ", ".join(sorted(getattr(registry, registry_name).get_all()))
        raise ValueError(
            f"[{name}] names no {key}; expected a block with {key} = one of {available}."
        )
    try:
        return registry.resolve({"block": dict(block)})["block"]
    except ConfigValidationError as error:
        raise ValueError(f"[{name}] {_describe(error)}") from None
    except ValueError as error:
        raise ValueError(f"[{name}] {error}") from None


def _describe(error: ConfigValidationError) -> str:
    parts: List[str] = []
    for found in error.errors or []:
        place = " -> ".join(str(part) for part in found.get("loc", ()) if part != "block")
        parts.append(": ".join(filter(None, (place, str(found.get("msg"))))))
    return "; ".join(parts) or ": ".join(filter(None, (error.title, error.desc)))


def _refuse_unknown(
    values: Mapping[str, Any],
    known: Sequence[str],
    where: str,
    what: str,
    also: Sequence[str] = (),
) -> None:
    unknown = sorted(set(values) - set(known) - set(also))
    if unknown:
        raise ValueError(
            f"{where}{', '.join(map(repr, unknown))} is unknown; the {what} are "
            f"{', '.join((*known, *also))}."
        )


def _require_int(name: str, value: Any, minimum: int, expected: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        _fail(name, value, expected)


def _fail(name: str, value: Any, expected: str) -> None:
    raise ValueError(f"{name} is {value!r}; expected {expected}.")
