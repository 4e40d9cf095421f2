"""The measurement of training heads at a tiny size. No test depends on how fast the machine is."""

import json
import sys

import pytest

from projects.speed.scripts import make_text, measure_heads, report

from ..conftest import random_bilm


def run(module, monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["script", *map(str, args)])
    module.main()


def test_heads_are_measured_and_reported(tmp_path, monkeypatch, capsys):
    text, weights = tmp_path / "text.txt", tmp_path / "weights"
    text.write_text(make_text.make_text(n_words=60, n_tokens=300, seed=0), encoding="utf-8")
    random_bilm().save_pretrained(weights)
    folder = tmp_path / "measurements"
    output = ["--text", text, "--output", folder / "heads.json", "--bilm", weights]
    run(measure_heads, monkeypatch, *output, "--sentences", 10, "--epochs", 3)
    measured = json.loads((folder / "heads.json").read_text())
    assert measured["n_docs"] == 1 and measured["width"] == random_bilm().width
    # Windows of 128 tokens.
    assert measured["store"]["n_segments"] == -(-measured["n_tokens"] // 128)
    assert [len(seconds) for seconds in measured["seconds_by_epoch"].values()] == [3, 3, 3]
    assert min(min(seconds) for seconds in measured["seconds_by_epoch"].values()) > 0

    run(report, monkeypatch, folder, "--output", tmp_path / "speed.md")
    printed = capsys.readouterr().out
    assert printed.count("to reach 1.3 or less") == 2
    rows = [line for line in printed.splitlines() if line.startswith(("| HashEmbed", "| ELMo"))]
    assert len(rows) == 3 and rows[0].endswith("| 1.00 |")
    assert (tmp_path / "speed.png").stat().st_size > 0


def test_one_epoch_measures_nothing(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(
            measure_heads,
            monkeypatch,
            *("--text", "x", "--output", tmp_path / "x.json", "--epochs", 1),
        )
    assert "--epochs is 1; expected 2 or more" in capsys.readouterr().err
