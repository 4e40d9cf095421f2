"""Which ``elmo`` pipe a listener gets: by name, by "*", after renaming, disabling, removing,
sourcing and replacing (pitfalls 17, 18)."""

import gc
import pickle

import numpy
import pytest
import spacy

from .conftest import JOINED, LISTENER, TRAIN_DATA, WIDTH, make_examples, parameters, same, train

TEXT = TRAIN_DATA[1][0]
ANY = {**LISTENER, "upstream": "*"}


def scores(nlp, name="tagger"):
    """What the tagger computes for a Doc that each elmo pipe has read."""
    doc = nlp.make_doc(TEXT)
    for _, pipe in nlp.pipeline:
        if hasattr(pipe, "find_listeners"):
            doc = pipe(doc)
    return nlp.get_pipe(name).model.predict([doc])[0]


@pytest.fixture
def two(make_nlp, weights, tmp_path):
    """Two different elmo pipes, the names of which the tagger's listener leaves open."""
    import torch

    from spacy_elmo import BiLM

    other = BiLM.from_pretrained(weights)
    with torch.no_grad():
        other.token_layer.char_embedding.weight.mul_(2)
    other.save_pretrained(tmp_path / "other")

    nlp = make_nlp(lang="xx")
    nlp.add_pipe("elmo", "near", config={"model": {"source": str(tmp_path / "other")}})
    nlp.add_pipe("tagger", config={"model": {"tok2vec": ANY}})
    return nlp


# Renaming


@pytest.mark.parametrize("tok2vec", [LISTENER, JOINED], ids=["listener", "joined"])
def test_a_renamed_pipe_keeps_its_listeners(make_nlp, tok2vec, tmp_path):
    nlp = make_nlp(lang="xx")
    nlp.add_pipe("tagger", config={"model": {"tok2vec": tok2vec}})
    train(nlp, steps=3)
    expected = scores(nlp)
    nlp.rename_pipe("elmo", "encoder")
    assert nlp.get_pipe("encoder").listening_components == ["tagger"]
    nlp.to_disk(tmp_path)
    from_bytes = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for each in (nlp, spacy.load(tmp_path), from_bytes, pickle.loads(pickle.dumps(nlp))):
        each.rename_pipe("tagger", "tags")
        assert each.get_pipe("encoder").listening_components == ["tags"]
        assert numpy.array_equal(scores(each, "tags"), expected)
        doc = each(TEXT)
        assert doc._.encoder_layers.shape[2] == WIDTH and doc[0].tag_
        each.rename_pipe("tags", "tagger")
    # Training goes on, and a second renaming is no different.
    nlp.update(make_examples(nlp), sgd=nlp.resume_training())
    nlp.rename_pipe("encoder", "again")
    assert nlp.get_pipe("again").listening_components == ["tagger"]


def test_a_renamed_pipe_that_learns_gets_gradients(make_nlp):
    nlp = make_nlp("tagger", lang="xx", frozen=False)
    train(nlp, steps=2)
    nlp.rename_pipe("elmo", "encoder")
    before = parameters(nlp, "encoder")
    optimizer = nlp.resume_training()
    for _ in range(2):
        losses = nlp.update(make_examples(nlp), sgd=optimizer)
    assert losses["encoder"] > 0 and not same(parameters(nlp, "encoder"), before)


# The wildcard


def test_the_wildcard_stays_with_the_nearest_pipe_while_that_one_is_disabled(two):
    """As ``spacy train`` does with frozen_components when it initializes."""
    nlp = two
    assert nlp.get_pipe("near").listening_components == ["tagger"]
    with nlp.select_pipes(disable=["near"]):
        nlp.initialize(lambda: make_examples(nlp))
        assert nlp.get_pipe("elmo").listening_components == []
    assert nlp.get_pipe("near").listening_components == ["tagger"]
    doc = nlp(TEXT)
    tagger = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    expected = doc._.near_layers.mean(axis=0)
    assert numpy.allclose(tagger.predict([doc])[0], expected, atol=1e-5)
    with nlp.select_pipes(disable=["near"]):
        assert numpy.allclose(tagger.predict([nlp(TEXT)])[0], expected, atol=1e-5)


def test_the_wildcard_goes_to_a_pipe_that_is_added_nearer(two, weights):
    nlp = two
    model = {"source": str(weights)}
    nlp.add_pipe("elmo", "nearest", before="tagger", config={"model": model})
    assert nlp.get_pipe("near").listening_components == []
    assert nlp.get_pipe("nearest").listening_components == ["tagger"]


def test_the_wildcard_falls_back_when_the_nearest_pipe_is_removed(two):
    nlp = two
    nlp.initialize(lambda: make_examples(nlp))
    nlp.remove_pipe("near")
    gc.collect()
    doc = nlp(TEXT)
    vectors = nlp.get_pipe("tagger").model.get_ref("tok2vec").predict([doc])[0]
    assert numpy.allclose(vectors, doc.tensor, atol=1e-5)
    nlp.update(make_examples(nlp), sgd=nlp.resume_training())
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]


def test_a_listener_whose_only_pipe_was_removed_says_so(make_nlp):
    nlp = make_nlp("tagger", lang="xx")
    train(nlp, steps=1)
    nlp.remove_pipe("elmo")
    gc.collect()
    with pytest.raises(ValueError, match="'tagger' listens to upstream = 'elmo', but no elmo"):
        nlp(TEXT)


# Sourcing and replacing


def test_sourced_components_follow_the_pipe_of_their_new_pipeline(two, make_nlp):
    nlp = two
    train(nlp, steps=2)
    expected = scores(nlp)
    other = spacy.blank("xx")
    other.add_pipe("near", source=nlp)
    other.add_pipe("tagger", source=nlp)
    assert other.get_pipe("near").listening_components == ["tagger"]
    assert numpy.array_equal(scores(other), expected)
    third = make_nlp(lang="xx")
    third.add_pipe("tagger", source=nlp)
    assert third.get_pipe("elmo").listening_components == ["tagger"]


def test_a_trained_pipeline_is_sourced_with_replaced_listeners(make_nlp, tmp_path):
    nlp = make_nlp(lang="xx")
    nlp.add_pipe("tagger", config={"model": {"tok2vec": JOINED}})
    train(nlp, steps=2)
    expected = scores(nlp)
    nlp.to_disk(tmp_path / "trained")
    config = nlp.config.copy()
    config["nlp"]["pipeline"] = ["tagger"]
    config["components"] = {
        "tagger": {
            "source": str(tmp_path / "trained"),
            "replace_listeners": ["model.tok2vec"],
        }
    }
    sourced = spacy.util.load_model_from_config(config)
    assert sourced.pipe_names == ["tagger"]
    assert numpy.allclose(scores(sourced), expected, atol=1e-5)
    sourced.to_disk(tmp_path / "sourced")
    assert numpy.allclose(scores(spacy.load(tmp_path / "sourced")), expected, atol=1e-5)


def test_a_replaced_listener_needs_no_block_of_the_removed_pipe(make_nlp, tmp_path):
    config = {"nlp": {"lang": "xx", "pipeline": ["elmo", "tagger"]}}
    config["components"] = {
        "elmo": {"factory": "elmo", **make_nlp(lang="xx").get_pipe_config("elmo")},
        "tagger": {"factory": "tagger"},
    }
    config["components"]["elmo"]["model"]["width"] = WIDTH
    tok2vec = {**JOINED, "width": "${components.elmo.model.width}"}
    config["components"]["tagger"]["model"] = {
        "@architectures": "spacy.Tagger.v2",
        "tok2vec": tok2vec,
    }
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    train(nlp, steps=2)
    expected = scores(nlp)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    assert numpy.allclose(scores(spacy.load(tmp_path)), expected, atol=1e-5)


def in_embed(embed):
    encode = {**JOINED["encode"], "width": WIDTH}
    return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}


def test_a_listener_deep_in_the_model_is_replaced_with_its_mix(make_nlp, tmp_path):
    nlp = make_nlp(lang="xx")
    mix = {"@architectures": "spacy-elmo.ScalarMix.v1", "layer_weights": "top"}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": in_embed({**LISTENER, "mix": mix})}})
    train(nlp, steps=2)
    expected = scores(nlp)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec.embed"])
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    for replaced in (nlp, spacy.load(tmp_path)):
        assert numpy.allclose(scores(replaced), expected, atol=1e-5)


PATHS = ["model.tok2vec.embed.*.a", "model.tok2vec.embed.*.b"]


@pytest.mark.parametrize("paths", [PATHS, PATHS[::-1]], ids=["in order", "reversed"])
def test_two_listeners_of_one_component_are_replaced_each_with_its_mix(make_nlp, paths, tmp_path):
    nlp = make_nlp(lang="xx")
    mix = {"@architectures": "spacy-elmo.ScalarMix.v1", "layer_weights": "top"}
    both = {"a": {**LISTENER, "mix": mix}, "b": LISTENER}
    tok2vec = in_embed({"@layers": "concatenate.v1", "*": both})
    tok2vec["encode"]["width"] = 2 * WIDTH
    nlp.add_pipe("tagger", config={"model": {"tok2vec": tok2vec}})
    train(nlp, steps=2)
    expected = scores(nlp)
    nlp.replace_listeners("elmo", "tagger", paths)
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path)
    for replaced in (nlp, spacy.load(tmp_path)):
        assert numpy.allclose(scores(replaced), expected, atol=1e-5)


def test_a_path_that_is_no_listener_is_named_and_changes_nothing(make_nlp):
    nlp = make_nlp(lang="xx")
    nlp.add_pipe("tagger", config={"model": {"tok2vec": in_embed(LISTENER)}})
    train(nlp, steps=2)
    config, expected = nlp.get_pipe_config("tagger").copy(), scores(nlp)
    for path in ("model.tok2vec", "model.tok2vec.encode", "model.tok2vec.encode.width"):
        with pytest.raises(ValueError, match=r"no listener.*paths 'model\.tok2vec\.embed'"):
            nlp.replace_listeners("elmo", "tagger", [path])
        assert nlp.get_pipe_config("tagger") == config
        assert nlp.get_pipe("elmo").listening_components == ["tagger"]
        assert numpy.array_equal(scores(nlp), expected)
