"""Loggers of spaCy's protocol are told what ``spacy train`` would tell them."""

import json

import pytest

from spacy_elmo.training import TrainingConfig, train
from spacy_elmo.training.registry import registry

from .configs import Recorder, StopAt, make_quick_config

CALLS = []


@registry.loggers.register("recorder.v1")
def build_recorder():
    def setup(nlp, stdout, stderr):
        CALLS.append(("setup", nlp))
        return (
            lambda info: CALLS.append(("step", info)),
            lambda: CALLS.append(("finalize", None)),
        )

    return setup


@pytest.fixture
def calls():
    CALLS.clear()
    return CALLS


def logger_config(directory, name, **settings):
    changes = {"training.logger": {"@loggers": name, **settings}, "training.eval_frequency": 20}
    return make_quick_config(directory, changes)


def test_every_step_is_logged_once_with_the_info_of_its_evaluation(tmp_path, calls):
    recorder = Recorder()
    config = logger_config(tmp_path, "recorder.v1")
    train(config, tmp_path / "out", reporter=recorder)
    assert [kind for kind, _ in calls] == ["setup", *["step"] * 46, "finalize"]
    infos = [info for kind, info in calls if kind == "step"]
    assert [n for n, info in enumerate(infos, 1) if info is not None] == [20, 40, 46]
    evaluations = [evaluation for evaluation, _ in recorder.evaluations]
    info, evaluation = infos[39], evaluations[1]
    # The keys of spaCy's training loop.
    keys = "epoch step score other_scores losses checkpoints seconds words".split()
    assert set(info) == set(keys)
    assert (info["epoch"], info["step"]) == (1, 40)
    assert info["score"] == -evaluation.perplexity
    assert info["other_scores"]["forward_perplexity"] == evaluation.forward_perplexity
    assert info["losses"] == {"elmo": evaluation.loss}
    assert info["checkpoints"] == [(-e.perplexity, e.step) for e in evaluations[:2]]
    assert max(info["checkpoints"])[0] == -min(e.perplexity for e in evaluations[:2])
    assert info["words"] == round(40 * recorder.plans[0].tokens_a_step)


def test_the_pipeline_that_a_logger_sees(tmp_path, calls):
    config = logger_config(tmp_path, "recorder.v1")
    train(config, tmp_path / "out")
    _, nlp = calls[0]
    assert nlp.pipe_names == ["elmo"] and nlp.get_pipe("elmo").is_trainable
    shown = nlp.config.interpolate()
    assert shown["training"]["eval_frequency"] == 20
    assert shown["training"]["max_steps"] == 46
    assert shown["training"]["optimizer"]["learn_rate"] == 0.01
    assert shown["bilm"]["cell_size"] == 8
    assert set(shown["training"]["score_weights"]) == {"speed"}
    json.dumps(shown)


def test_a_run_that_goes_on_knows_the_evaluations_before(tmp_path, calls):
    config = logger_config(tmp_path, "recorder.v1")
    train(config, tmp_path / "out", reporter=StopAt(25))
    assert calls[-2:] == [("step", None), ("finalize", None)]
    calls.clear()
    train(config, tmp_path / "out", resume=True)
    infos = [info for _, info in calls if isinstance(info, dict)]
    assert [step for _, step in infos[0]["checkpoints"]] == [20, 40]


def test_a_logger_is_ended_whatever_happens(tmp_path, calls):
    class Failing(Recorder):
        def evaluated(self, evaluation, is_best):
            raise ZeroDivisionError

    config = logger_config(tmp_path, "recorder.v1")
    with pytest.raises(ZeroDivisionError):
        train(config, tmp_path / "out", reporter=Failing())
    assert calls[-1] == ("finalize", None)


def test_spacys_console_logger(tmp_path, capsys):
    path = tmp_path / "spacy.jsonl"
    config = logger_config(
        tmp_path, "spacy.ConsoleLogger.v3", progress_bar="eval", output_file=str(path)
    )
    recorder = Recorder()
    train(config, tmp_path / "out", reporter=recorder)
    header, _, *rows = capsys.readouterr().out.strip().splitlines()[-5:]
    assert header.split() == ["E", "#", "LOSS", "ELMO", "SPEED", "SCORE"]
    evaluations = [evaluation for evaluation, _ in recorder.evaluations]
    assert [row.split()[1] for row in rows] == ["20", "40", "46"]
    for row, evaluation in zip(rows, evaluations):
        assert row.split()[-1] == f"{-evaluation.perplexity:.2f}"
        assert row.split()[2] == f"{evaluation.loss:.2f}"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines] == [20, 40, 46]


def test_loggers_of_spacy_loggers(tmp_path, capsys):
    pytest.importorskip("spacy_loggers")
    config = logger_config(
        tmp_path,
        "spacy.ChainLogger.v1",
        logger1={"@loggers": "spacy.PyTorchLogger.v1", "prefix": "pytorch"},
        logger2={"@loggers": "spacy.ConsoleLogger.v3"},
    )
    train(config, tmp_path / "out")
    assert "LOSS ELMO" in capsys.readouterr().out


def test_no_logger(tmp_path):
    changes = {"training.logger": None}
    assert TrainingConfig.from_dict(make_quick_config(tmp_path, changes)).make_logger is None
