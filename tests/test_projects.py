"""The projects: what their files name is there, and the quickstart runs."""

import os
import shutil
import subprocess
import sys

import pytest
import srsly

from .conftest import ROOT

PROJECTS = sorted(path.parent for path in ROOT.glob("projects/*/project.yml"))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_every_dependency_is_in_the_repository_or_made_before(project):
    config = srsly.read_yaml(project / "project.yml")
    commands = {command["name"]: command for command in config["commands"]}
    for steps in config["workflows"].values():
        made = set()
        for step in steps:
            for path in commands[step].get("deps", []):
                for name, value in config["vars"].items():
                    path = path.replace("${vars.%s}" % name, str(value))
                assert path in made or (project / path).exists(), f"{step} needs {path}"
            made.update(commands[step].get("outputs", []))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_every_command_is_part_of_a_workflow(project):
    config = srsly.read_yaml(project / "project.yml")
    used = {step for steps in config["workflows"].values() for step in steps}
    assert used == {command["name"] for command in config["commands"]}


def run_quickstart(folder, workflow, *overrides):
    shutil.copytree(
        ROOT / "projects" / "quickstart",
        folder,
        ignore=shutil.ignore_patterns("corpus", "training", "metrics", "project.lock"),
    )
    command = [sys.executable, "-m", "spacy", "project", "run", workflow, ".", *overrides]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


SMALL = ["--vars.max_mb", "0.3", "--vars.bilm_steps", "30", "--vars.steps", "20"]


@pytest.mark.slow
def test_the_quickstart_runs_on_little_text(tmp_path):
    printed = run_quickstart(tmp_path / "quickstart", "all", *SMALL)
    report = (tmp_path / "quickstart" / "metrics" / "report.md").read_text()
    assert report.strip() in printed
    for expected in ("| forward |", "| tag accuracy |", "| entity F1 |", "| tagger |", "| ner |"):
        assert expected in report


@pytest.mark.slow
def test_the_ewt_workflow_runs_on_a_local_copy(tmp_path, shared):
    ewt = str(shared / "data" / "ud_english_ewt")
    small = [*SMALL, "--vars.ewt", ewt, "--vars.ewt_sentences", "50", "--vars.ewt_steps", "20"]
    run_quickstart(tmp_path / "quickstart", "ewt", *small)
    assert "| tag accuracy |" in (tmp_path / "quickstart" / "metrics" / "ewt.md").read_text()
