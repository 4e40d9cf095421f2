"""What tests of resumed runs share: settings, and what it is to end the same."""

import json

import torch

from spacy_elmo.training.checkpoints import read_checkpoint

from .configs import read_models

# Twelve steps an epoch, an evaluation every five.
EVALUATIONS = {"training.batch_size": 8, "training.eval_frequency": 5}

# Of a log line, what depends on how fast the machine is.
TIMES = ("seconds", "tokens_per_second")


def read_log(directory):
    lines = (directory / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


def assert_same_end(directory, expected):
    """Models, log, weights and optimizer are the same to the last bit, and nothing is left over."""
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["checkpoint.pt", "log.jsonl", "model-best", "model-last"]
    assert not list(directory.rglob("*.tmp"))
    assert read_models(directory) == read_models(expected)
    assert read_log(directory) == read_log(expected)
    ours, theirs = (read_checkpoint(path / "checkpoint.pt") for path in (directory, expected))
    assert ours["progress"]["step"] == theirs["progress"]["step"]
    for name, values in theirs["model"].items():
        assert torch.equal(ours["model"][name], values), name
    for number, slots in theirs["optimizer"]["state"].items():
        for name, values in slots.items():
            assert torch.equal(ours["optimizer"]["state"][number][name], values), name
