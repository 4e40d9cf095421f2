"""The project that trains a biLM of size sm, with a small config on little text."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from spacy_elmo import BiLM

from ..conftest import ROOT
from ..training.conftest import make_sentences

SMALL = {
    "filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]]": "filters = [[1, 4], [2, 8]]",
    "projection_dim = 128": "projection_dim = 8",
    "cell_size = 1024": "cell_size = 16",
    "n_samples = 4096": "n_samples = 10",
    "batch_size = 128": "batch_size = 4",
    "max_steps = 15000": "max_steps = 40",
    "eval_frequency = 1000": "eval_frequency = 20",
    "warmup_steps = 300": "warmup_steps = 5",
}


@pytest.fixture
def project(tmp_path):
    """A copy of the project with a small config, and a folder of text."""
    folder = tmp_path / "pretrain_en"
    made = ("corpus", "training", "metrics", "export", "project.lock", "__pycache__")
    shutil.copytree(ROOT / "projects" / "pretrain_en", folder, ignore=shutil.ignore_patterns(*made))
    config = (folder / "configs" / "bilm.cfg").read_text(encoding="utf-8")
    for setting, small in SMALL.items():
        assert config.count(setting + "\n") == 1, f"the config does not say {setting}"
        config = config.replace(setting + "\n", small + "\n")
    (folder / "configs" / "small.cfg").write_text(config, encoding="utf-8")
    (folder / "text").mkdir()
    for seed, name in enumerate(("train-0", "train-1", "dev", "test")):
        lines = (" ".join(words) + "." for words in make_sentences(150, seed))
        (folder / "text" / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def run(folder, *arguments):
    command = [sys.executable, "-m", "spacy", "project", "run", "all", ".", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_project_trains_scores_draws_and_exports(project):
    values = {"text": "text", "config": "configs/small.cfg", "precision": "float32", "n_process": 1}
    given = [part for name, value in values.items() for part in (f"--vars.{name}", str(value))]
    printed = run(project, *given, "--vars.minutes", "0.0001,10")
    curve = json.loads((project / "metrics" / "curve.json").read_text(encoding="utf-8"))
    assert [point["minutes"] for point in curve] == [0.0001, 10]
    assert curve[0]["step"] < curve[1]["step"] == 40
    assert curve[1]["mean"] < curve[0]["mean"]
    report = (project / "metrics" / "report.md").read_text(encoding="utf-8")
    assert report.strip() in printed and "| dev |" in report and "| test |" in report
    assert (project / "metrics" / "training.svg").read_text(encoding="utf-8").startswith("<?xml")
    sentences = [["the", "river"], ["a"]]
    expected = BiLM.from_pretrained(project / "training" / "model-last").embed(sentences)
    for folder in ("native", "hdf5"):
        found = BiLM.from_pretrained(project / "export" / folder).embed(sentences)
        assert all((one == other).all() for one, other in zip(found, expected))
