"""The examples of docs/downstream.md run as printed, one after the other in one folder."""

import contextlib
import io
import re

import pytest
import spacy
from thinc.api import Config

from spacy_elmo.pipeline.templates import COMPONENTS

from .conftest import ROOT, random_bilm

PAGE = (ROOT / "docs" / "downstream.md").read_text(encoding="utf-8")
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "ini")}


def test_the_examples_print_what_they_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random_bilm(seed=7).save_pretrained(tmp_path / "my_bilm" / "model-best")
    assert len(BLOCKS["python"]) == 3
    for code in BLOCKS["python"]:
        spacy.util.fix_random_seed(0)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {})
        comments = re.findall(r"^print\(.*\)\s+# (.*)$", code, re.MULTILINE)
        expected = [comment.partition(": ")[2] for comment in comments]
        assert expected and printed.getvalue().splitlines() == expected


def test_the_config_excerpt_makes_a_pipeline():
    excerpt = next(block for block in BLOCKS["ini"] if "Tok2VecElmo" in block)
    head = '[nlp]\nlang = "en"\npipeline = ["elmo", "tagger"]\n\n[components]\n\n'
    elmo = '[components.elmo]\nfactory = "elmo"\n\n[components.elmo.model]\nwidth = 24\n\n'
    elmo += '@architectures = "spacy-elmo.Elmo.v1"\n\n'
    tagger = '[components.tagger]\nfactory = "tagger"\n\n[components.tagger.model]\n'
    tagger += '@architectures = "spacy.Tagger.v2"\n\n'
    config = Config().from_str(head + elmo + tagger + excerpt, interpolate=False)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]
    assert nlp.get_pipe("tagger").model.get_ref("tok2vec").get_dim("nO") == 96 + 24


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_of_init_config_is_named(name):
    assert f"`{name}`" in PAGE
