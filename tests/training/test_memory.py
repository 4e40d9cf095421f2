"""The memory that is announced before training starts."""

import json
import os
import subprocess
import sys

import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.softmax import FullSoftmax, SampledSoftmax
from spacy_elmo.training import LanguageModel
from spacy_elmo.training.memory import count_slots, estimate_bytes
from spacy_elmo.training.optimizers import build_adagrad_v1, build_adamw_v1
from spacy_elmo.training.settings import TrainingSettings

from ..conftest import ROOT, random_bilm

# Trains on random words in a fresh process, and tells how far its memory rose above what it was
# before, and what was announced.
PROGRAM = """
import json, resource, sys
import numpy, psutil, torch
from spacy_elmo.training import Reporter, train
from spacy_elmo.training.registry import registry

torch.set_num_threads(1)
random = numpy.random.default_rng(0)

@registry.readers.register("random.v1")
def build(n_sentences: int):
    words = numpy.array([f"word{n}" for n in range(20_000)])
    return [list(words[random.integers(0, 20_000, size=20)]) for _ in range(n_sentences)]

class Watcher(Reporter):
    def planned(self, plan):
        print(json.dumps({"before": psutil.Process().memory_info().rss, "expected": plan.n_bytes}))

train(json.loads(sys.argv[1]), sys.argv[2], reporter=Watcher())
print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""

CONFIG = {
    "bilm": {
        "filters": [[1, 32], [2, 32], [3, 64], [4, 64]],
        "projection_dim": 64,
        "cell_size": 512,
    },
    "corpora": {
        "train": {"@readers": "random.v1", "n_sentences": 800},
        "dev": {"@readers": "random.v1", "n_sentences": 5},
    },
    "training": {
        "max_steps": 3,
        "batch_size": 128,
        "unroll_steps": 20,
        "checkpoint_minutes": 0,
        "softmax": {"@softmax_heads": "spacy-elmo.SampledSoftmax.v1", "n_samples": 2048},
        "optimizer": {"@torch_optimizers": "spacy-elmo.AdamW.v1"},
        "schedule": {"@torch_schedules": "spacy-elmo.constant.v1"},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("head", ["Sampled", "Full"])
@pytest.mark.parametrize("cell_size", [128, 1024])
def test_the_memory_announced_is_near_the_memory_taken(tmp_path, cell_size, head):
    pytest.importorskip("psutil")
    config = json.loads(json.dumps(CONFIG))
    config["bilm"]["cell_size"] = cell_size
    if head == "Full":
        config["training"]["softmax"] = {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(config), str(tmp_path / "out")],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, last = map(json.loads, done.stdout.strip().splitlines())
    taken = last["peak"] - first["before"]
    assert taken / 2 < first["expected"] < 2 * taken


def test_the_slots_of_optimizers_are_counted():
    assert count_slots(build_adamw_v1()) == 2
    assert count_slots(build_adagrad_v1()) == 1
    assert count_slots(lambda parameters: torch.optim.SGD(parameters, lr=0.1)) == 0


def test_parameters_slots_and_rows_count():
    bilm = random_bilm()
    assert isinstance(bilm, BiLM)
    head = FullSoftmax(12, torch.ones(200_000))
    model = LanguageModel(bilm, head)
    few = TrainingSettings(max_steps=1, batch_size=1, unroll_steps=1)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    adagrad, adamw = (
        estimate_bytes(model, make, few) for make in (build_adagrad_v1(), build_adamw_v1())
    )
    # A large vocabulary costs what its vectors, their gradients and the optimizer's slots take.
    assert adagrad == pytest.approx(3 * 4 * n_parameters, rel=0.2)
    assert adamw - adagrad == 4 * n_parameters
    many = TrainingSettings(max_steps=1, batch_size=64, unroll_steps=20)
    sampled = LanguageModel(bilm, SampledSoftmax(12, torch.ones(200_000), n_samples=100))
    rows = [estimate_bytes(sampled, build_adamw_v1(), settings) for settings in (few, many)]
    assert rows[1] - rows[0] > 2 * 64 * 20 * 4 * 100
