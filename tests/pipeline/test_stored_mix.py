"""``layer_weights = "stored"``: the mix that a model of AllenNLP learned, in a pipeline."""

import numpy
import pytest
import spacy

from .. import oracle
from ..formats.allennlp_files import make_config, make_state_dict, write_archive, write_model

TEXT = "A bank by the river"
SCALARS, GAMMA = [0.5, -1.0, 2.0], 1.5

pytestmark = pytest.mark.filterwarnings("ignore:.*options of its ELMo are not in the model")


@pytest.fixture
def make_nlp(tmp_path):
    def make(**elmo):
        options = oracle.make_options()
        datasets = oracle.make_datasets(options)
        state = make_state_dict(options, datasets, mixes=[(SCALARS, GAMMA), ([9.0, 0.0, 0.0], 1.0)])
        directory = write_model(tmp_path / "model", state, make_config(**elmo))
        path = write_archive(tmp_path / "model.tar.gz", directory)
        nlp = spacy.blank("en")
        model = {"source": str(path), "initial_state": "zero"}
        nlp.add_pipe("elmo", config={"model": model, "layer_weights": "stored"})
        return nlp, options, datasets

    return make


def test_vectors_are_those_of_the_first_mix(make_nlp):
    nlp, options, datasets = make_nlp()
    layers, _ = oracle.embed_sentence(options, datasets, TEXT.split())
    exponents = numpy.exp(SCALARS)
    weights = GAMMA * exponents / exponents.sum()
    expected = sum(weight * layer for weight, layer in zip(weights, layers))
    for store_layers in (False, True):
        nlp.get_pipe("elmo").store_layers = store_layers
        numpy.testing.assert_allclose(nlp(TEXT).tensor, expected, atol=1e-5)
    again = spacy.blank("en")
    again.add_pipe("elmo", config={"layer_weights": "stored", "model": {"initial_state": "zero"}})
    again.from_bytes(nlp.to_bytes())
    numpy.testing.assert_allclose(again(TEXT).tensor, nlp(TEXT).tensor, atol=1e-5)


def test_mix_that_depends_on_the_batch(make_nlp):
    nlp, _, _ = make_nlp(do_layer_norm=True)
    with pytest.raises(ValueError, match="'stored', but the mix that came .* norms each lay"):
        nlp(TEXT)


def test_weights_without_a_mix(weights):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"source": str(weights)}, "layer_weights": "stored"})
    with pytest.raises(ValueError, match="'stored', but no mix came with the weights"):
        nlp(TEXT)
