"""Checkpoints: a run that stopped, in whatever way, ends like one that never did."""

import os
import random
import signal
import time

import pytest

from spacy_elmo.training import output, train
from spacy_elmo.training.checkpoints import read_checkpoint, write_checkpoint
from spacy_elmo.training.locks import only_writer

from .configs import Recorder, StopAt, read_models
from .configs import make_quick_config as make_config
from .conftest import make_sentences
from .resuming import EVALUATIONS, assert_same_end, read_log

pytestmark = pytest.mark.usefixtures("no_flush")


class Crash(Exception):
    pass


class CrashAt(Recorder):
    """Ends a run without warning after a step, or at an evaluation, which follows the saving."""

    def __init__(self, step, at="step"):
        super().__init__()
        self.step = step
        self.at = at

    def stepped(self, step):
        super().stepped(step)
        if self.at == "step" and step.step == self.step:
            raise Crash

    def evaluated(self, evaluation, is_best):
        super().evaluated(evaluation, is_best)
        if self.at == "evaluation" and evaluation.step == self.step:
            raise Crash


@pytest.mark.parametrize("order, accumulation", [("text", 3), ("shuffled", 1)])
def test_a_run_that_is_stopped_and_resumed_ends_the_same(tmp_path, order, accumulation):
    changes = {"training.order": order, "training.grad_accumulation": accumulation, **EVALUATIONS}
    config = make_config(tmp_path, changes)
    whole = Recorder()
    train(config, tmp_path / "whole", reporter=whole)
    n_steps = len(whole.steps)
    losses = []
    # Within an epoch, where an evaluation is due, after it, and at the last step.
    for end in (4, 5, 7, n_steps):
        reporter = StopAt(end)
        result = train(config, tmp_path / "out", resume=True, reporter=reporter)
        assert result.is_interrupted and result.n_steps == end
        losses += [step.loss for step in reporter.steps]
    assert result.n_steps == n_steps
    assert not (read_log(tmp_path / "out")[-1]["step"] == n_steps)
    result = train(config, tmp_path / "out", resume=True)
    assert (result.first_step, result.n_steps) == (n_steps, n_steps)
    assert losses == [step.loss for step in whole.steps]
    assert_same_end(tmp_path / "out", tmp_path / "whole")


@pytest.mark.parametrize(
    "at, step, minutes",
    [("step", 1, 10), ("step", 9, 0), ("step", 9, 1e-9), ("evaluation", 10, 1e-9)],
)
def test_a_run_that_crashed_is_resumed_from_its_last_checkpoint(
    tmp_path, never_stopped, at, step, minutes
):
    config = make_config(tmp_path, {"training.checkpoint_minutes": minutes, **EVALUATIONS})
    with pytest.raises(Crash):
        train(config, tmp_path / "out", reporter=CrashAt(step, at))
    result = train(config, tmp_path / "out", resume=True)
    # Either a checkpoint a step, of which the last was not written, or one an evaluation.
    last_evaluation = step - step % 5
    assert result.first_step == (
        max(step - 1, last_evaluation) if minutes == 1e-9 else last_evaluation
    )
    assert_same_end(tmp_path / "out", never_stopped)


@pytest.mark.parametrize(
    "name, function",
    [
        ("model-last", "save_language_model"),
        ("model-best", "save_language_model"),
        ("log.jsonl", "write_files"),
    ],
)
def test_a_crash_between_checkpoint_and_models_is_made_good(
    tmp_path, never_stopped, monkeypatch, name, function
):
    """The checkpoint of an evaluation is written first; what was to follow it is written when the
    run goes on."""
    original = getattr(output, function)

    def crash(*args):
        if name == "log.jsonl" or args[2].name == name:
            raise Crash
        return original(*args)

    monkeypatch.setattr(output, function, crash)
    config = make_config(tmp_path, EVALUATIONS)
    with pytest.raises(Crash):
        train(config, tmp_path / "out")
    assert not (tmp_path / "out" / name).exists()
    monkeypatch.undo()
    result = train(config, tmp_path / "out", resume=True)
    assert result.first_step == 5
    assert_same_end(tmp_path / "out", never_stopped)


class Announcer(Recorder):
    """Writes to a pipe when training starts."""

    def __init__(self, pipe):
        super().__init__()
        self.pipe = pipe

    def planned(self, plan):
        os.write(self.pipe, b"x")


def run_killed(config, output, seconds):
    """Train in a process of its own that is killed a while after it has started to.

    :returns: whether it came to its end before.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            train(config, output, resume=True, reporter=Announcer(write_end))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write_end)
    assert os.read(read_end, 1) == b"x"
    os.close(read_end)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_a_run_killed_at_random_moments_ends_the_same(tmp_path, never_stopped, seed):
    """A checkpoint a step, so that many of the moments lie within a save."""
    config = make_config(tmp_path, {"training.checkpoint_minutes": 1e-9, **EVALUATIONS})
    moments = random.Random(seed)
    n_kills = 0
    # Longer from time to time, so that a busy machine gets on too.
    while not run_killed(config, tmp_path / "out", moments.uniform(0.0, 0.3) * (1 + n_kills / 10)):
        n_kills += 1
        assert n_kills < 100
    assert n_kills > 0
    assert_same_end(tmp_path / "out", never_stopped)


def test_the_clock_runs_on_over_all_sittings(tmp_path):
    changes = {"training.max_epochs": 0, "training.max_hours": 0.4 / 3600}
    config = make_config(tmp_path, changes)
    stopped = train(config, tmp_path / "out", reporter=StopAt(2))
    assert stopped.is_interrupted
    before = read_checkpoint(tmp_path / "out" / "checkpoint.pt")["progress"]["seconds"]
    begin = time.perf_counter()
    result = train(config, tmp_path / "out", resume=True)
    assert result.ended_by == "max_hours"
    assert before > 0 and result.best.seconds >= 0.4
    assert result.best.seconds < before + (time.perf_counter() - begin)


def test_a_finished_run_makes_no_step_until_a_limit_is_raised(tmp_path):
    config = make_config(tmp_path, {"training.max_epochs": 0, "training.max_steps": 10})
    train(config, tmp_path / "out")
    before = read_models(tmp_path / "out")
    recorder = Recorder()
    result = train(config, tmp_path / "out", resume=True, reporter=recorder)
    assert (result.n_steps, result.first_step, result.ended_by) == (10, 10, "max_steps")
    assert not recorder.steps and recorder.plans[0].first_step == 10
    assert read_models(tmp_path / "out") == before

    config["training"] |= {"max_steps": 0, "max_epochs": 1}
    recorder = Recorder()
    result = train(config, tmp_path / "out", resume=True, reporter=recorder)
    assert recorder.steps[0].step == 11
    assert result.n_steps == recorder.plans[0].steps_an_epoch
    train(make_config(tmp_path, {"training.max_epochs": 1}), tmp_path / "whole")
    weights = "model-last/model.safetensors"
    assert (tmp_path / "out" / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()


def test_a_run_out_of_patience_goes_on_with_more(tmp_path):
    changes = {"training.patience": 1, "training.optimizer.learn_rate": 0.3}
    changes |= {"training.eval_frequency": 2, "training.max_epochs": 50}
    config = make_config(tmp_path, changes)
    result = train(config, tmp_path / "out")
    config["training"]["patience"] = 3
    longer = train(config, tmp_path / "out", resume=True)
    assert longer.ended_by == "patience" and longer.n_steps > result.n_steps
    train(config, tmp_path / "whole")
    assert_same_end(tmp_path / "out", tmp_path / "whole")


def test_settings_without_influence_on_the_weights_may_change(tmp_path, never_stopped):
    config = make_config(tmp_path, {"training.max_steps": 5, **EVALUATIONS})
    train(config, tmp_path / "out")
    (tmp_path / "text").mkdir()
    for name in ("train", "dev"):
        os.replace(tmp_path / f"{name}.txt", tmp_path / "text" / f"{name}.txt")
        config["corpora"][name]["path"] = str(tmp_path / "text" / f"{name}.txt")
    config["training"] |= {"max_steps": 0, "checkpoint_minutes": 3, "n_threads": 1}
    config["training"] |= {"device": "auto", "max_hours": 1}
    # A default that is written out is no change.
    config["training"] |= {"grad_accumulation": 1}
    config["training"]["softmax"]["n_samples"] = 8
    train(config, tmp_path / "out", resume=True)
    assert_same_end(tmp_path / "out", never_stopped)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"training.seed": 4}, r"\[training\] seed was 3 and is 4"),
        ({"training.unroll_steps": 6}, r"\[training\] unroll_steps was 5 and is 6"),
        ({"training.precision": "bfloat16"}, r"precision was 'float32' and is 'bfloat16'"),
        ({"bilm.dropout": 0.2}, r"\[bilm\] dropout was 0.1 and is 0.2"),
        ({"vocab.min_count": 2}, r"\[vocab\] min_count was 1 and is 2"),
        (
            {"training.optimizer.eps": 1e-6, "training.softmax.n_samples": 9},
            r"\[training.optimizer\] eps was 1e-08 and is 1e-06; .*softmax\] n_samples was 8",
        ),
        (
            {"training.schedule": {"@torch_schedules": "spacy-elmo.warmup_linear.v1"}},
            r"\[training.schedule\] @torch_schedules was 'spacy-elmo.constant.v1' and is 'spacy",
        ),
    ],
)
def test_other_settings_are_named_with_both_values(tmp_path, never_stopped, changes, message):
    before = read_models(never_stopped)
    with pytest.raises(ValueError, match=rf"run with other settings: .*{message}"):
        train(make_config(tmp_path, {**changes, **EVALUATIONS}), never_stopped, resume=True)
    assert read_models(never_stopped) == before


def test_other_texts_are_refused(tmp_path, never_stopped):
    config = make_config(tmp_path, EVALUATIONS)
    lines = [" ".join(words) for words in make_sentences(3, seed=1)]
    (tmp_path / "dev.txt").write_text("\n".join(reversed(lines)), encoding="utf-8")
    with pytest.raises(ValueError, match="a run with another held-out text. Give the same"):
        train(config, never_stopped, resume=True)
    with (tmp_path / "train.txt").open("a", encoding="utf-8") as file:
        file.write("\nunseen words")
    message = "another training text and another held-out text and another vocabulary"
    with pytest.raises(ValueError, match=message):
        train(config, never_stopped, resume=True)


def test_other_processes_are_refused(tmp_path, never_stopped, monkeypatch):
    path = never_stopped / "checkpoint.pt"
    contents = read_checkpoint(path)
    contents["settings"]["processes"] = 2
    config = make_config(tmp_path, EVALUATIONS)
    (tmp_path / "out").mkdir()
    write_checkpoint(tmp_path / "out" / "checkpoint.pt", contents)
    with pytest.raises(ValueError, match="processes was 2 and is 1"):
        train(config, tmp_path / "out", resume=True)


def test_resuming_without_a_checkpoint_starts_anew_and_says_so(tmp_path, never_stopped):
    recorder = Recorder()
    train(make_config(tmp_path, EVALUATIONS), tmp_path / "out", resume=True, reporter=recorder)
    assert any("no checkpoint in" in note and "anew" in note for note in recorder.notes)
    assert_same_end(tmp_path / "out", never_stopped)


@pytest.mark.parametrize("name", ["checkpoint.pt", "model-best", "model-last", "log.jsonl"])
def test_an_earlier_run_is_never_lost_silently(tmp_path, name):
    config = make_config(tmp_path, {"training.max_steps": 2})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("precious", encoding="utf-8")
    recorder = Recorder()
    message = rf"out holds an earlier run \({name}\)\. Give --resume .* --overwrite"
    with pytest.raises(ValueError, match=message):
        train(config, tmp_path / "out", reporter=recorder)
    if name != "checkpoint.pt":
        with pytest.raises(ValueError, match=rf"holds {name}, but no checkpoint.pt .* --overwrite"):
            train(config, tmp_path / "out", resume=True, reporter=recorder)
    assert (tmp_path / "out" / name).read_text(encoding="utf-8") == "precious"
    # Before the texts are read.
    assert not recorder.texts


def test_overwriting_leaves_nothing_of_the_run_before(tmp_path):
    config = make_config(tmp_path, EVALUATIONS)
    train(config, tmp_path / "out")
    config["training"]["seed"] = 4
    result = train(config, tmp_path / "out", overwrite=True, reporter=StopAt(2))
    assert result.n_steps == 2
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["checkpoint.pt", "model-last"]
    train(config, tmp_path / "out", resume=True)
    train(config, tmp_path / "whole")
    assert_same_end(tmp_path / "out", tmp_path / "whole")


def test_resume_and_overwrite_contradict_each_other(tmp_path):
    with pytest.raises(ValueError, match="Both --resume and --overwrite"):
        train(make_config(tmp_path), tmp_path / "out", resume=True, overwrite=True)


def test_an_output_that_cannot_be_written_is_named_before_work_starts(tmp_path):
    (tmp_path / "out").write_text("x", encoding="utf-8")
    recorder = Recorder()
    with pytest.raises(ValueError, match="out is a file; expected the path of a directory"):
        train(make_config(tmp_path), tmp_path / "out", reporter=recorder)
    with pytest.raises(OSError, match=r"The output .*below cannot be written: Not a directory$"):
        train(make_config(tmp_path), tmp_path / "out" / "below", reporter=recorder)
    assert not recorder.texts


def test_two_runs_do_not_write_the_same_output(tmp_path):
    out = tmp_path / "out"
    train(make_config(tmp_path), out)
    before = read_models(out)
    with only_writer(out, out):
        for how in ("resume", "overwrite"):
            with pytest.raises(BlockingIOError, match=r"Another process is writing .*out\. Wait"):
                train(make_config(tmp_path), out, **{how: True})
    assert read_models(out) == before
    train(make_config(tmp_path), out, overwrite=True)
    assert read_models(out) == before
