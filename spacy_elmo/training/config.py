"""Training configs: read, resolved and validated before any work starts."""

from configparser import Error as ConfigParserError
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
)

from spacy.util import SimpleFrozenDict, load_config
from thinc.api import ConfigValidationError

from ..bilm import BiLMConfig
from ..bilm.softmax import HeadMaker
from .optimizers import OptimizerMaker, Schedule
from .registry import registry
from .settings import TrainingSettings, VocabularySettings, WordsSettings
from .start import StartWeights
from .word_vectors import WordVectors, open_vectors

Corpus = Iterable[Sequence[str]]


@dataclass(frozen=True)
class TrainingConfig:
    """A validated training config, every block resolved.

    :param source: the config as it was given.
    :param bilm: sizes of the biLM, those of ``init`` where there is one.
    :param init: the model to start from, if any.
    :param words: what words the biLM's word table has, if it has one.
    :param vectors: first vectors of these words, if there are any.
    :param make_logger: a logger as ``spacy train`` takes it, if any.
    """

    source: Mapping[str, Any]
    bilm: BiLMConfig
    init: Optional[StartWeights]
    vocabulary: VocabularySettings
    words: WordsSettings
    vectors: Optional[WordVectors]
    train: Corpus
    dev: Corpus
    training: TrainingSettings
    make_head: HeadMaker
    make_optimizer: OptimizerMaker
    schedule: Schedule
    make_logger: Optional[Callable[..., Any]]

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "TrainingConfig":
        """Resolve a config whose variables are already filled in.

        :raises ValueError: a block or a field is unknown, missing or wrong; the message names it.
        """
        _refuse_unknown(config, _BLOCKS, "", "blocks")
        corpora = _block(config, "corpora")
        _refuse_unknown(corpora, ("train", "dev"), "[corpora] ", "blocks")
        training = _block(config, "training")
        plain = {key: value for key, value in training.items() if key not in _PARTS}
        settings = _read_block(TrainingSettings, plain, "training", known=_PARTS)
        init = _read_init(settings.init)
        bilm = _read_bilm(config, init)
        words = _read_block(WordsSettings, config.get("words", {}), "words")
        if "words" in config:
            _require_words_of_its_own(bilm, init)
        has_logger = training.get("logger") is not None
        return cls(
            source=config,
            bilm=bilm,
            init=init,
            words=words,
            vectors=_open_vectors(words, bilm),
            vocabulary=_read_block(VocabularySettings, config.get("vocab", {}), "vocab"),
            train=_resolve(corpora, "corpora.train", "readers"),
            dev=_resolve(corpora, "corpora.dev", "readers"),
            training=settings,
            make_head=_resolve(training, "training.softmax", "softmax_heads"),
            make_optimizer=_resolve(training, "training.optimizer", "torch_optimizers"),
            schedule=_resolve_schedule(training, settings),
            make_logger=_resolve(training, "training.logger", "loggers") if has_logger else None,
        )

    def settings(self) -> Dict[str, Any]:
        """All that weights depend on beside the text, by dotted name, defaults filled in."""
        training = self.source["training"]
        blocks = {name: training[name] for name in ("softmax", "optimizer", "schedule")}
        # A run without a word table is described as it ever was.
        words = {} if self.bilm.words is None else {"words": asdict(self.words)}
        return _flatten(
            {
                "bilm": self.bilm.to_dict(),
                **words,
                "vocab": asdict(self.vocabulary),
                "training": {**asdict(self.training), **registry.fill(blocks)},
            }
        )


_BLOCKS = ("paths", "bilm", "vocab", "words", "corpora", "training")
_EXPECTED = "expected a training config of a biLM, as `spacy elmo init-bilm` writes it."
_PARTS = ("softmax", "optimizer", "schedule", "logger")
_Settings = TypeVar("_Settings", VocabularySettings, WordsSettings, TrainingSettings)


def read_config(
    path: Union[str, Path], overrides: Mapping[str, Any] = SimpleFrozenDict()
) -> Dict[str, Any]:
    """Read a config file and fill in its variables.

    :param path: the file, ``-`` for standard input.
    :param overrides: values by dotted name, for instance ``{"training.seed": 1}``.
    :raises ValueError: the file cannot be read as a config.
    """
    try:
        config = load_config(path, overrides=dict(overrides), interpolate=True)
    except ConfigValidationError as error:
        raise ValueError(f"{path}: {_describe(error)}") from None
    except ConfigParserError as error:
        raise ValueError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}); {_EXPECTED}") from None
    if not config:
        raise ValueError(f"{path} has no block; {_EXPECTED}")
    if of_pipeline := [f"[{name}]" for name in ("nlp", "components") if name in config]:
        raise ValueError(
            f"{path} has {' and '.join(of_pipeline)}, as a config of a pipeline, which `spacy "
            f"train` trains; {_EXPECTED}"
        )
    return config


def _read_init(path: Optional[str]) -> Optional[StartWeights]:
    if path is None:
        return None
    try:
        return StartWeights.read(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"[training] init: {error}") from None


def _read_bilm(config: Mapping[str, Any], init: Optional[StartWeights]) -> BiLMConfig:
    block = _block(config, "bilm") if init is None or "bilm" in config else {}
    try:
        bilm = BiLMConfig.from_dict(block) if init is None else init.merge(block)
    except ValueError as error:
        raise ValueError(f"[bilm] {error}") from None
    if bilm.encoder != "elmo":
        raise ValueError(
            f"[bilm] encoder is {bilm.encoder!r}; expected 'elmo': the layers of the other one "
            "read both directions, so it would see the word that it has to predict."
        )
    if bilm.code_points is not None and init is None:
        raise ValueError(
            f"[bilm] code_points is {bilm.code_points}; expected null: only a model of [training] "
            "init brings a dictionary of code points."
        )
    return bilm


def _require_words_of_its_own(bilm: BiLMConfig, init: Optional[StartWeights]) -> None:
    if bilm.words is None:
        raise ValueError(
            "The config has a block [words], but no word table; expected a block [bilm.words] "
            "with dim, or neither."
        )
    if init is not None:
        raise ValueError(
            f"The config has a block [words], but the model of [training] init, {init.path}, "
            "brings its words; expected no such block."
        )


def _open_vectors(words: WordsSettings, bilm: BiLMConfig) -> Optional[WordVectors]:
    if words.vectors is None:
        if bilm.words is not None and bilm.words.frozen and bilm.words.n_words is None:
            raise ValueError(
                "[bilm.words] frozen is true, but [words] vectors is null; expected vectors to "
                "keep, or frozen = false: random ones would stay random."
            )
        return None
    try:
        vectors = open_vectors(words.vectors)
    except (ValueError, OSError) as error:
        raise ValueError(f"[words] vectors: {error}") from None
    assert bilm.words is not None
    if vectors.dim != bilm.words.dim:
        raise ValueError(
            f"[bilm.words] dim is {bilm.words.dim}; expected {vectors.dim}, the size of the "
            f"vectors of [words] vectors, {words.vectors}."
        )
    return vectors


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


def _resolve_schedule(training: Mapping[str, Any], settings: TrainingSettings) -> Schedule:
    schedule: Schedule = _resolve(training, "training.schedule", "torch_schedules")
    if settings.max_epochs == 0 and settings.max_steps == 0:
        try:
            schedule(0, None)
        except ValueError as error:
            raise ValueError(f"[training.schedule] {error}") from None
    return schedule


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


def _flatten(blocks: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    values: Dict[str, Any] = {}
    for name, value in blocks.items():
        if isinstance(value, Mapping):
            values.update(_flatten(value, f"{prefix}{name}."))
        else:
            values[prefix + name] = value
    return values


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
