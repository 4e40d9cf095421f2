"""The speed project at a tiny size. No test depends on how fast the machine is."""

import json
import os
import subprocess
import sys
from shutil import copytree, ignore_patterns
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from projects.speed.scripts import make_text, measure_training, products, report
from spacy_elmo.training.distributed import World

from ..conftest import ROOT

TINY = {
    "bilm.filters": "[[1,4],[3,8]]",
    "bilm.projection_dim": "8",
    "bilm.cell_size": "16",
    "training.batch_size": "4",
    "training.unroll_steps": "5",
    "training.softmax.n_samples": "50",
}


def run(module, monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["script", *map(str, args)])
    module.main()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("speed") / "text.txt"
    path.write_text(make_text.make_text(n_words=300, n_tokens=3000, seed=0), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def measured(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("measurements")
    options = [f"--{name}={value}" for name, value in TINY.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "RUN_TIME", 0.001)
        rounds = ["--rounds", 2, "--steps", 1]
        output = ["--text", text, "--output", folder / "training.json"]
        run(measure_training, patch, *output, *rounds, *options)
    return folder


@pytest.fixture
def training(measured):
    return json.loads((measured / "training.json").read_text())


def test_the_numbers_of_a_measurement_fit_together(training):
    assert training["machine"]["n_threads"] == torch.get_num_threads()
    (size,) = training["sizes"]
    assert (size["size"], size["n_words"]) == ("sm", 304)  # the full stop and three special ones
    assert [found["precision"] for found in size["precisions"]] == ["float32", "bfloat16"]
    flops = sum(product["flops"] for product in size["products"])
    for found in size["precisions"]:
        step = found["step_seconds"]
        assert step > 0 and len(found["step_seconds_by_round"]) == 2
        assert found["positions_a_step"] == 4 * 5
        assert found["tokens_per_second"] * step == pytest.approx(found["tokens_a_step"], abs=0.5)
        assert found["gflop_per_second"] * step * 1e9 == pytest.approx(flops)
        of_the_products = found["products_gflop_per_second"]
        assert found["ratio"] == pytest.approx(found["gflop_per_second"] / of_the_products)
        parts = found["parts_seconds"]
        assert list(parts) == ["batch", "forward", "backward", "clip", "optimizer"]
        assert min(parts.values()) > 0


@pytest.mark.parametrize("figure", ["speed.png", "speed.svg"])
def test_the_report_has_all_tables_and_a_figure(measured, tmp_path, figure, monkeypatch, capsys):
    run(report, monkeypatch, measured, "--output", tmp_path / "speed.md", "--figure", figure)
    markdown = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert markdown in capsys.readouterr().out
    for precision in ("float32", "bfloat16"):
        assert markdown.count(f"\n| sm | {precision} | ") == 2
    for product in ("convolutions", "LSTM: gates", "softmax: d weights"):
        assert f"\n| {product} | " in markdown
    assert "`bilm.cell_size = 16`" in markdown and f"({figure})" in markdown
    begin = (tmp_path / figure).read_bytes()[:5]
    assert begin == (b"\x89PNG\r" if figure.endswith("png") else b"<?xml")


@pytest.mark.parametrize(
    "ratio, speedup, verdicts",
    [(0.45, 2.2, ["reached", "reached"]), (0.44, 2.1, ["not reached", "not reached"])],
)
def test_the_report_says_what_is_reached_at_size_sm(training, ratio, speedup, verdicts):
    def verdicts_of(**machine):
        found = report.write_report([{**training, "machine": {**ofthe, **machine}}], "speed.png")
        return [line.split("**")[1] for line in found.splitlines() if "to reach" in line], found

    training["options"] = {}
    ofthe = training["machine"]
    float32, bfloat16 = training["sizes"][0]["precisions"]
    float32.update(ratio=ratio, tokens_per_second=1000.0)
    bfloat16.update(tokens_per_second=1000.0 * speedup)
    found, markdown = verdicts_of(has_amx=True, device_type="cpu")
    assert found == verdicts and "no AMX" not in markdown
    found, markdown = verdicts_of(has_amx=False, device_type="cpu")
    assert found == verdicts[:1] and "no AMX" in markdown
    found, markdown = verdicts_of(has_amx=False, device_type="cuda")
    assert found == [] and "no AMX" not in markdown


def test_other_settings_are_not_judged(training):
    assert "to reach" not in report.write_report([training], "speed.png")


def test_the_listed_products_are_those_of_the_step(tmp_path):
    """torch counts them too, with what a step pads: columns for biases and for targets, rows of
    words and predictions up to a round number, which are few in a large batch."""
    path = tmp_path / "text.txt"
    path.write_text(make_text.make_text(n_words=5000, n_tokens=6000, seed=0), encoding="utf-8")
    few = {"training.batch_size": 64, "training.unroll_steps": 4}
    args = SimpleNamespace(text=path, device="cpu")
    config = measure_training.make_config("sm", "float32", args, few, tmp_path)
    with World.join("cpu") as world:
        case = measure_training.Case(config, world)
    with FlopCounterMode(display=False) as counter:
        case.make_steps(1)
    listed = sum(product.flops for product in case.products)
    assert listed < counter.get_total_flops() < 1.1 * listed


def test_the_text_has_as_many_distinct_words_a_batch_as_english(monkeypatch, tmp_path):
    run(make_text, monkeypatch, tmp_path / "text.txt")
    lines = (tmp_path / "text.txt").read_text(encoding="utf-8").splitlines()
    assert all(line.endswith(".") for line in lines)
    sentences = [["<S>", *line[:-1].split(), ".", "</S>"] for line in lines]
    positions = [word for sentence in sentences for word in sentence]
    assert len(set(positions)) == 30_003
    for begin in range(0, 10 * 5120, 5120):
        words = set(positions[begin : begin + 5120])
        assert 1800 < len(words) < 2050
        assert 5.5 < sum(map(len, words)) / len(words) < 7.5


def test_the_text_is_the_same_every_time():
    assert make_text.make_text(50, 200, seed=1) == make_text.make_text(50, 200, seed=1)
    assert make_text.make_text(50, 200, seed=1) != make_text.make_text(50, 200, seed=2)


def test_a_text_needs_as_many_tokens_as_words():
    with pytest.raises(ValueError, match="n_tokens is 9; expected at least n_words, 10"):
        make_text.make_text(n_words=10, n_tokens=9, seed=0)


def test_a_text_that_is_too_short_is_refused(monkeypatch, tmp_path):
    (tmp_path / "text.txt").write_text("Too short.", encoding="utf-8")
    args = ["--text", tmp_path / "text.txt", "--output", tmp_path / "training.json"]
    tiny = [f"--{name}={value}" for name, value in TINY.items()]
    with pytest.raises(ValueError, match=r"The text has 3 tokens.*--text"):
        run(measure_training, monkeypatch, *args, *tiny)
    assert not (tmp_path / "training.json").exists()


def test_measurements_that_cannot_be_reported_are_named(monkeypatch, tmp_path):
    args = [tmp_path, "--output", tmp_path / "speed.md"]
    with pytest.raises(ValueError, match="has no .json file"):
        run(report, monkeypatch, *args)
    (tmp_path / "other.json").write_text('{"kind": "weather"}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"other.json: kind is 'weather'; expected one of inf"):
        run(report, monkeypatch, *args)


def test_without_matplotlib_the_extra_is_named(measured, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install spacy-elmo\[plots\]"):
        run(report, monkeypatch, measured, "--output", tmp_path / "speed.md")
    assert not (tmp_path / "speed.md").exists()


@pytest.mark.slow
def test_the_project_runs(tmp_path):
    skipped = ignore_patterns("corpus", "measurements", "speed.*", "project.lock", "__pycache__")
    folder = copytree(ROOT / "projects" / "speed", tmp_path / "speed", ignore=skipped)
    options = " ".join(f"--{name}={value}" for name, value in TINY.items())
    env = {**os.environ, "SPACY_CONFIG_OVERRIDES": options}
    few = ["--vars.rounds", "1", "--vars.steps", "1"]
    command = [sys.executable, "-m", "spacy", "project", "run", "all", ".", *few]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    report_ = (folder / "speed.md").read_text(encoding="utf-8")
    assert report_.strip() in result.stdout and "\n| sm | bfloat16 | " in report_
    assert (folder / "speed.png").exists()
