"""spaCy's own commands on configs with ``elmo`` (pitfalls 5, 24). Training runs in a fresh process,
which has to find everything; the other commands in this one, which is quicker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_elmo import BiLM
from spacy_elmo.models import layer_weights

from .conftest import LISTENER, TEXTS, WIDTH, bilm_of, make_examples

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
    """A command in a fresh process."""
    command = [sys.executable, "-m", "spacy", *map(str, arguments)]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def call(*arguments):
    """A command in this process; what it printed."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory, weights):
    """A folder with a config, a corpus and a pipeline that ``spacy train`` made of them; the paths
    as overrides."""
    folder = tmp_path_factory.mktemp("project")
    nlp = spacy.blank("en")
    docs = [example.reference for example in make_examples(nlp)]
    DocBin(docs=[*docs, nlp.make_doc("")]).to_disk(folder / "corpus.spacy")
    (folder / "base.cfg").write_text(CONFIG % {"width": WIDTH, "extra": ""})
    paths = ["--paths.train", str(folder / "corpus.spacy"), "--paths.dev"]
    paths += [str(folder / "corpus.spacy"), "--paths.bilm", str(weights)]
    call("init", "fill-config", folder / "base.cfg", folder / "config.cfg")
    run("train", "config.cfg", "--output", "out", *paths, cwd=folder)
    return folder, paths


@pytest.fixture
def inside(trained, monkeypatch):
    """The folder, as the working directory, and the paths."""
    monkeypatch.chdir(trained[0])
    return trained


def assert_trained(path, weights):
    nlp = spacy.load(path)
    expected = BiLM.from_pretrained(weights)
    state = bilm_of(nlp).state_dict()
    for name, parameter in expected.named_parameters():
        assert numpy.array_equal(state[name], parameter.detach()), name
    (tagger,), (ner,) = (layer_weights(nlp.get_pipe(name)) for name in ("tagger", "ner"))
    assert tagger.gamma != 1.0 and ner.gamma != 1.0 and tagger != ner
    assert nlp(TEXTS[0]).tensor.shape == (4, WIDTH)


def test_train_in_a_fresh_process(trained, weights):
    folder, _ = trained
    assert_trained(folder / "out" / "model-last", weights)
    assert 'layer_weights = "average"' in (folder / "config.cfg").read_text()


def test_debug(inside):
    _, paths = inside
    assert "Config is valid" in call("debug", "config", "config.cfg", *paths)
    # It calls fewer than 100 examples an error.
    docs = list(DocBin().from_disk("corpus.spacy").get_docs(spacy.blank("en").vocab))
    DocBin(docs=docs * 25).to_disk("many.spacy")
    many = ["--paths.train", "many.spacy", *paths[2:]]
    told = call("debug", "data", "config.cfg", *many)
    assert "Pipeline can be initialized with data" in told
    for name in ("tagger", "elmo"):
        assert "model looks good" in call("debug", "model", "config.cfg", name, *paths)


@pytest.mark.slow
def test_benchmark_speed(inside):
    told = call("benchmark", "speed", "out/model-last", "corpus.spacy", "--batches", 30)
    assert "words/s" in told


def test_evaluate_and_apply(inside):
    folder, _ = inside
    assert "TAG" in call("evaluate", "out/model-last", "corpus.spacy")
    (folder / "texts.txt").write_text("Two birds sang .\n")
    call("apply", "out/model-last", "texts.txt", "applied.spacy")
    nlp = spacy.load("out/model-last")
    for doc in DocBin().from_disk("applied.spacy").get_docs(nlp.vocab):
        assert [t.tag_ for t in doc] == [t.tag_ for t in nlp(doc.text)]


def test_assemble_and_package(inside):
    folder, _ = inside
    config = spacy.load("out/model-last").config
    config["components"] = {
        name: {"source": "out/model-last"} for name in ("elmo", "tagger", "ner")
    }
    config.to_disk("sourced.cfg")
    call("assemble", "sourced.cfg", "assembled")
    expected = spacy.load("out/model-last")(TEXTS[1])
    doc = spacy.load("assembled")(TEXTS[1])
    assert numpy.array_equal(doc.tensor, expected.tensor)
    assert [t.tag_ for t in doc] == [t.tag_ for t in expected]
    Path("packages").mkdir()
    call("package", "out/model-last", "packages", "--build", "none")
    (meta,) = Path("packages").glob("*/meta.json")
    requirements = json.loads(meta.read_text())["requirements"]
    assert any(line.startswith("spacy-elmo>=") for line in requirements)


def test_find_threshold(make_nlp, tmp_path):
    nlp = make_nlp(lang="xx")
    model = {
        "@architectures": "spacy.TextCatCNN.v2",
        "exclusive_classes": False,
        "tok2vec": LISTENER,
    }
    nlp.add_pipe("textcat_multilabel", config={"model": model})
    docs = [nlp.make_doc(text) for text in TEXTS]
    for number, doc in enumerate(docs):
        doc.cats = {"A": float(number == 0), "B": float(number == 1)}
    DocBin(docs=docs).to_disk(tmp_path / "corpus.spacy")
    examples = [spacy.training.Example(nlp.make_doc(doc.text), doc) for doc in docs]
    nlp.initialize(lambda: examples)
    nlp.to_disk(tmp_path / "model")
    arguments = ["textcat_multilabel", "threshold", "cats_macro_f", "-n", 2]
    told = call("find-threshold", tmp_path / "model", tmp_path / "corpus.spacy", *arguments)
    assert "Best threshold" in told


@pytest.mark.parametrize("annotates", ["[]", '["elmo"]'])
def test_pitfall_5_frozen_components(trained, tmp_path, weights, monkeypatch, annotates):
    """A pretrained elmo that is sourced and in frozen_components, with and without annotating."""
    _, paths = trained
    monkeypatch.chdir(tmp_path)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"source": str(weights)}})
    nlp.to_disk("pretrained")
    extra = f'frozen_components = ["elmo"]\nannotating_components = {annotates}'
    config = CONFIG % {"width": WIDTH, "extra": extra}
    begin, end = config.index("[components.elmo]"), config.index("[components.tagger]")
    config = config[:begin] + '[components.elmo]\nsource = "pretrained"\n\n' + config[end:]
    config = config.replace("${components.elmo.model.width}", str(WIDTH))
    Path("config.cfg").write_text(config)
    call("train", "config.cfg", "--output", "out", *paths)
    assert_trained("out/model-last", weights)


def test_training_goes_on_from_a_trained_pipeline(inside, weights):
    """All components sourced: nothing starts anew, and the biLM stays."""
    _, paths = inside
    config = CONFIG % {"width": WIDTH, "extra": ""}
    begin, end = config.index("[components.elmo]"), config.index("[corpora]")
    sourced = "".join(
        f'[components.{name}]\nsource = "out/model-last"\n\n' for name in ("elmo", "tagger", "ner")
    )
    Path("resumed.cfg").write_text(config[:begin] + sourced + config[end:])
    call("train", "resumed.cfg", "--output", "resumed", *paths, "--training.max_steps", 3)
    assert_trained("resumed/model-last", weights)
    first, second = (
        layer_weights(spacy.load(path).get_pipe("tagger"))[0].gamma
        for path in ("out/model-last", "resumed/model-last")
    )
    assert abs(second - 1) > abs(first - 1)


@pytest.mark.slow
def test_the_built_package_installs_offline_and_gives_the_same_vectors(trained, tmp_path):
    folder, _ = trained
    run("package", folder / "out" / "model-last", ".", "--build", "none", cwd=tmp_path)
    (package,) = tmp_path.glob("en_*")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", tmp_path]
    subprocess.run([*build, package], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", fresh], check=True)
    # What the package requires is there already, as no index may be asked.
    (site,) = fresh.glob("lib/*/site-packages")
    known = [path for path in sys.path if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})" for path in known]
    (site / "known.pth").write_text("\n".join(lines))
    python = fresh / "bin" / "python"
    install = [*pip, "--python", python, "install", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    code = (
        "import json, spacy, sys; "
        f"print(json.dumps(spacy.load({package.name.rpartition('-')[0]!r})(sys.argv[1])"
        ".tensor.tolist()))"
    )
    environment = {**os.environ, "PYTHONPATH": ""}
    command = [python, "-c", code, TEXTS[1]]
    printed = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    expected = spacy.load(folder / "out" / "model-last")(TEXTS[1]).tensor
    assert numpy.allclose(json.loads(printed), expected, atol=1e-6)
