"""What ``spacy elmo info`` says of a pipeline: biLMs, settings, and the mix of each component."""

import sys

import pytest
import spacy

from spacy_elmo.models import layer_weights

from ..cli.commands import info
from .conftest import LISTENER, train


@pytest.fixture
def pipeline(tmp_path, make_nlp):
    """A trained pipeline: a learned mix, a fixed one, and a component with a biLM of its own."""
    nlp = make_nlp("tagger", "ner")
    nlp.add_pipe(
        "senter",
        config={
            "model": {
                "tok2vec": {
                    **LISTENER,
                    "mix": {"@architectures": "spacy-elmo.ScalarMix.v1", "layer_weights": "top"},
                }
            }
        },
    )
    train(nlp, steps=2)
    nlp.replace_listeners("elmo", "ner", ["model.tok2vec"])
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def test_pipeline(pipeline, weights):
    found, text = info(pipeline)
    nlp = spacy.load(pipeline)
    assert found["pipeline"] == nlp.pipe_names
    assert set(found["elmo"]) == {"elmo", "ner"}
    elmo = found["elmo"]["elmo"]
    assert elmo["source"] == str(weights)
    assert elmo["listeners"] == ["tagger", "senter"]
    assert elmo["settings"]["frozen"] is True and elmo["settings"]["initial_state"] == "warm"
    assert elmo["settings"]["layer_weights"] == "average"
    assert elmo["settings"]["segments"]["@misc"] == "spacy-elmo.sentences.v1"
    assert elmo["bilm"]["width"] == 24 and elmo["bilm"]["n_parameters"] > 0
    assert found["elmo"]["ner"]["bilm"] == elmo["bilm"]
    for name in ("tagger", "ner"):
        (mix,), (expected,) = found["mixes"][name], layer_weights(nlp.get_pipe(name))
        assert mix["layer_weights"] == "learned"
        assert (mix["weights"], mix["gamma"]) == (expected.weights, expected.gamma)
        assert abs(sum(mix["weights"]) - 1) < 1e-6 and mix["gamma"] != 1
    assert found["mixes"]["tagger"][0]["upstream"] == "elmo"
    assert found["mixes"]["ner"][0]["upstream"] is None
    weights_text = " ".join(
        f"{weight:.4f}" for weight in layer_weights(nlp.get_pipe("tagger"))[0][0]
    )
    assert f"Mix of tagger weights {weights_text}, gamma " in text
    assert "Mix of senter fixed, \"top\" (listens to 'elmo')" in text
    assert f"Source {weights}" in text and "Setting frozen = true" in text


def test_installed_package(tmp_path, monkeypatch, make_nlp):
    """By its name, as spacy.load takes it."""
    package, facts = tmp_path / "site" / "en_toy", tmp_path / "site" / "en_toy-0.0.0.dist-info"
    make_nlp().to_disk(tmp_path / "pipeline")
    package.mkdir(parents=True)
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: en_toy\nVersion: 0.0.0\n")
    (package / "__init__.py").write_text(
        "import spacy\n"
        f"def load(**options): return spacy.load({str(tmp_path / 'pipeline')!r}, **options)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found, _ = info("en_toy")
    assert found["path"] == "en_toy" and found["elmo"]["elmo"]["bilm"]["width"] == 24
    sys.modules.pop("en_toy")


def test_pipeline_without_weights_or_training(tmp_path, make_nlp):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"source": None}})
    nlp.add_pipe("tagger", config={"model": {"tok2vec": {**LISTENER, "upstream": "*"}}})
    nlp.to_disk(tmp_path / "a")
    found, text = info(tmp_path / "a")
    assert found["elmo"]["elmo"]["bilm"] is None
    assert found["mixes"]["tagger"][0]["weights"] is None
    assert "Weights none yet" in text and "Mix of tagger not trained yet (listens to '*')" in text
    spacy.blank("en").to_disk(tmp_path / "b")
    found, text = info(tmp_path / "b")
    assert found["elmo"] == found["mixes"] == {}
    assert "ELMo none: no component has a biLM" in text
