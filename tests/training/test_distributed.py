"""Several processes: they learn what one would, and none waits for a dead one."""

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from datetime import timedelta

import pytest
import torch

from spacy_elmo.training import train
from spacy_elmo.training.checkpoints import read_checkpoint
from spacy_elmo.training.distributed import World, find_device

from ..conftest import ROOT
from .configs import Recorder, make_quick_config, read_models

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

# What each process runs. Processes write what they see; the first one also trains on its own.
PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from spacy_elmo.training import train
from tests.training.configs import Recorder

directory, out, options = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
rank = int(os.environ["RANK"])

class Watcher(Recorder):
    def evaluated(self, evaluation, is_best):
        super().evaluated(evaluation, is_best)
        print("evaluated by", rank, flush=True)

recorder = Watcher()
config = json.loads((directory / "config.json").read_text())
config["training"].update(options.get("training", {}))
if options.get("die") == rank:
    import spacy_elmo.training.steps as steps
    make_step = steps.Stepper.make_step
    def dying(self, step, *more):
        if step == 3:
            if options["how"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("This process has had enough.")
        return make_step(self, step, *more)
    steps.Stepper.make_step = dying
if options.get("other_text") == rank:
    config["corpora"]["train"]["path"] = config["corpora"]["dev"]["path"]
if options.get("stop") == rank:
    import spacy_elmo.training.steps as steps
    make_step = steps.Stepper.make_step
    def stopped(self, step, *more):
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return make_step(self, step, *more)
    steps.Stepper.make_step = stopped
result = train(config, directory / out, resume=options.get("resume", False), reporter=recorder)
facts = {
    "losses": [step.loss for step in recorder.steps],
    "texts": recorder.texts,
    "ended_by": result.ended_by,
    "n_steps": result.n_steps,
    "processes": [plan.n_processes for plan in recorder.plans],
}
(directory / f"{out}-{rank}.json").write_text(json.dumps(facts))
"""

CHANGES = {
    "bilm.dropout": 0.0,
    "training.batch_size": 3,
    "training.eval_frequency": 8,
    "training.max_epochs": 1,
    "training.patience": 50,
}


def run_processes(directory, out, n_processes=2, **options):
    """Run the program in several processes that torchrun starts."""
    program = directory / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(n_processes), str(program), str(directory), out]
    return subprocess.run(
        [*command, json.dumps(options)],
        capture_output=True,
        encoding="utf-8",
        env=ENVIRONMENT,
        timeout=120,
    )


def write_quick_config(directory, changes=None):
    config = make_quick_config(directory, {**CHANGES, **(changes or {})})
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return config


def facts_of(directory, out, rank):
    return json.loads((directory / f"{out}-{rank}.json").read_text())


def train_alone(directory, config):
    """One process with the rows of two."""
    recorder = Recorder()
    alone = {**config, "training": {**config["training"], "batch_size": 6}}
    train(alone, directory / "alone", reporter=recorder)
    return [step.loss for step in recorder.steps]


def fork_processes(directory, out, config):
    """Train in two processes without starting Python anew, which takes longer than the rest."""
    with socket.socket() as sock:
        sock.bind(("localhost", 0))
        port = sock.getsockname()[1]
    children = []
    for rank in (0, 1):
        child = os.fork()
        if child > 0:
            children.append(child)
            continue
        os.environ |= {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
        os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
        try:
            recorder = Recorder()
            train(config, directory / out, reporter=recorder)
            losses = [step.loss for step in recorder.steps]
            (directory / f"{out}-{rank}.json").write_text(json.dumps({"losses": losses}))
            os._exit(0)
        finally:
            os._exit(1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_learn_what_one_with_their_rows_would(tmp_path):
    """Sampled softmax, clipped gradients and accumulation; the only difference is rounding."""
    config = write_quick_config(tmp_path, {"training.grad_accumulation": 2})
    fork_processes(tmp_path, "two", config)
    losses = facts_of(tmp_path, "two", 0)["losses"]
    assert losses == pytest.approx(train_alone(tmp_path, config), abs=1e-5)
    assert facts_of(tmp_path, "two", 1)["losses"] == []
    ours, theirs = (
        read_checkpoint(tmp_path / name / "checkpoint.pt")["model"] for name in ("two", "alone")
    )
    for name, values in theirs.items():
        torch.testing.assert_close(ours[name], values, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
def test_torchrun_starts_processes_that_act_as_one(tmp_path):
    config = write_quick_config(tmp_path)
    done = run_processes(tmp_path, "two")
    assert done.returncode == 0, done.stderr
    first, second = (facts_of(tmp_path, "two", rank) for rank in (0, 1))
    assert first["losses"] == pytest.approx(train_alone(tmp_path, config), abs=1e-5)
    assert first["processes"] == [2]
    # The other process makes the same steps, and neither evaluates nor shows anything.
    assert second["n_steps"] == first["n_steps"] == len(first["losses"])
    assert not second["losses"] and not second["texts"]
    assert set(re.findall(r"evaluated by (\d)", done.stdout)) == {"0"}
    names = sorted(path.name for path in (tmp_path / "two").iterdir())
    assert names == ["checkpoint.pt", "log.jsonl", "model-best", "model-last"]


@pytest.mark.slow
def test_processes_that_are_stopped_and_resumed_end_the_same(tmp_path):
    """With dropout. A signal to one of them stops all."""
    write_quick_config(tmp_path, {"bilm.dropout": 0.2})
    whole = run_processes(tmp_path, "whole")
    assert whole.returncode == 0, whole.stderr
    stopped = run_processes(tmp_path, "out", stop=1)
    assert stopped.returncode == 0, stopped.stderr
    facts = [facts_of(tmp_path, "out", rank) for rank in (0, 1)]
    assert [f["ended_by"] for f in facts] == ["signal", "signal"]
    assert facts[0]["n_steps"] == facts[1]["n_steps"] == 5
    states = read_checkpoint(tmp_path / "out" / "checkpoint.pt")["states"]
    assert len(states) == 2 and not torch.equal(states[0][0][0][0], states[1][0][0][0])
    resumed = run_processes(tmp_path, "out", resume=True)
    assert resumed.returncode == 0, resumed.stderr
    assert read_models(tmp_path / "out") == read_models(tmp_path / "whole")
    # Other numbers of processes read other rows.
    other = run_processes(tmp_path, "out", n_processes=3, resume=True)
    assert other.returncode != 0
    assert "processes was 2 and is 3" in other.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "raise"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_dead_process_ends_the_run(tmp_path, rank, how):
    write_quick_config(tmp_path, {"training.checkpoint_minutes": 1e-9})
    done = run_processes(tmp_path, "out", die=rank, how=how)
    assert done.returncode != 0
    survivor = rf"ConnectionError: Process {1 - rank} of 2 lost the others .* --resume"
    assert re.search(survivor, done.stderr), done.stderr
    if how == "raise":
        assert "This process has had enough." in done.stderr
    assert read_checkpoint(tmp_path / "out" / "checkpoint.pt")["progress"]["step"] == 3


@pytest.mark.slow
def test_processes_with_different_texts_are_refused(tmp_path):
    write_quick_config(tmp_path, {"vocab.min_count": 1})
    done = run_processes(tmp_path, "out", other_text=1)
    assert done.returncode != 0
    assert "Process 1 of 2 reads another text than the first one" in done.stderr


@pytest.mark.slow
def test_more_processes_than_rows(tmp_path):
    """Texts of few positions leave some without a row."""
    config = write_quick_config(tmp_path)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.txt").write_text("bank river", encoding="utf-8")
    done = run_processes(tmp_path, "two", training={"batch_size": 3})
    assert done.returncode == 0, done.stderr
    losses = facts_of(tmp_path, "two", 0)["losses"]
    assert losses == pytest.approx(train_alone(tmp_path, config), abs=1e-5)


def test_one_process_needs_no_others(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with World.join("cpu") as world:
        assert (world.rank, world.size, world.is_first) == (0, 1, True)
        assert world.share(lambda: 5) == 5
        assert world.gather(5) == [5]


def test_processes_that_do_not_find_each_other_are_named(monkeypatch):
    settings = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("spacy_elmo.training.distributed.TIMEOUT", timedelta(seconds=1))
    with pytest.raises(ConnectionError, match="Process 1 of 2 lost the others"):
        with World.join("cpu"):
            pass


def test_each_process_gets_a_device_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("cuda", local_rank=1) == torch.device("cuda", 1)
    assert find_device("auto") == torch.device("cuda", 0)
    assert find_device("cuda:1", local_rank=0) == torch.device("cuda", 1)
    with pytest.raises(
        ValueError, match="device is 'cuda', which needs 3 CUDA devices; .* finds 2"
    ):
        find_device("cuda", local_rank=2)
