"""``spacy elmo plot``."""

import pytest

from ..training.test_plotting import make_evaluations, write_log
from .commands import invoke, one_line

pytest.importorskip("matplotlib")


def test_runs_are_drawn_into_one_figure(tmp_path):
    one = write_log(tmp_path / "one" / "log.jsonl", make_evaluations())
    write_log(tmp_path / "two" / "log.jsonl", make_evaluations(3))
    for name, logs in (("a.png", [one]), ("b.svg", [one, tmp_path / "two"])):
        done = invoke("plot", *logs, tmp_path / name, "--x", "hours")
        assert done.exit_code == 0, done.output
        assert f"Saved: {tmp_path / name}" in one_line(done.output)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(
    "args, message",
    [
        (["out", "figure.pdf"], "figure.pdf'; expected a name that ends in .png or .svg"),
        (["out/log.jsonl"], "log.jsonl is the only path; expected one or more logs, then the fig"),
        (["out", "out/log.jsonl"], "log.jsonl'; expected a name that ends in .png or .svg"),
        (["nowhere", "figure.png"], "nowhere does not exist"),
        (["bad", "figure.png"], "log.jsonl, line 1 is damaged"),
        (["out", "figure.png", "--x", "days"], "x is 'days'; expected one of steps, epochs"),
    ],
)
def test_faults_are_one_message(tmp_path, monkeypatch, args, message):
    write_log(tmp_path / "out" / "log.jsonl", make_evaluations(2))
    write_log(tmp_path / "bad" / "log.jsonl", []).write_text("{", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = invoke("plot", *args)
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert message in one_line(done.output)
    assert not (tmp_path / "figure.png").exists()
