"""The README's examples run as printed."""

import re
import shutil
import subprocess
import sys

import pytest
import spacy
from thinc.api import Config

from .conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number, tmp_path):
    """Run in an empty folder, and compare what is printed with the comment behind each print."""
    code = EXAMPLES[number]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    expected = [
        comment.rpartition(": ")[2]
        for comment in re.findall(r"^print\(.*\)\s+# (.*)$", code, re.MULTILINE)
    ]
    assert expected and result.stdout.splitlines() == expected


def test_the_config_excerpt_makes_a_pipeline():
    (excerpt,) = re.findall(r"```ini\n(.*?)```", README, re.DOTALL)
    nlp = spacy.util.load_model_from_config(Config().from_str(excerpt), auto_fill=True)
    assert nlp.pipe_names == ["elmo", "tagger"]
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]


def test_every_command_of_the_makefile_that_is_named_exists():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"make ([a-z-]+)", README)
    assert {"quickstart", "test"} <= set(named) <= set(targets)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_every_file_that_is_named_is_there():
    for path in re.findall(r"`((?:projects|spacy_elmo|tests)/[\w./-]+\.\w+)`", README):
        assert (ROOT / path).is_file(), path
