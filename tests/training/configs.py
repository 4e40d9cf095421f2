"""A small training config and its text, for tests to change."""

from copy import deepcopy
from pathlib import Path

from spacy_elmo.training import read_config

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
@torch_optimizers = "spacy-elmo.Adam.v1"
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
