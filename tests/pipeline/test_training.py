"""What a user gets from training components that listen to elmo."""

import pickle
import warnings

import numpy
import pytest
import spacy
from spacy.training import Example

from spacy_elmo import BiLM
from spacy_elmo.models import layer_weights

from .conftest import (
    LISTENER,
    TRAIN_DATA,
    WIDTH,
    bilm_of,
    make_examples,
    parameters,
    same,
    train,
)

TEXT = TRAIN_DATA[1][0]


def listening_layer(nlp, name):
    """The tok2vec layer of a component: listener and mix."""
    nodes = nlp.get_pipe(name).model.walk()
    return next(n for n in nodes if n.layers and n.layers[0].name == "elmo_listener")


def test_each_component_has_a_mix_of_its_own(make_nlp):
    nlp = make_nlp("tagger", "ner")
    before = parameters(nlp)
    train(nlp, steps=60, learn_rate=0.02)
    assert same(parameters(nlp), before)
    (tagger,), (ner,) = (layer_weights(nlp.get_pipe(name)) for name in ("tagger", "ner"))
    # Pitfall 19: the weights move, and away from each other.
    assert max(tagger.weights) - min(tagger.weights) > 0.01
    assert not numpy.allclose(tagger.weights, ner.weights, atol=1e-3)
    assert tagger.gamma != ner.gamma
    assert [token.tag_ for token in nlp(TEXT)] == TRAIN_DATA[1][1]["tags"]


def test_unfrozen_the_bilm_learns(make_nlp):
    nlp = make_nlp("tagger", "ner", frozen=False)
    before = parameters(nlp)
    losses = train(nlp, steps=5)
    after = parameters(nlp)
    assert losses["elmo"] > 0
    moved = [name for name in after if not numpy.array_equal(after[name], before[name])]
    assert {name.split(".")[0] for name in moved} == {
        "token_layer",
        "forward_lstm",
        "backward_lstm",
    }
    assert set(after) - set(moved) == {"warm_hidden", "warm_cell"}


def test_pitfall_20_fine_tuning_computes_vectors_anew_after_each_update(make_nlp):
    nlp = make_nlp("tagger", frozen=False)
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    seen = [nlp(TEXT).tensor]
    for _ in range(3):
        nlp.update(make_examples(nlp), sgd=optimizer)
        seen.append(nlp(TEXT).tensor)
        (layers,) = bilm_of(nlp).embed([TEXT.split()], initial_state="warm")
        assert numpy.allclose(seen[-1], layers.mean(axis=0), atol=1e-5)
    # spaCy updates a shared embedding one batch late, so the first update changes nothing yet.
    assert not any(numpy.array_equal(a, b) for a, b in zip(seen[1:], seen[2:]))


def test_unfrozen_gradients_of_all_listeners_add_up(make_nlp):
    """The gradient that reaches the biLM, against a change of the loss: sum of the mixed vectors
    of two listeners, one of them counted twice."""
    import torch

    from ..conftest import TOY_SIZES

    nlp = make_nlp("tagger", "ner", frozen=False, model={"source": {**TOY_SIZES, "dropout": 0.0}})
    nlp.initialize(lambda: make_examples(nlp))
    elmo, examples = nlp.get_pipe("elmo"), make_examples(nlp)
    docs = [example.predicted for example in examples]
    elmo.update(examples)
    for name, factor in (("tagger", 1.0), ("ner", 2.0)):
        Y, backprop = listening_layer(nlp, name)(docs, is_train=True)
        backprop([numpy.full_like(y, factor) for y in Y])

    bilm = bilm_of(nlp)
    found = {name: p.grad.clone() for name, p in bilm.named_parameters()}
    bilm.zero_grad()
    words = [[token.text for token in doc] for doc in docs]
    total = 0.0
    for sentence in words:
        layers, _ = bilm([sentence], bilm.initial_states("warm", 1))
        total = total + 3 * layers[0].mean(0).sum()
    total.backward()
    for name, parameter in bilm.named_parameters():
        assert torch.allclose(found[name], parameter.grad, atol=1e-4, rtol=1e-4), name


def test_freezing_after_training_freezes(make_nlp):
    nlp = make_nlp("tagger", frozen=False)
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    nlp.update(make_examples(nlp), sgd=optimizer)
    nlp.get_pipe("elmo").frozen = True
    before = parameters(nlp)
    for _ in range(3):
        nlp.update(make_examples(nlp), sgd=optimizer)
    assert same(parameters(nlp), before)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    for _ in range(3):
        nlp.update(make_examples(nlp), sgd=optimizer)
    (copy,) = [node for node in nlp.get_pipe("tagger").model.walk() if node.name == "elmo"]
    assert same(copy.layers[0].shims[0]._model.bilm.state_dict(), before)


def test_a_replaced_unfrozen_listener_learns_apart_from_its_origin(make_nlp):
    nlp = make_nlp("tagger", "ner", frozen=False)
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    tagger = nlp.get_pipe("tagger").model
    (copy,) = [node for node in tagger.walk() if node.name == "elmo"]
    origin = nlp.get_pipe("elmo").model
    # Optimizers keep their moments by shim id.
    assert copy.layers[0].shims[0].id != origin.layers[0].shims[0].id
    nlp.update(make_examples(nlp), sgd=optimizer)
    assert not same(copy.layers[0].shims[0]._model.bilm.state_dict(), parameters(nlp))


@pytest.mark.parametrize("frozen", [True, False])
def test_sub_batches_add_up(make_nlp, frozen):
    nlp = make_nlp("tagger", frozen=frozen)
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    before = parameters(nlp)
    # spaCy's output layers start at zero and pass no gradient down in the first step.
    for _ in range(2):
        for example in make_examples(nlp):
            nlp.update([example], sgd=False)
        for _, pipe in nlp.pipeline:
            pipe.finish_update(optimizer)
    assert same(parameters(nlp), before) == frozen
    assert layer_weights(nlp.get_pipe("tagger"))[0].gamma != 1.0


@pytest.mark.parametrize("frozen", [True, False])
def test_docs_without_words_in_training(make_nlp, frozen):
    nlp = make_nlp("tagger", "ner", frozen=frozen)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    empty = Example.from_dict(nlp.make_doc(""), {})
    space = Example.from_dict(nlp.make_doc("\n\n"), {"tags": ["N"], "entities": []})
    for batch in ([empty], [empty, empty], [empty, *make_examples(nlp)], [space], [empty, space]):
        losses = {}
        nlp.update(batch, sgd=optimizer, losses=losses)
        assert "elmo" in losses
    assert nlp(TEXT)[0].tag_


@pytest.mark.parametrize("annotates", [[], ["elmo"]])
@pytest.mark.parametrize("frozen", [True, False])
def test_pitfall_5_frozen_components_of_the_training_block(make_nlp, annotates, frozen):
    nlp = make_nlp("tagger", "ner", frozen=frozen)
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    before = parameters(nlp)
    for _ in range(3):
        examples = [*make_examples(nlp), Example.from_dict(nlp.make_doc(""), {})]
        nlp.update(examples, sgd=optimizer, exclude=["elmo"], annotates=annotates)
    assert same(parameters(nlp), before)
    assert layer_weights(nlp.get_pipe("tagger"))[0].gamma != 1.0


def test_leaving_out_the_last_listener_does_not_stop_the_others(make_nlp):
    nlp = make_nlp("tagger", "ner")
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    for _ in range(2):
        nlp.update(make_examples(nlp), sgd=optimizer, exclude=["ner"])
    assert layer_weights(nlp.get_pipe("tagger"))[0].gamma != 1.0
    for _ in range(2):
        nlp.update(make_examples(nlp)[:2], sgd=optimizer)
    assert layer_weights(nlp.get_pipe("ner"))[0].gamma != 1.0


@pytest.mark.parametrize("frozen", [True, False])
def test_other_docs_than_the_pipe_got_are_an_error_where_gradients_would_be_lost(make_nlp, frozen):
    nlp = make_nlp("tagger", frozen=frozen)
    nlp.initialize(lambda: make_examples(nlp))
    nlp.get_pipe("elmo").update(make_examples(nlp)[:2])
    tagger = nlp.get_pipe("tagger")
    if frozen:
        assert tagger.update(make_examples(nlp)[2:])["tagger"] > 0
    else:
        with pytest.raises(ValueError, match="'tagger' was updated with other Docs than 'elmo'"):
            tagger.update(make_examples(nlp)[2:])


@pytest.mark.parametrize("frozen", [True, False])
def test_pitfall_26_rehearse_and_resume(make_nlp, frozen):
    nlp = make_nlp("tagger", frozen=frozen)
    train(nlp, steps=3)
    optimizer = nlp.resume_training()
    assert "tagger" in nlp.rehearse(make_examples(nlp), sgd=optimizer)
    nlp.update(make_examples(nlp), sgd=optimizer)


def test_pitfall_26_elmo_without_listeners_and_a_loss_of_zero(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("tagger")
    assert train(nlp, steps=1)["elmo"] == 0.0


@pytest.mark.parametrize("frozen", [True, False])
def test_a_trained_pipeline_can_be_pickled(make_nlp, frozen):
    nlp = make_nlp("tagger", "ner", frozen=frozen)
    train(nlp, steps=2)
    nlp.get_pipe("elmo").update(make_examples(nlp))
    loaded = pickle.loads(pickle.dumps(nlp))
    assert numpy.array_equal(loaded(TEXT).tensor, nlp(TEXT).tensor)
    assert [t.tag_ for t in loaded(TEXT)] == [t.tag_ for t in nlp(TEXT)]
    optimizer = loaded.resume_training()
    loaded.update(make_examples(loaded), sgd=optimizer)


def retokenizing(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    return doc


@pytest.mark.filterwarnings("ignore:The tokens of a Doc changed")
def test_an_unpickled_listener_still_computes_what_is_missing(make_nlp):
    nlp = make_nlp("tagger")
    train(nlp, steps=30)
    loaded = pickle.loads(pickle.dumps(nlp))
    doc = retokenizing(loaded.get_pipe("elmo")(loaded.make_doc(TEXT)))
    expected = retokenizing(nlp.get_pipe("elmo")(nlp.make_doc(TEXT)))
    left, right = (
        n.get_pipe("tagger").model.predict([d]) for n, d in ((loaded, doc), (nlp, expected))
    )
    assert numpy.array_equal(left[0], right[0])
    with loaded.select_pipes(disable=["elmo"]):
        assert [t.tag_ for t in loaded(TEXT)] == [t.tag_ for t in nlp(TEXT)]


def test_a_wildcard_listener_takes_no_gradients_from_another_pipe(make_nlp, weights):
    nlp = make_nlp("tagger", frozen=False)
    nlp.add_pipe("elmo", "elmo_2", config={"frozen": False, "model": {"source": str(weights)}})
    nlp.add_pipe("tagger", "tagger_2", config={"model": {"tok2vec": {**LISTENER, "upstream": "*"}}})
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]
    assert nlp.get_pipe("elmo_2").listening_components == ["tagger_2"]
    before = parameters(nlp), parameters(nlp, "elmo_2")
    train(nlp, steps=3)
    assert not same(parameters(nlp), before[0]) and not same(parameters(nlp, "elmo_2"), before[1])


def test_averages_do_not_break_evaluation(make_nlp):
    nlp = make_nlp("tagger")
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    optimizer.averages = {}
    nlp.update(make_examples(nlp), sgd=optimizer)
    before = parameters(nlp)
    with nlp.use_params(optimizer.averages):
        assert nlp.evaluate(make_examples(nlp))["tag_acc"] >= 0
    assert same(parameters(nlp), before)


# Initialization


def test_pitfall_21_initialize_loads_the_weights(make_nlp, weights):
    nlp = make_nlp(model={"source": None})
    nlp.config["initialize"]["components"]["elmo"] = {"source": str(weights)}
    nlp.initialize()
    expected = BiLM.from_pretrained(weights)
    for name, value in expected.named_parameters():
        assert numpy.array_equal(parameters(nlp)[name], value.detach())


def test_pitfall_21_wrong_weights_are_an_error(make_nlp, weights, tmp_path):
    nlp = make_nlp(model={"source": str(tmp_path / "nothing")})
    with pytest.raises((ValueError, OSError), match="nothing"):
        nlp.initialize()
    nlp = make_nlp(model={"source": None, "width": 10})
    nlp.config["initialize"]["components"]["elmo"] = {"source": str(weights)}
    with pytest.raises(ValueError, match=f"width {WIDTH}.*config says 10"):
        nlp.initialize()


def test_initializing_again_keeps_loaded_weights(make_nlp, tmp_path):
    nlp = make_nlp("tagger", frozen=False)
    train(nlp, steps=2)
    trained = parameters(nlp)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    loaded.initialize(lambda: make_examples(loaded))
    assert same(parameters(loaded), trained)


def test_a_sourced_component_trains_on(make_nlp):
    nlp = make_nlp("tagger")
    train(nlp, steps=3)
    other = spacy.blank("en")
    other.add_pipe("elmo", source=nlp)
    other.add_pipe("tagger", source=nlp)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        optimizer = other.resume_training()
        other.update(make_examples(other), sgd=optimizer)
        assert numpy.array_equal(other(TEXT).tensor, nlp(TEXT).tensor)
