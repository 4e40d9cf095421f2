"""What a user gets from the elmo component in prediction. Numbers of pitfalls are those of the
collection of what broke for users of other tools."""

import subprocess
import sys
import warnings

import numpy
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from .conftest import LISTENER, TEXTS, TRAIN_DATA, WIDTH, bilm_of, make_examples, train

TOLERANCE = 1e-5


def test_vectors_are_on_doc_token_and_span(make_nlp):
    doc = make_nlp()(TEXTS[1])
    assert doc.tensor.shape == (len(doc), WIDTH)
    assert doc.tensor.dtype == numpy.float32
    assert numpy.array_equal(doc[5].vector, doc.tensor[5])
    assert numpy.allclose(doc[2:5].vector, doc.tensor[2:5].mean(axis=0), atol=1e-6)
    assert numpy.allclose(doc.vector, doc.tensor.mean(axis=0), atol=1e-6)


def test_vectors_are_those_of_the_bilm(make_nlp):
    nlp = make_nlp(store_layers=True)
    doc = nlp(TEXTS[1])
    (layers,) = bilm_of(nlp).embed([[t.text for t in doc]], initial_state="warm")
    assert numpy.allclose(doc._.elmo_layers, layers, atol=TOLERANCE)
    assert numpy.allclose(doc.tensor, layers.mean(axis=0), atol=TOLERANCE)


@pytest.mark.parametrize(
    "choice,expected_weights",
    [("top", [0, 0, 1]), (0, [1, 0, 0]), ("average", [1 / 3] * 3), ([0.2, 0.3, 0.4], None)],
)
@pytest.mark.parametrize("store_layers", [False, True])
def test_the_mix_of_the_tensor_is_a_setting(make_nlp, choice, expected_weights, store_layers):
    doc = make_nlp(layer_weights=choice, store_layers=store_layers)(TEXTS[1])
    layers = make_nlp(store_layers=True)(TEXTS[1])._.elmo_layers
    expected = numpy.tensordot(expected_weights or choice, layers, axes=(0, 0))
    assert numpy.allclose(doc.tensor, expected, atol=TOLERANCE)


def test_without_a_source_the_first_use_says_how_to_give_one():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"source": None}})
    for use in (lambda: nlp("Hello"), nlp.initialize):
        with pytest.raises(ValueError, match='"source": "path/to/weights".*spacy elmo train'):
            use()


def test_pitfall_24_a_fresh_process_finds_the_factory():
    code = "import spacy; print(spacy.blank('en').add_pipe('elmo').name)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "elmo", result.stderr


# The same text gives the same vectors (pitfalls 1, 2)


def test_pitfall_1_vectors_do_not_depend_on_what_came_before(make_nlp):
    nlp = make_nlp()
    first = nlp(TEXTS[0]).tensor
    nlp(TEXTS[1])
    assert numpy.array_equal(nlp(TEXTS[0]).tensor, first)
    piped = [doc.tensor for doc in nlp.pipe([TEXTS[0], TEXTS[1], TEXTS[0]])]
    assert numpy.allclose(piped[0], first, atol=TOLERANCE)
    assert numpy.allclose(piped[2], first, atol=TOLERANCE)


@pytest.mark.parametrize("batch_size", [1, 2, 8])
@pytest.mark.parametrize("initial_state", ["zero", "warm"])
@pytest.mark.parametrize("batch_tokens", [1, 20, 4096])
def test_pitfall_2_vectors_do_not_depend_on_neighbours(
    make_nlp, batch_size, initial_state, batch_tokens
):
    nlp = make_nlp(model={"initial_state": initial_state, "batch_tokens": batch_tokens})
    texts = ["Yes", "a b c", "the river " * 20, "", "a b c"]
    alone = [nlp(text).tensor for text in texts]
    for order in (1, -1):
        docs = list(nlp.pipe(texts[::order], batch_size=batch_size))
        for doc, tensor in zip(docs, alone[::order]):
            assert numpy.abs(doc.tensor - tensor).max(initial=0) < TOLERANCE


def test_sentences_are_read_apart_and_windows_where_there_are_none(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("sentencizer", before="elmo")
    both = nlp("The river rose . A bank closed .")
    alone = nlp("A bank closed .")
    assert numpy.allclose(both.tensor[4:], alone.tensor, atol=TOLERANCE)
    unsplit = make_nlp()("The river rose . A bank closed .")
    assert not numpy.allclose(unsplit.tensor[4:], alone.tensor, atol=1e-3)


# Odd input (pitfalls 3, 4)


def test_pitfall_3_empty_docs(make_nlp):
    nlp = make_nlp()
    assert nlp("").tensor.shape == (0, WIDTH)
    assert [doc.tensor.shape for doc in nlp.pipe(["", ""])] == [(0, WIDTH)] * 2
    empty, full = nlp.pipe(["", "A b ."])
    assert empty.tensor.shape == (0, WIDTH)
    assert numpy.allclose(full.tensor, nlp("A b .").tensor, atol=TOLERANCE)


def test_pitfall_4_whitespace_and_odd_tokens(make_nlp):
    nlp = make_nlp()
    texts = [
        "I am Ana" + " \n " * 300 + "I am Ana",
        "\n\n",
        "x" * 500 + " y",
        "\N{GRINNING FACE}" * 60,
        "<S> </S> <UNK> <pad>",
        "a\x00b \ufffd \u202e",
    ]
    for doc in nlp.pipe(texts):
        assert doc.tensor.shape == (len(doc), WIDTH)
        assert numpy.isfinite(doc.tensor).all()
    spaced = nlp(texts[0])
    assert not spaced.tensor[[t.i for t in spaced if t.is_space]].any()
    words = [t.i for t in spaced if not t.is_space]
    plain = nlp("I am Ana I am Ana")
    assert numpy.allclose(spaced.tensor[words], plain.tensor, atol=TOLERANCE)


def test_lone_surrogates_stop_at_spacy_or_give_vectors(make_nlp):
    nlp = make_nlp()
    # spaCy keeps strings as UTF-8 and refuses such text itself; nothing is half done after that.
    with pytest.raises(UnicodeEncodeError):
        nlp("a \ud800 b")
    assert nlp("a b").tensor.shape == (2, WIDTH)
    (layers,) = bilm_of(nlp).embed([["a", "\ud800", "b"]])
    assert numpy.isfinite(layers).all()


def test_words_that_spell_marks_follow_the_convention_of_the_published_weights(make_nlp):
    nlp = make_nlp(store_layers=True)
    words = ["<S>", "<pad>", "<UNK>", "[PAD]", "x"]
    doc = nlp(Doc(nlp.vocab, words=words))
    (layers,) = bilm_of(nlp).embed([words], initial_state="warm")
    assert numpy.allclose(doc._.elmo_layers, layers, atol=TOLERANCE)
    rows = layers[0]
    assert all(not numpy.allclose(rows[i], rows[j]) for i in range(5) for j in range(i))


# What is kept on Docs (pitfalls 14, 25)


def test_layers_are_kept_only_where_something_listens_or_asks(make_nlp):
    assert make_nlp()("A b")._.elmo_layers is None
    assert make_nlp(store_layers=True)("A b")._.elmo_layers.shape == (3, 2, WIDTH)
    nlp = make_nlp("tagger")
    train(nlp, steps=1)
    assert nlp("A b")._.elmo_layers.shape == (3, 2, WIDTH)
    nlp.get_pipe("elmo").store_layers = False
    assert nlp("A b")._.elmo_layers is None


def test_pitfall_14_arrays_are_plain_and_own_their_memory(make_nlp):
    for doc in make_nlp(store_layers=True).pipe(TEXTS):
        for array in (doc.tensor, doc._.elmo_layers):
            assert type(array) is numpy.ndarray
            base = array if array.base is None else array.base
            assert base.nbytes == array.nbytes


def test_pitfall_25_doc_bytes_keep_vectors_and_docbin_drops_the_tensor(make_nlp):
    nlp = make_nlp(store_layers=True)
    doc = nlp(TEXTS[0])
    loaded = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert numpy.array_equal(loaded.tensor, doc.tensor)
    assert numpy.array_equal(loaded._.elmo_layers, doc._.elmo_layers)
    binned = DocBin(store_user_data=True, docs=[doc])
    (unbinned,) = DocBin().from_bytes(binned.to_bytes()).get_docs(nlp.vocab)
    assert not unbinned.tensor.size
    assert numpy.array_equal(unbinned._.elmo_layers, doc._.elmo_layers)


def test_layers_can_be_cleaned(make_nlp):
    nlp = make_nlp("tagger")
    train(nlp, steps=1)
    nlp.add_pipe("doc_cleaner", config={"attrs": {"_.elmo_layers": None}})
    doc = nlp("A b")
    assert doc._.elmo_layers is None and doc[0].tag_


def test_a_second_run_replaces_vectors_and_the_cached_average(make_nlp):
    doc = make_nlp(layer_weights="top")("A b")
    assert doc.vector.any() and doc.vector_norm
    doc = make_nlp(layer_weights=0).get_pipe("elmo")(doc)
    assert numpy.allclose(doc.vector, doc.tensor.mean(axis=0), atol=1e-6)
    assert doc.vector_norm == pytest.approx(float(numpy.linalg.norm(doc.vector)), rel=1e-5)


# Listeners


def test_retokenizing_after_elmo_gives_listeners_right_vectors(make_nlp):
    nlp = make_nlp("tagger")
    train(nlp, steps=5)
    doc = nlp.get_pipe("elmo")(nlp.make_doc("New York is big"))
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    with pytest.warns(UserWarning, match="tokens of a Doc changed after 'elmo' ran"):
        scores = nlp.get_pipe("tagger").model.predict([doc])
    fresh = Doc(nlp.vocab, words=["New York", "is", "big"])
    expected = nlp.get_pipe("tagger").model.predict([nlp.get_pipe("elmo")(fresh)])
    assert numpy.allclose(scores[0], expected[0], atol=TOLERANCE)


def test_retokenizing_that_keeps_the_count_is_noticed_too(make_nlp):
    nlp = make_nlp("tagger")
    train(nlp, steps=1)
    doc = nlp.get_pipe("elmo")(nlp.make_doc("New York cannot"))
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
        retokenizer.split(doc[2], ["can"], [(doc[2], 0)]) if len(doc[2]) == 3 else None
    with pytest.warns(UserWarning, match="tokens of a Doc changed"):
        nlp.get_pipe("tagger").model.predict([doc])


def test_a_relative_source_stays_where_it_was(weights, tmp_path, monkeypatch):
    monkeypatch.chdir(weights.parent)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"source": weights.name}})
    monkeypatch.chdir(tmp_path)
    assert nlp("A b").tensor.shape == (2, WIDTH)


def test_an_empty_source_is_named():
    with pytest.raises(ValueError, match="source is ''; expected the path of weights"):
        spacy.blank("en").add_pipe("elmo", config={"model": {"source": ""}})


def test_a_source_that_cannot_be_read_names_its_setting(make_nlp, tmp_path):
    gone = rf"^\[components.elmo.model\] source is '{tmp_path}/gone': .* does not exist"
    with pytest.raises(FileNotFoundError, match=gone):
        make_nlp(model={"source": f"{tmp_path}/gone"})("A b")
    empty = rf"^\[components.elmo.model\] source is '{tmp_path}': No biLM found"
    with pytest.raises(ValueError, match=empty):
        make_nlp(model={"source": str(tmp_path)})("A b")
    nlp = make_nlp()
    nlp.config["initialize"]["components"] = {"elmo": {"source": f"{tmp_path}/gone"}}
    setting = r"^\[initialize.components.elmo\] source is '.*gone': "
    with pytest.raises(FileNotFoundError, match=setting):
        nlp.initialize(lambda: make_examples(nlp))
    nlp.config["initialize"]["components"] = {"elmo": {"source": ""}}
    with pytest.raises(
        ValueError, match=r"^\[initialize.components.elmo\] source is '': .* is ''; "
    ):
        nlp.initialize(lambda: make_examples(nlp))


@pytest.mark.parametrize("source", ["~nobody-of-this-name/weights", "x" * 5000])
def test_a_source_that_can_be_no_path_names_its_setting(make_nlp, source):
    nlp = make_nlp(model={"source": source})
    with pytest.raises(OSError, match=r"^\[components.elmo.model\] source is '"):
        nlp("A b")


def test_a_source_without_permission_names_its_setting(make_nlp, monkeypatch):
    def refused(source):
        raise PermissionError(13, "Permission denied", "weights.th")

    nlp = make_nlp()
    monkeypatch.setattr("spacy_elmo.models.encoder.load", refused)
    match = r"^\[components.elmo.model\] source is '.*': .*Permission denied: 'weights.th'"
    with pytest.raises(PermissionError, match=match):
        nlp("A b")


def test_a_width_that_differs_names_component_and_setting(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("tagger", config={"model": {"tok2vec": {**LISTENER, "width": 10}}})
    match = f"'tagger' has an ElmoListener of width 10.*'elmo'.*width = {WIDTH}"
    with pytest.raises(ValueError, match=match):
        nlp.initialize(lambda: make_examples(nlp))


def test_a_width_that_the_source_does_not_have_names_the_setting(make_nlp):
    with pytest.raises(ValueError, match=rf"width {WIDTH} .*config says 10.*model\] width"):
        make_nlp(model={"width": 10})("A b")


def test_a_listener_before_the_pipe_says_so(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("tagger", config={"model": {"tok2vec": LISTENER}}, first=True)
    with pytest.raises(ValueError, match="no elmo component of that name stands before it"):
        nlp.initialize(lambda: make_examples(nlp))


def test_pitfall_17_two_pipes_and_their_listeners(make_nlp, weights, tmp_path):
    import torch

    from spacy_elmo import BiLM

    other = BiLM.from_pretrained(weights)
    with torch.no_grad():
        other.token_layer.char_embedding.weight.mul_(2)
    other.save_pretrained(tmp_path / "other")
    nlp = make_nlp()
    nlp.add_pipe("elmo", name="elmo_2", config={"model": {"source": str(tmp_path / "other")}})
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("tagger", config={"model": {"tok2vec": {**LISTENER, "upstream": "elmo"}}})
    nlp.add_pipe("tagger", "tagger_2", config={"model": {"tok2vec": {**LISTENER, "upstream": "*"}}})
    nlp.add_pipe("ner", config={"model": {"tok2vec": {
        "@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "*"}}})  # fmt: skip
    assert nlp.get_pipe("tok2vec").listening_components == ["ner"]
    assert "ner" not in nlp.get_pipe("elmo").listening_components
    train(nlp, steps=2)
    doc = nlp("A b c")
    assert not numpy.allclose(doc._.elmo_layers, doc._.elmo_2_layers)
    # The wildcard means the nearest elmo pipe before the component.
    tagger, nearest = nlp.get_pipe("tagger"), nlp.get_pipe("tagger_2")
    before = tagger.model.predict([doc])[0], nearest.model.predict([doc])[0]
    doc._.elmo_2_layers = doc._.elmo_layers
    assert numpy.array_equal(tagger.model.predict([doc])[0], before[0])
    assert not numpy.array_equal(nearest.model.predict([doc])[0], before[1])


def test_a_tok2vec_whose_vectors_would_be_overwritten_is_named(make_nlp):
    def build(set_tensor):
        nlp = make_nlp(set_tensor=set_tensor)
        nlp.add_pipe("tok2vec", first=True)
        nlp.add_pipe("tagger", config={"model": {"tok2vec": {
            "@architectures": "spacy.Tok2VecListener.v1", "width": 96}}})  # fmt: skip
        return nlp

    with pytest.raises(ValueError, match=r"'tagger' would read them.*set_tensor = false"):
        train(build(True), steps=1)
    nlp = build(False)
    train(nlp, steps=1)
    assert nlp("A b").tensor.shape == (2, 96)


def test_elmo_before_tok2vec_goes_well(make_nlp):
    nlp = make_nlp("tagger")
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("ner", config={"model": {"tok2vec": {
        "@architectures": "spacy.Tok2VecListener.v1", "width": 96}}})  # fmt: skip
    train(nlp, steps=2)
    doc = nlp(TRAIN_DATA[0][0])
    assert doc.tensor.shape[1] == 96 and doc._.elmo_layers.shape[2] == WIDTH


def test_disabling_elmo_does_not_make_wrong_vectors(make_nlp):
    nlp = make_nlp("tagger")
    train(nlp, steps=30)
    expected = [t.tag_ for t in nlp(TRAIN_DATA[1][0])]
    with nlp.select_pipes(disable=["elmo"]):
        assert [t.tag_ for t in nlp(TRAIN_DATA[1][0])] == expected


# The rest of spaCy's contracts


def test_random_weights_warn_unless_initialized(make_nlp):
    from ..conftest import TOY_SIZES

    nlp = make_nlp(model={"source": TOY_SIZES})
    with pytest.warns(UserWarning, match="has random weights"):
        nlp("A b")
    nlp = make_nlp(model={"source": TOY_SIZES})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.initialize()
        nlp("A b")


def test_sizes_that_cannot_be_are_named(make_nlp):
    with pytest.raises(ValueError, match="Unknown biLM setting 'cells'"):
        make_nlp(model={"source": {"cells": 3}})("A b")


@pytest.mark.parametrize(
    "config,match",
    [
        ({"layer_weights": "learned"}, "'learned', but no loss reaches doc.tensor"),
        ({"model": {"initial_state": "carry"}}, "initial_state"),
        ({"model": {"batch_tokens": 0}}, "batch_tokens"),
    ],
)
def test_settings_that_cannot_be_are_named(make_nlp, config, match):
    with pytest.raises(ValueError, match=match):
        make_nlp(**config)


def test_a_choice_of_layers_that_the_bilm_does_not_have_is_named(make_nlp):
    with pytest.raises(ValueError, match="'layer_weights' is 3.*has 3 layers, numbered from 0"):
        make_nlp(layer_weights=3)("A b")


def test_errors_reach_the_error_handler(make_nlp):
    nlp = make_nlp(layer_weights=3)
    seen = []
    nlp.set_error_handler(lambda name, proc, docs, error: seen.append((name, str(error))))
    assert list(nlp.pipe(["A b"])) == []
    assert seen and seen[0][0] == "elmo"


def test_static_vectors_win_for_token_vector_and_the_tensor_stays(make_nlp):
    nlp = make_nlp()
    nlp.vocab.set_vector("river", numpy.ones(7, dtype="float32"))
    doc = nlp("the river")
    assert doc[1].vector.shape == (7,)
    assert doc.tensor.shape == (2, WIDTH)


def test_analyze_pipes_knows_what_elmo_assigns(make_nlp):
    analysis = make_nlp().analyze_pipes()
    assert analysis["summary"]["elmo"]["assigns"] == ["doc.tensor", "doc._.elmo_layers"]


def test_labels_are_not_for_this_component(make_nlp):
    with pytest.raises(NotImplementedError, match="'elmo' has no labels"):
        make_nlp().get_pipe("elmo").add_label("X")
