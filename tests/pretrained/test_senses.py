"""The bundled model tells the bank of a river from the bank that lends money."""

import numpy
import pytest

from spacy_elmo import BiLM

from ..word_senses_set import LOAN, MONEY_BANK, RIVER_BANK, SHORE


@pytest.fixture(scope="module")
def layers():
    """Vectors of the marked word of each sentence, scaled to length 1, a list a set.
    [layer, sentence, width]"""
    bilm = BiLM.from_pretrained("en_elmo_sm")

    def vectors(occurrences):
        found = bilm.embed([one.tokens for one in occurrences], initial_state="warm")
        rows = numpy.stack([a[:, one.index] for a, one in zip(found, occurrences)], axis=1)
        return rows / numpy.linalg.norm(rows, axis=2, keepdims=True)

    return {
        "river": vectors(RIVER_BANK),
        "money": vectors(MONEY_BANK),
        "shore": vectors(SHORE),
        "loan": vectors(LOAN),
    }


def nearness(layers, name, layer):
    """How much nearer each occurrence is to shores than to loans, in mean cosines."""
    vectors = layers[name][layer]
    to_shore = (vectors @ layers["shore"][layer].T).mean(axis=1)
    return to_shore - (vectors @ layers["loan"][layer].T).mean(axis=1)


def test_the_bank_of_a_river_is_nearer_to_shores_than_to_loans(layers):
    # Of the last layer. Lower layers hold more of the word itself, which is nearer to "loan".
    assert (nearness(layers, "river", 2) > 0).all()
    assert (nearness(layers, "money", 2) < 0).all()


@pytest.mark.parametrize("layer", [1, 2])
def test_each_bank_of_a_river_is_nearer_to_shores_than_any_that_lends(layers, layer):
    assert nearness(layers, "river", layer).min() > nearness(layers, "money", layer).max()


@pytest.mark.parametrize("layer", [1, 2])
def test_banks_of_rivers_are_nearer_to_each_other_than_to_those_with_money(layers, layer):
    river, money = layers["river"][layer], layers["money"][layer]
    among = (river @ river.T)[~numpy.eye(len(river), dtype=bool)].mean()
    assert among > (river @ money.T).mean() + 0.1


def test_the_token_layer_knows_no_context(layers):
    river = layers["river"][0]
    assert numpy.allclose(river @ river.T, 1, atol=1e-5)
