"""Make the training config of a run from its parts in ``configs``."""

from pathlib import Path
from typing import Any, Dict, Iterator

from thinc.api import Config

from .settings import Settings, Task

CONFIGS = Path(__file__).parent.parent / "configs"
#: The layers that listen to the biLM; their configs say the width of its vectors.
LISTENERS = ("spacy-elmo.ElmoListener.v1", "spacy-elmo.Tok2VecElmo.v1")


def make_config(
    settings: Settings, task: Task, system: str, *, seed: int, width: int, n_words: int
) -> Config:
    """The config of one run, as ``spacy train`` takes it. The paths and the source of the biLM
    stay open, see :func:`fill_in`.

    :param system: key of ``settings.SYSTEMS``.
    :param width: width of the biLM's vectors.
    :param n_words: tokens of the training part.
    """
    config = _read("base")
    component = _read(f"heads/{task.head}")
    parts = _read(f"systems/{'elmo' if system.startswith('layer_') else system}")
    component[task.head]["model"]["tok2vec"] = parts.pop("tok2vec")
    if "elmo" in parts:
        parts["elmo"]["model"]["width"] = width
    for listener in _blocks(component):
        listener["width"] = width
        if system.startswith("layer_"):
            listener["mix"]["layer_weights"] = int(system.removeprefix("layer_"))
    config["nlp"]["pipeline"] = [*parts, task.head]
    config["components"] = {**parts, **component}
    config["system"]["seed"] = seed
    training = config["training"]
    training.update(settings.training)
    if task.dropout is not None:
        training["dropout"] = task.dropout
    # Of whole parts, since spaCy scores no model between two of them, and the last one is the best.
    part = max(1, round(task.epochs * n_words / task.batch_words / settings.evaluations))
    training["eval_frequency"] = part
    training["max_steps"] = part * settings.evaluations
    training["optimizer"]["learn_rate"]["warmup_steps"] = training["max_steps"] // 10
    training["batcher"]["size"] = task.batch_words
    training["score_weights"] = {task.score: 1.0}
    return config


def fill_in(config: Config, train: Path, dev: Path, source: str) -> None:
    """Say where a config's corpora and its biLM are.

    :param source: path or name of the biLM.
    """
    config["paths"].update(train=str(train), dev=str(dev))
    if "elmo" in config["components"]:
        config["components"]["elmo"]["model"]["source"] = source


def _read(name: str) -> Config:
    return Config().from_disk(CONFIGS / f"{name}.cfg", interpolate=False)


def _blocks(config: Any) -> Iterator[Dict[str, Any]]:
    """The blocks of layers that listen, at any depth."""
    if isinstance(config, dict):
        if config.get("@architectures") in LISTENERS:
            yield config
        for value in config.values():
            yield from _blocks(value)
