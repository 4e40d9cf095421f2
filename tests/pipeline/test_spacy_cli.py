"""spaCy's own commands find everything in a fresh process (pitfalls 5, 24)."""

import subprocess
import sys

import numpy
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo import BiLM
from spacy_elmo.models import layer_weights

from .conftest import TEXTS, WIDTH, bilm_of, make_examples

CONFIG = """
[paths]
train = null
dev = null
bilm = null

[nlp]
lang = "en"
pipeline = ["elmo", "tagger", "ner"]

[components]

[components.elmo]
factory = "elmo"

[components.elmo.model]
@architectures = "spacy-elmo.Elmo.v1"
source = ${paths.bilm}
width = %(width)d

[components.elmo.model.segments]
@misc = "spacy-elmo.windows.v1"
window = 50

[components.tagger]
factory = "tagger"

[components.tagger.model]
@architectures = "spacy.Tagger.v2"

[components.tagger.model.tok2vec]
@architectures = "spacy-elmo.ElmoListener.v1"
width = ${components.elmo.model.width}

[components.tagger.model.tok2vec.mix]
@architectures = "spacy-elmo.ScalarMix.v1"
dropout = 0.1

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 16
maxout_pieces = 2
use_upper = true

[components.ner.model.tok2vec]
@architectures = "spacy-elmo.ElmoListener.v1"
width = ${components.elmo.model.width}
upstream = "elmo"

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.train}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.dev}

[training]
train_corpus = "corpora.train"
dev_corpus = "corpora.dev"
seed = 0
gpu_allocator = null
max_steps = 6
eval_frequency = 3
accumulate_gradient = 2
%(extra)s
"""


def run(*arguments, cwd):
    command = [sys.executable, "-m", "spacy", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def project(tmp_path, weights):
    """A folder with a config and a corpus; the paths as overrides."""
    nlp = spacy.blank("en")
    docs = [example.reference for example in make_examples(nlp)]
    DocBin(docs=[*docs, nlp.make_doc("")]).to_disk(tmp_path / "corpus.spacy")
    config = CONFIG % {"width": WIDTH, "extra": ""}
    (tmp_path / "config.cfg").write_text(config)
    paths = ["--paths.train", "corpus.spacy", "--paths.dev", "corpus.spacy"]
    return tmp_path, [*paths, "--paths.bilm", str(weights)]


def assert_trained(path, weights):
    nlp = spacy.load(path)
    expected = BiLM.from_pretrained(weights)
    state = bilm_of(nlp).state_dict()
    for name, parameter in expected.named_parameters():
        assert numpy.array_equal(state[name], parameter.detach()), name
    (tagger,), (ner,) = (layer_weights(nlp.get_pipe(name)) for name in ("tagger", "ner"))
    assert tagger.gamma != 1.0 and ner.gamma != 1.0 and tagger != ner
    assert nlp(TEXTS[0]).tensor.shape == (4, WIDTH)


def test_fill_debug_train_and_evaluate(project, weights):
    folder, paths = project
    filled = run("init", "fill-config", "config.cfg", "full.cfg", cwd=folder)
    assert filled.returncode == 0, filled.stdout + filled.stderr
    assert 'layer_weights = "average"' in (folder / "full.cfg").read_text()
    debugged = run("debug", "config", "full.cfg", *paths, cwd=folder)
    assert debugged.returncode == 0, debugged.stdout + debugged.stderr
    trained = run("train", "full.cfg", "--output", "out", *paths, cwd=folder)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert_trained(folder / "out" / "model-last", weights)
    evaluated = run("evaluate", "out/model-last", "corpus.spacy", cwd=folder)
    assert evaluated.returncode == 0, evaluated.stdout + evaluated.stderr
    assert "TAG" in evaluated.stdout


@pytest.mark.parametrize("annotates", ["[]", '["elmo"]'])
def test_pitfall_5_frozen_components(project, weights, annotates):
    folder, paths = project
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"source": str(weights)}})
    nlp.to_disk(folder / "pretrained")
    extra = f'frozen_components = ["elmo"]\nannotating_components = {annotates}'
    config = CONFIG % {"width": WIDTH, "extra": extra}
    begin, end = config.index("[components.elmo]"), config.index("[components.tagger]")
    config = config[:begin] + '[components.elmo]\nsource = "pretrained"\n\n' + config[end:]
    config = config.replace("${components.elmo.model.width}", str(WIDTH))
    (folder / "config.cfg").write_text(config)
    trained = run("train", "config.cfg", "--output", "out", *paths, cwd=folder)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert_trained(folder / "out" / "model-last", weights)


@pytest.mark.slow
def test_package_lists_the_requirement_and_installs_nothing_else(project):
    folder, paths = project
    run("train", "config.cfg", "--output", "out", *paths, cwd=folder)
    (folder / "packages").mkdir()
    packaged = run("package", "out/model-last", "packages", "--build", "none", cwd=folder)
    assert packaged.returncode == 0, packaged.stdout + packaged.stderr
    (meta,) = (folder / "packages").glob("*/meta.json")
    assert "spacy-elmo>=" in meta.read_text()
