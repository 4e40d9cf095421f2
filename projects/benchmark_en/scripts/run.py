"""One run: train a component with a system, and score it on the test part."""

import shutil
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Dict, List

import spacy
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Corpus
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_elmo.models import layer_weights

from .files import write_json


def run(config: Config, score: str, folder: Path, result: Path, facts: Dict[str, Any]) -> None:
    """Train, score the best model, and write a result file.

    :param config: the training config, without defaults.
    :param score: spaCy's name of the score.
    :param folder: for the config, the log and, while training, the models.
    :param result: result file, JSON. It is there once the run is finished.
    :param facts: what else the file shall say.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = load_model_from_config(config, auto_fill=True).config
    config.to_disk(folder / "config.cfg")
    start, start_cpu = time.perf_counter(), time.process_time()
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        with redirect_stdout(log), redirect_stderr(log):
            nlp = init_nlp(config)
            n_parameters = count_parameters(nlp)
            train(nlp, folder, stdout=log, stderr=log)
    trained, trained_cpu = time.perf_counter(), time.process_time()
    nlp = spacy.load(folder / "model-best")
    test = Path(config["paths"]["train"]).with_name("test.spacy")
    scores = {
        "dev": nlp.meta["performance"][score],
        "test": nlp.evaluate(list(Corpus(test)(nlp)))[score],
    }
    value = {
        **facts,
        "scores": scores,
        "layer_weights": mixes(nlp),
        "n_parameters": n_parameters,
        "n_steps": config["training"]["max_steps"],
        "train_seconds": trained - start,
        "train_cpu_seconds": trained_cpu - start_cpu,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - start_cpu,
    }
    # A model holds the whole biLM; the config makes it again.
    for name in ("model-best", "model-last"):
        shutil.rmtree(folder / name)
    write_json(result, value)


def mixes(nlp: Language) -> List[Dict[str, Any]]:
    """The learned mixes of the layers, in model order."""
    return [
        mix._asdict()
        for _, component in nlp.pipeline
        if isinstance(component, TrainablePipe)
        for mix in layer_weights(component)
    ]


def count_parameters(nlp: Language) -> int:
    """Numbers that training changes; a listener's biLM is none of them."""
    return sum(
        node.get_param(name).size
        for _, component in nlp.pipeline
        if isinstance(component, TrainablePipe)
        for node in component.model.walk()
        for name in node.param_names
        if node.has_param(name)
    )
