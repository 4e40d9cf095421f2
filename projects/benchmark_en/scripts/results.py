"""What the finished runs say, gathered by task and system."""

import json
import math
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .settings import SYSTEMS, Settings, Task, run_name

Result = Dict[str, Any]


class Summary(NamedTuple):
    """Scores of the runs of one task and system.

    :param mean: their mean.
    :param spread: their standard deviation, as of a sample; none for one run.
    """

    mean: float
    spread: Optional[float]

    @classmethod
    def of(cls, scores: Sequence[float]) -> "Summary":
        mean = sum(scores) / len(scores)
        if len(scores) == 1:
            return cls(mean, None)
        squares = sum((score - mean) ** 2 for score in scores)
        return cls(mean, math.sqrt(squares / (len(scores) - 1)))


class Row(NamedTuple):
    """A task in the report.

    :param title: its name.
    :param baseline: name of what the first column holds, if it is not HashEmbedCNN.
    :param scores: what is known, by system.
    """

    title: str
    baseline: str
    scores: Dict[str, Summary]

    def error_cut(self, system: str) -> Optional[float]:
        """The share of the baseline's errors that a system does not make."""
        if "hash" not in self.scores or system not in self.scores:
            return None
        return error_cut(self.scores["hash"].mean, self.scores[system].mean)


def error_cut(baseline: float, score: float) -> float:
    """By how much of itself the error, 1 - score, falls; negative where it grows."""
    return 1.0 - (1.0 - score) / (1.0 - baseline) if baseline < 1.0 else 0.0


def read_results(settings: Settings, folder: Path) -> List[Result]:
    """The results of the runs that are finished; other files of the folder do not count."""
    paths = [
        folder / f"{run_name(task, system, seed)}.json"
        for task in settings.tasks
        for system, seed in settings.runs_of(task)
    ]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def of_task(results: Sequence[Result], task: Task, system: str) -> List[Result]:
    """The results of a task's runs with a system."""
    return [found for found in results if (found["task"], found["system"]) == (task.name, system)]


def make_rows(
    settings: Settings, results: Sequence[Result], senses: Optional[Result]
) -> Dict[str, Row]:
    """A row a task, by the task's name, and last that of the word senses."""
    rows: Dict[str, Row] = {}
    for task in settings.tasks:
        scores: Dict[str, Summary] = {}
        for system in settings.systems:
            found = [result["scores"]["test"] for result in of_task(results, task, system)]
            if found:
                scores[system] = Summary.of(found)
        rows[task.name] = Row(task.title, "", scores)
    if senses is not None:
        values = {name: Summary.of([score]) for name, score in senses["scores"].items()}
        values["hash"] = values.pop("most_frequent")
        rows["semcor"] = Row("SemCor senses (accuracy)", "most frequent sense", values)
    return rows


def mean_mixes(settings: Settings, results: Sequence[Result]) -> Dict[str, List[float]]:
    """The learned weights of the layers, averaged over seeds, by the name of task and system."""
    found: Dict[str, List[float]] = {}
    for task in settings.tasks:
        for system in ("elmo_input", "elmo"):
            mixes = [
                mix["weights"]
                for result in of_task(results, task, system)
                for mix in result["layer_weights"]
            ]
            if mixes:
                name = f"{task.name}, {SYSTEMS[system]}"
                found[name] = [sum(layer) / len(mixes) for layer in zip(*mixes)]
    return found
