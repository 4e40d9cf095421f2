"""Pipelines around biLMs with tables of words and code points, and with other encoders."""

import numpy
import pytest
import spacy

from spacy_elmo.models.scalar_mix import fixed_weights

from ..conftest import random_bilm
from ..manylangs_oracle import embed_sentence, make_model, write_model
from .conftest import bilm_of, make_examples, parameters, same, train

WORDS = ["the", "bank", "of", "the", "river"]


def make_pipeline(source, width, **config):
    nlp = spacy.blank("en")
    model = {"source": source and str(source), "initial_state": "zero"}
    nlp.add_pipe("elmo", config={"model": model, **config})
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1", "width": width, "upstream": "elmo"}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": listener}})
    return nlp


@pytest.mark.parametrize("encoder, n_layers", [("elmo", 2), ("lstm", 3)])
def test_a_model_of_manylangs_in_a_pipeline(tmp_path, encoder, n_layers):
    """From its directory, and after the pipeline was saved, where the directory is gone."""
    model = make_model(encoder=encoder, n_layers=n_layers)
    source = write_model(tmp_path / "theirs", model)
    nlp = make_pipeline(source, 16)
    train(nlp, steps=2)
    layers = embed_sentence(model, WORDS)
    # Of the plain LSTM only the last layer is given.
    assert len(layers) == (3 if encoder == "elmo" else 2)
    expected = numpy.tensordot(fixed_weights("average", len(layers)), layers, axes=1)
    doc = nlp(" ".join(WORDS))
    numpy.testing.assert_allclose(doc.tensor, expected, atol=1e-5)
    assert doc._.elmo_layers.shape == layers.shape
    nlp.to_disk(tmp_path / "saved")
    for file in source.iterdir():
        file.unlink()
    from_disk = spacy.load(tmp_path / "saved")
    from_bytes = make_pipeline(None, 16)
    from_bytes.from_bytes(nlp.to_bytes())
    for loaded in (from_disk, from_bytes):
        assert same(parameters(loaded), parameters(nlp))
        again = loaded(" ".join(WORDS))
        assert [token.tag_ for token in again] == [token.tag_ for token in doc]
    # A word's vector is rounded in other ways beside other words, of which some were cached.
    numpy.testing.assert_allclose(from_disk(" ".join(WORDS)).tensor, doc.tensor, atol=1e-5)


def test_fine_tuning_leaves_a_frozen_table_alone(tmp_path):
    random_bilm(words={"dim": 7, "frozen": True}).save_pretrained(tmp_path)
    nlp = make_pipeline(tmp_path, 24, frozen=False)
    nlp.initialize(lambda: make_examples(nlp))
    before = parameters(nlp)
    train(nlp, steps=2, learn_rate=0.01)
    moved = {name for name, values in parameters(nlp).items() if (values != before[name]).any()}
    assert "token_layer.projection.weight" in moved
    assert not any("word" in name for name in moved)
    assert not bilm_of(nlp).token_layer.word_embedding.weight.requires_grad
