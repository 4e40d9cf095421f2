"""A small training config and its text, for tests to change."""

import os
import signal
from copy import deepcopy
from pathlib import Path

from spacy_elmo.training import Reporter, read_config
from spacy_elmo.training.registry import registry

from .conftest import make_sentences

CONFIG = """
[paths]
train = null
dev = null

[bilm]
filters = [[1, 4], [2, 6]]
char_embedding_dim = 4
projection_dim = 6
cell_size = 8
dropout = 0.1

[vocab]
max_size = 0
min_count = 1

[corpora]

[corpora.train]
@readers = "spacy-elmo.TextCorpus.v1"
path = ${paths.train}

[corpora.dev]
@readers = "spacy-elmo.TextCorpus.v1"
path = ${paths.dev}

[training]
seed = 3
batch_size = 4
unroll_steps = 5
max_epochs = 2
eval_frequency = 1000

[training.softmax]
@softmax_heads = "spacy-elmo.SampledSoftmax.v1"
n_samples = 8

[training.optimizer]
@torch_optimizers = "spacy-elmo.AdamW.v1"
learn_rate = 0.01

[training.schedule]
@torch_schedules = "spacy-elmo.constant.v1"
"""


def write_texts(directory):
    """Fifty sentences to train on and three held out, a paragraph each."""
    for name, n_sentences, seed in (("train", 50, 0), ("dev", 3, 1)):
        lines = (" ".join(words) for words in make_sentences(n_sentences, seed))
        (directory / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")


def make_config(directory, changes=None):
    """The config as a dict, its texts written into the directory; changes by dotted name."""
    directory = Path(directory)
    write_texts(directory)
    (directory / "config.cfg").write_text(CONFIG, encoding="utf-8")
    paths = {f"paths.{name}": str(directory / f"{name}.txt") for name in ("train", "dev")}
    config = deepcopy(dict(read_config(directory / "config.cfg", paths)))
    for name, value in (changes or {}).items():
        *blocks, last = name.split(".")
        block = config
        for part in blocks:
            block = block[part]
        block[last] = value
    return config


@registry.readers.register("lines.v1")
def build_lines(path: str):
    """Sentences, one a line, without a tokenizer, which would take longer than what is tested."""
    return [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines()]


def make_quick_config(directory, changes=None):
    """As :func:`make_config`, for tests that train many times."""
    config = make_config(directory, changes)
    for block in config["corpora"].values():
        block["@readers"] = "lines.v1"
    return config


class Recorder(Reporter):
    """Keeps what it is told."""

    def __init__(self):
        self.texts, self.plans, self.steps, self.evaluations, self.notes = [], [], [], [], []
        self.n_ends = 0

    def noted(self, message):
        self.notes.append(message)

    def reading(self, what):
        self.texts.append(what)

    def planned(self, plan):
        assert not self.steps
        self.plans.append(plan)

    def stepped(self, step):
        self.steps.append(step)

    def evaluated(self, evaluation, is_best):
        self.evaluations.append((evaluation, is_best))

    def ended(self):
        self.n_ends += 1


class StopAt(Recorder):
    """Sends this process a signal after a step."""

    def __init__(self, step, number=signal.SIGINT):
        super().__init__()
        self.step = step
        self.number = number

    def stepped(self, step):
        super().stepped(step)
        if step.step == self.step:
            os.kill(os.getpid(), self.number)


def read_all(directory):
    """The bytes of all files, by their path within the directory."""
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def read_models(directory):
    """The bytes of the files that do not depend on how fast the machine is."""
    files = read_all(directory)
    return {name: data for name, data in files.items() if name.parts[0].startswith("model-")}
