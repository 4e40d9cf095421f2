"""The settings of the benchmark: which tasks and systems, on how much text, for how long."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from thinc.api import Config

#: Systems by their names in settings, with their names in the report.
SYSTEMS = {
    "hash": "HashEmbedCNN",
    "elmo_input": "ELMo at its input",
    "elmo": "ELMo alone",
    "layer_0": "layer 0",
    "layer_1": "layer 1",
    "layer_2": "layer 2",
}
HEADS = ("tagger", "parser", "ner", "textcat")
ANNOTATIONS = ("upos", "xpos", "deps", "entities", "category")


@dataclass(frozen=True)
class Task:
    """One row of the report.

    :param name: key of the task in the settings.
    :param title: its name in the report.
    :param data: data set, see ``readers.READERS``.
    :param annotation: what of the data set is learned.
    :param head: component that learns it, a file of ``configs/heads``.
    :param score: spaCy's name of the score.
    :param epochs: passes over the training part.
    :param batch_words: tokens of a batch.
    :param seeds: number of runs of each system, with seeds from 0 on.
    :param train_sentences: training sentences to take, evenly spread; 0 for all.
    :param dev_sentences: the same for the part that chooses between checkpoints.
    :param dropout: of this task's runs in place of that of all; None for that of all.
    """

    name: str
    title: str
    data: str
    annotation: str
    head: str
    score: str
    epochs: int
    batch_words: int
    seeds: int
    train_sentences: int = 0
    dev_sentences: int = 0
    dropout: Optional[float] = None

    def __post_init__(self) -> None:
        section = f"tasks.{self.name}"
        _check(section, "head", self.head, HEADS)
        _check(section, "annotation", self.annotation, ANNOTATIONS)
        for name in ("epochs", "batch_words", "seeds"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"[{section}] {name} is {value}; expected 1 or more.")


@dataclass(frozen=True)
class Settings:
    """All settings.

    :param systems: keys of ``SYSTEMS``.
    :param evaluations: times that a run scores the dev part, and may save the model.
    :param training: values of the training block of every run.
    :param tasks: the tasks.
    """

    systems: List[str]
    evaluations: int
    training: Dict[str, Any]
    tasks: List[Task]

    def __post_init__(self) -> None:
        for system in self.systems:
            _check("benchmark", "systems", system, tuple(SYSTEMS))

    def runs_of(self, task: Task) -> List[Tuple[str, int]]:
        """System and seed of each run of a task."""
        return [(system, seed) for seed in range(task.seeds) for system in self.systems]


def run_name(task: Task, system: str, seed: int) -> str:
    """The name of a run, also that of its files."""
    return f"{task.name}-{system}-{seed}"


def read_settings(path: Path) -> Settings:
    """Read a settings file.

    :raises ValueError: a setting is unknown, missing or out of its range.
    """
    config = Config().from_disk(path)
    tasks = [
        _make(Task, f"tasks.{name}", {"name": name, **task})
        for name, task in config["tasks"].items()
    ]
    return _make(Settings, "benchmark", {**config["benchmark"], "tasks": tasks})


def _make(kind: Any, section: str, values: Dict[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}
    for name in values:
        _check(section, "a setting", name, tuple(sorted(known)))
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"[{section}] lacks a setting: {error}.") from error


def _check(section: str, name: str, value: str, expected: Any) -> None:
    if value not in expected:
        raise ValueError(f"[{section}] {name} is {value!r}; expected one of {', '.join(expected)}.")
