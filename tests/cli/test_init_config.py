"""``spacy elmo init-config``: training configs of pipelines that are complete and train."""

import re

import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config

from spacy_elmo.formats import write
from spacy_elmo.models import layer_weights
from spacy_elmo.pipeline.templates import COMMENTS, COMPONENTS, make_pipeline_config

from ..conftest import TOY_SIZES, random_bilm
from ..pipeline.conftest import make_examples
from .commands import invoke, one_line

WIDTH = 2 * TOY_SIZES["projection_dim"]


@pytest.fixture(scope="module")
def bilm(tmp_path_factory):
    path = tmp_path_factory.mktemp("bilm") / "toy"
    random_bilm(seed=7).save_pretrained(path)
    return path


def test_the_config_trains_as_it_is(bilm, tmp_path):
    path = tmp_path / "new" / "out.cfg"
    arguments = ["init-config", path, "--lang", "en", "--source", bilm]
    done = invoke(*arguments, "--pipeline", "tagger, ner")
    assert done.exit_code == 0, done.output
    assert f"\nspacy train {path} --output DIR --paths.train TRAIN.spacy --paths.dev" in done.output
    nlp = spacy.blank("en")
    docs = [example.reference for example in make_examples(nlp)]
    DocBin(docs=docs).to_disk(tmp_path / "corpus.spacy")
    corpus = str(tmp_path / "corpus.spacy")
    overrides = {
        "paths.train": corpus,
        "paths.dev": corpus,
        "training.max_steps": 2,
        "training.eval_frequency": 1,
    }
    nlp = init_nlp(load_config(path, overrides, interpolate=False))
    (tmp_path / "trained").mkdir()
    best, _ = train(nlp, tmp_path / "trained")
    assert best.get_pipe("elmo").width == WIDTH
    loaded = spacy.load(tmp_path / "trained" / "model-last")
    for name in ("tagger", "ner"):
        assert layer_weights(loaded.get_pipe(name))[0].gamma != 1.0


def test_every_component_is_complete(bilm, tmp_path):
    """What spaCy would fill in is there, and what a comment is about as well."""
    path = tmp_path / "out.cfg"
    path.write_text(make_pipeline_config("en", COMPONENTS, str(bilm)))
    config = load_config(path, interpolate=False)
    assert config["nlp"]["pipeline"] == ["elmo", *COMPONENTS]
    assert config["components"]["elmo"]["model"]["width"] == WIDTH
    before, filled = fill_config(tmp_path / "filled.cfg", path, silent=True)
    assert filled.to_str() == before.to_str()
    text = path.read_text()
    for comment in COMMENTS.values():
        assert comment.split("<")[0][:90] in re.sub(r"\n# ", " ", text), comment
    assert "biLM's 3 layers" in re.sub(r"\n# ", " ", text)


def test_another_language_and_format(tmp_path):
    write(random_bilm(), tmp_path / "tf", "bilm-tf")
    done = invoke("init-config", "-", "-l", "de", "-p", "parser", "-s", tmp_path / "tf")
    assert done.exit_code == 0, done.output
    assert 'lang = "de"' in done.output and f"width = {WIDTH}" in done.output


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["-p", "tagger,lemmatizer"], "'lemmatizer' takes no tok2vec layer; expected some of"),
        (["-p", "tagger,nerr"], "'nerr', but there is no such factory; expected some of senter"),
        (["-p", "elmo,tagger"], "'elmo' takes no tok2vec layer"),
        (["-p", "ner,ner"], "'ner' is there twice"),
        (["-p", " , "], "pipeline is empty; expected some of"),
        (["-l", "qq"], "lang is 'qq'"),
        (["-s", "nothing"], "nothing"),
        (["-s", "en_elmo_sm", "-l", "de"], "trained on 'en', but this pipeline's language is 'de'"),
    ],
)
def test_what_cannot_be_is_named_and_writes_nothing(bilm, tmp_path, arguments, expected):
    path = tmp_path / "out.cfg"
    source = [] if "-s" in arguments else ["-s", bilm]
    done = invoke("init-config", path, *source, *arguments)
    assert done.exit_code == 1 and expected in one_line(done.output)
    assert not path.exists()


def test_a_file_that_is_there_stays(bilm, tmp_path):
    path = tmp_path / "out.cfg"
    path.write_text("mine")
    done = invoke("init-config", path, "-s", bilm)
    assert done.exit_code == 1 and "give --force" in one_line(done.output)
    assert path.read_text() == "mine"
    assert invoke("init-config", path, "-s", bilm, "--force", "-p", "tagger").exit_code == 0


def test_without_a_source_it_is_the_bundled_bilm():
    done = invoke("init-config", "-", "-p", "tagger")
    assert done.exit_code == 0, done.output
    assert 'bilm = "en_elmo_sm"' in done.output and "width = 256" in done.output
