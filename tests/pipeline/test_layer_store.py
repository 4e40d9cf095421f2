"""Layers of a frozen biLM are computed once while components train, and read from then on."""

import pickle
import random

import numpy
import pytest
import spacy
import torch
from spacy.tokens import Doc
from spacy.training import Example

from spacy_elmo import BiLM
from spacy_elmo.models.elmo import settings_of

from ..conftest import random_bilm
from .conftest import TRAIN_DATA, bilm_of, make_examples

MEMORY = {"@misc": "spacy-elmo.MemoryStore.v1"}
#: Beside the training data, in every epoch.
ODD_DOCS = [[], [" "], ["Rome"], ["\n", "Ana", " ", " ", "likes", "Rome"], ["\n", "\n"]]

N_WORDS = sum(len(text.split()) for text, _ in TRAIN_DATA) + len(["Rome", "Ana", "likes", "Rome"])


@pytest.fixture
def words_read(monkeypatch):
    """The words that biLMs are given, call by call."""
    calls = []
    original = BiLM.iter_embed

    def iter_embed(self, sentences, **kwargs):
        calls.append([word for sentence in sentences for word in sentence])
        return original(self, sentences, **kwargs)

    monkeypatch.setattr(BiLM, "iter_embed", iter_embed)
    return calls


@pytest.fixture(params=["memory", "disk", "float16"])
def store_block(request, tmp_path):
    if request.param == "disk":
        return {"@misc": "spacy-elmo.DiskStore.v1", "folder": str(tmp_path / "layers")}
    dtype = "float16" if request.param == "float16" else "float32"
    return {**MEMORY, "dtype": dtype}


def all_examples(nlp):
    odd = [
        Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, tags=["N"] * len(words)))
        for words in ODD_DOCS
    ]
    return [*make_examples(nlp), *odd]


def start(nlp):
    spacy.util.fix_random_seed(0)
    return nlp.initialize(lambda: make_examples(nlp))


def epoch(nlp, optimizer, seed=None, **kwargs):
    """One epoch in two batches, each with odd Docs, shuffled by a seed."""
    examples = all_examples(nlp)
    if seed is not None:
        random.Random(seed).shuffle(examples)
    for batch in (examples[::2], examples[1::2]):
        nlp.update(batch, sgd=optimizer, **kwargs)


def weights(nlp):
    return nlp.get_pipe("tagger").model.to_bytes()


def count(calls):
    total = sum(map(len, calls))
    calls.clear()
    return total


def test_each_segment_is_read_once_in_whatever_order_it_comes(make_nlp, words_read, store_block):
    nlp = make_nlp("tagger", model={"layer_store": store_block})
    optimizer = start(nlp)
    count(words_read)
    epoch(nlp, optimizer, seed=0)
    assert count(words_read) == N_WORDS
    for seed in range(1, 4):
        epoch(nlp, optimizer, seed=seed)
    assert count(words_read) == 0


def test_training_is_the_same_bit_for_bit_as_without_a_store(make_nlp, tmp_path):
    blocks = [None, MEMORY, {"@misc": "spacy-elmo.DiskStore.v1", "folder": str(tmp_path)}]
    trained = []
    for block in blocks:
        nlp = make_nlp("tagger", model={"layer_store": block})
        optimizer = start(nlp)
        for _ in range(4):
            epoch(nlp, optimizer)
        trained.append((weights(nlp), nlp("Ana likes blue ham").tensor))
    assert trained[0][0] == trained[1][0] == trained[2][0]
    assert numpy.array_equal(trained[0][1], trained[1][1])
    assert numpy.array_equal(trained[0][1], trained[2][1])


def test_float16_trains_nearly_the_same(make_nlp):
    losses = []
    for dtype in ("float32", "float16"):
        nlp = make_nlp("tagger", model={"layer_store": {**MEMORY, "dtype": dtype}})
        optimizer = start(nlp)
        found = {}
        for _ in range(6):
            epoch(nlp, optimizer, losses=found)
        losses.append(found["tagger"])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_hits_are_what_was_computed_first(make_nlp):
    """Also beside other Docs, where computing anew would round in another way."""
    nlp = make_nlp("tagger")
    start(nlp)
    elmo, examples = nlp.get_pipe("elmo"), all_examples(nlp)
    docs = [example.predicted for example in examples]
    first, _ = elmo.model.begin_update(docs)
    for number, doc in enumerate(docs):
        again, _ = elmo.model.begin_update([doc.copy()])
        assert again[0].dtype == first[number].dtype == numpy.float32
        assert numpy.array_equal(again[0], first[number])
        (expected,) = elmo.model.predict([doc])
        numpy.testing.assert_allclose(again[0], expected, atol=1e-5)


def test_annotating_components_fill_it(make_nlp, words_read):
    nlp = make_nlp("tagger")
    optimizer = start(nlp)
    count(words_read)
    totals = []
    for seed in range(4):
        epoch(nlp, optimizer, seed=seed, exclude=["elmo"], annotates=["elmo"])
        totals.append(count(words_read))
    # The first batch of all cannot know yet that something will train on it.
    assert totals[0] == N_WORDS and totals[1] < N_WORDS and totals[2:] == [0, 0]


def test_evaluation_reads_it_and_new_text_does_not_fill_it(make_nlp, words_read):
    nlp = make_nlp("tagger")
    optimizer = start(nlp)
    store = nlp.get_pipe("elmo").layer_store
    list(nlp.pipe(["Oslo likes blue eggs"] * 2))
    assert not store.is_open and store.n_bytes == 0
    epoch(nlp, optimizer)
    words_read.clear()
    dev = [Example.from_dict(nlp.make_doc(t), {}) for t in ("Ana in Oslo", "Two birds sang")]
    totals = []
    for _ in range(4):
        nlp.evaluate(dev)
        totals.append(count(words_read))
    assert totals == [6, 6, 0, 0]
    held = len(store)
    for number in range(50):
        nlp(f"New text number {number}")
    assert len(store) == held


def test_its_arrays_on_docs_are_their_own(make_nlp):
    nlp = make_nlp("tagger")
    optimizer = start(nlp)
    epoch(nlp, optimizer)
    for _ in range(3):
        doc, other = nlp.pipe([TRAIN_DATA[0][0]] * 2)
    doc._.elmo_layers[:] = 7.0
    doc.tensor[:] = 7.0
    assert not (other._.elmo_layers == 7.0).any()
    assert not (nlp(TRAIN_DATA[0][0])._.elmo_layers == 7.0).any()


def write_as_optimizers_do(nlp):
    """Past torch, into the memory of the weights."""
    for parameter in bilm_of(nlp).parameters():
        parameter.data.numpy()[...] *= 0.7


def write_by_torch(nlp):
    with torch.no_grad():
        bilm_of(nlp).forward_lstm.layers[1].projection_weight[0] += 0.5


def take_other_weights(nlp):
    module = nlp.get_pipe("elmo").model.layers[0].shims[0]._model
    module.take(random_bilm(seed=5), "a test")


def load_other_weights(nlp):
    other = random_bilm(seed=6)
    other.warm_up()
    bilm_of(nlp).load_state_dict(other.state_dict())


def warm_up_with_other_text(nlp):
    bilm_of(nlp).warm_up([["Other", "text", "."]])


def change_initial_state(nlp):
    settings_of(nlp.get_pipe("elmo").model).initial_state = "zero"


def change_through_a_file(nlp):
    other = spacy.blank("en")
    other.add_pipe("elmo", config={"model": {"source": bilm_of(nlp).config.to_dict()}})
    other.initialize()
    nlp.get_pipe("elmo").from_bytes(other.get_pipe("elmo").to_bytes())


CHANGES = [
    write_as_optimizers_do,
    write_by_torch,
    take_other_weights,
    load_other_weights,
    warm_up_with_other_text,
    change_initial_state,
    change_through_a_file,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_weights_empty_it(make_nlp, change):
    nlp = make_nlp("tagger")
    start(nlp)
    model, text = nlp.get_pipe("elmo").model, TRAIN_DATA[1][0]
    docs = [nlp.make_doc(text)]
    (before,), _ = model.begin_update(docs)
    change(nlp)
    (after,), _ = model.begin_update(docs)
    state = settings_of(model).initial_state
    (expected,) = bilm_of(nlp).embed([text.split()], initial_state=state)
    numpy.testing.assert_allclose(after, expected, atol=1e-5)
    assert not numpy.allclose(before, after, atol=1e-4)
    assert len(nlp.get_pipe("elmo").layer_store) == 1


def test_a_bilm_that_learns_is_never_stored(make_nlp, words_read):
    nlp = make_nlp("tagger", frozen=False)
    optimizer = start(nlp)
    elmo = nlp.get_pipe("elmo")
    epoch(nlp, optimizer)
    assert not elmo.layer_store.is_open
    elmo.frozen = True
    epoch(nlp, optimizer)
    assert len(elmo.layer_store) > 0
    elmo.frozen = False
    epoch(nlp, optimizer)
    assert not elmo.layer_store.is_open


def test_it_is_never_saved_and_a_pickled_pipeline_begins_anew(make_nlp, tmp_path):
    nlp = make_nlp("tagger", model={"layer_store": {**MEMORY, "max_bytes": 12_345_678}})
    optimizer = start(nlp)
    size = len(nlp.to_bytes())
    for _ in range(2):
        epoch(nlp, optimizer)
    assert abs(len(nlp.to_bytes()) - size) < 100
    nlp.to_disk(tmp_path)
    copied = pickle.loads(pickle.dumps(nlp))
    for other in (spacy.load(tmp_path), copied):
        store = other.get_pipe("elmo").layer_store
        assert not store.is_open and len(store) == 0 and store.max_bytes == 12_345_678
        text = TRAIN_DATA[1][0]
        assert numpy.array_equal(other(text)._.elmo_layers, nlp(text)._.elmo_layers)
    epoch(copied, copied.create_optimizer())
    assert len(copied.get_pipe("elmo").layer_store) > 0


def test_replaced_listeners_have_a_store_of_their_own(make_nlp, words_read):
    nlp = make_nlp("tagger")
    optimizer = start(nlp)
    epoch(nlp, optimizer)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.remove_pipe("elmo")
    words_read.clear()
    epoch(nlp, optimizer)
    assert count(words_read) == N_WORDS
    epoch(nlp, optimizer)
    assert count(words_read) == 0


def test_initialize_gives_the_room_to_the_new_training(make_nlp):
    nlp = make_nlp("tagger")
    epoch(nlp, start(nlp))
    store = nlp.get_pipe("elmo").layer_store
    assert store.is_open
    start(nlp)
    assert not store.is_open and store.n_bytes == 0


def test_beyond_the_limit_layers_are_computed(make_nlp, words_read):
    nlp = make_nlp("tagger", model={"layer_store": {**MEMORY, "max_bytes": 5000}})
    full = make_nlp("tagger")
    optimizers = [start(nlp), start(full)]
    with pytest.warns(UserWarning, match="has reached its limit, max_bytes = 5,000"):
        epoch(nlp, optimizers[0])
    epoch(full, optimizers[1])
    assert 0 < len(nlp.get_pipe("elmo").layer_store) < len(full.get_pipe("elmo").layer_store)
    words_read.clear()
    epoch(nlp, optimizers[0])
    assert 0 < count(words_read) < N_WORDS
    epoch(full, optimizers[1])
    softmax, other = (p.get_pipe("tagger").model.get_ref("softmax") for p in (nlp, full))
    for name in ("W", "b"):
        assert softmax.get_param(name).any()
        numpy.testing.assert_allclose(
            softmax.get_param(name), other.get_param(name), rtol=1e-3, atol=1e-4
        )


def test_configs_show_its_settings(make_nlp):
    nlp = make_nlp()
    block = nlp.config["components"]["elmo"]["model"]["layer_store"]
    assert block == {**MEMORY, "max_bytes": 1 << 30, "dtype": "float32"}
    nlp = make_nlp("tagger", model={"layer_store": None})
    optimizer = start(nlp)
    epoch(nlp, optimizer)
    assert nlp.get_pipe("elmo").layer_store is None


def test_pipelines_of_one_process_do_not_share(make_nlp):
    left, right = make_nlp("tagger"), make_nlp("tagger", model={"initial_state": "zero"})
    for nlp in (left, right):
        epoch(nlp, start(nlp))
    doc = left.make_doc(TRAIN_DATA[0][0])
    layers = [nlp.get_pipe("elmo").model.begin_update([doc])[0][0] for nlp in (left, right)]
    assert not numpy.allclose(*layers, atol=1e-4)


@pytest.mark.slow
def test_processes_of_a_trained_pipeline_predict_the_same(make_nlp):
    import multiprocessing

    nlp = make_nlp("tagger")
    optimizer = start(nlp)
    for _ in range(2):
        epoch(nlp, optimizer)
    texts = [text for text, _ in TRAIN_DATA]
    method = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        docs = list(nlp.pipe(texts, n_process=2, batch_size=2))
    finally:
        multiprocessing.set_start_method(method, force=True)
    for doc, text in zip(docs, texts):
        numpy.testing.assert_allclose(doc.tensor, nlp(text).tensor, atol=1e-5)
