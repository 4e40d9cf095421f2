"""What the inference path does to be fast changes no vector."""

import copy
import pickle

import numpy
import pytest
import torch

from spacy_elmo.bilm import inference, lstm, recurrence, word_cache
from spacy_elmo.bilm.bilm import plan_batches
from spacy_elmo.bilm.fixed_weights import FixedLinear, fingerprint
from spacy_elmo.formats import load

from .. import oracle
from .test_embed import assert_close, make_sentence

pytestmark = pytest.mark.usefixtures("either_recurrence")

MANY = [make_sentence(number % 9 + 1, seed=number) for number in range(40)]


def count_encoded(bilm, monkeypatch):
    """All words that go through the token layer from now on."""
    encoded = []
    real = bilm.encode_words

    def encode_words(words):
        # A word may stand there again, to fill the group.
        encoded.extend(dict.fromkeys(words))
        return real(words)

    monkeypatch.setattr(bilm, "encode_words", encode_words)
    return encoded


@pytest.fixture(scope="module", params=[{}, {"dim": 8, "cell_clip": 0, "n_highway": 0}])
def checked(request, tmp_path_factory):
    """A biLM and the layers of many sentences as the oracle has them."""
    pytest.importorskip("h5py")
    options = oracle.make_options(**request.param)
    datasets = oracle.make_datasets(options)
    bilm = load(oracle.write_files(tmp_path_factory.mktemp("oracle"), options, datasets))
    layers = [oracle.embed_sentence(options, datasets, sentence)[0] for sentence in MANY]
    return bilm, layers


def test_every_batch_size_and_order_gives_what_the_oracle_gives(checked):
    bilm, layers = checked
    rng = numpy.random.default_rng(0)
    for size in range(1, 41):
        chosen = rng.permutation(len(MANY))[:size]
        found = bilm.embed([MANY[number] for number in chosen])
        assert_close(found, [layers[number] for number in chosen])


def test_words_that_are_kept_give_the_same(checked):
    bilm, layers = checked
    bilm.word_cache.max_words = 0
    assert_close(bilm.embed(MANY), layers)
    assert len(bilm.word_cache) == 0
    bilm.word_cache.max_words = word_cache.MAX_WORDS
    assert_close(bilm.embed(MANY), layers)
    kept = len(bilm.word_cache)
    # What follows the marks is kept elsewhere.
    assert kept == len({word for sentence in MANY for word in sentence})
    assert_close(bilm.embed(MANY), layers)
    assert len(bilm.word_cache) == kept


def test_a_word_is_encoded_once(bilm, monkeypatch):
    encoded = count_encoded(bilm, monkeypatch)
    for _ in range(3):
        bilm.embed([["the", "bank", "the"], ["a", "bank"]])
    assert sorted(encoded) == ["</S>", "<S>", "a", "bank", "the"]


def test_a_words_vector_has_the_same_bits_whatever_it_is_encoded_with(make_bilm):
    together, alone = make_bilm(), make_bilm()
    words = [f"word{number}" for number in range(100)]
    together.embed([words])
    for word in words[::7]:
        (of_cache,), (of_itself,) = together.embed([[word]]), alone.embed([[word]])
        numpy.testing.assert_array_equal(of_cache[0], of_itself[0])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_compiled_layers_have_the_same_bits_in_any_batch(make_bilm, initial_state, precision):
    if lstm.find_variant(getattr(torch, precision), torch.device("cpu")) is None:
        pytest.skip(f"torch forms the products of {precision} here")
    options = {"initial_state": initial_state, "precision": precision}
    alone = [make_bilm().embed([sentence], **options)[0] for sentence in MANY]
    rng = numpy.random.default_rng(0)
    for size in (2, 7, 40):
        chosen = rng.permutation(len(MANY))[:size]
        found = make_bilm().embed([MANY[number] for number in chosen], **options)
        for number, layers in zip(chosen, found):
            numpy.testing.assert_array_equal(layers, alone[number])


@pytest.mark.parametrize("max_words", [1, 3, 7])
def test_the_cache_is_bounded(bilm, max_words):
    expected = [bilm.embed([sentence])[0] for sentence in MANY]
    bilm.word_cache.max_words = max_words
    bilm.word_cache.clear()
    for sentence, layers in zip(MANY, expected):
        assert_close(bilm.embed([sentence]), [layers])
        assert len(bilm.word_cache) <= max_words
    assert_close(bilm.embed(MANY), expected)


def test_frequent_words_are_back_after_the_cache_was_full(bilm, monkeypatch):
    bilm.word_cache.max_words = 4
    bilm.embed([["a", "b"]])  # and the two marks
    bilm.embed([["a", "c"]])
    encoded = count_encoded(bilm, monkeypatch)
    bilm.embed([["a", "c"]])
    assert "a" not in encoded and "c" not in encoded


def change_in_place(bilm, parameter):
    with torch.no_grad():
        parameter.mul_(1.5)


def change_by_loading(bilm, parameter):
    state = {name: value.clone() for name, value in bilm.state_dict().items()}
    (name,) = [name for name, value in bilm.named_parameters() if value is parameter]
    state[name] *= 1.5
    bilm.load_state_dict(state)


def change_new_data(bilm, parameter):
    parameter.data = parameter.data * 1.5


def change_by_gradient(bilm, parameter):
    # thinc's optimizer works on ``.data``, of which torch does not count the changes.
    outputs, _ = bilm([["the", "bank"]])
    sum(output.sum() for output in outputs).backward()
    bilm.embed([["the", "bank"]])
    parameter.data.mul_(1.5)


def change_by_a_fused_optimizer(bilm, parameter):
    # torch does not count its changes either, and the gradient is gone afterwards.
    optimizer = torch.optim.AdamW([parameter], lr=0.3, fused=True)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


CHANGES = [
    change_in_place,
    change_by_loading,
    change_new_data,
    change_by_gradient,
    change_by_a_fused_optimizer,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "name", ["token_layer.projection.bias", "backward_lstm.layers.1.state_weight"]
)
def test_changed_weights_give_new_vectors(make_bilm, change, name):
    bilm = make_bilm(scale=1.0)
    before = bilm.embed(MANY)
    change(bilm, bilm.get_parameter(name))
    fresh = make_bilm(scale=1.0)
    fresh.load_state_dict(bilm.state_dict())
    after = bilm.embed(MANY)
    assert_close(after, fresh.embed(MANY))
    assert numpy.abs(after[5] - before[5]).max() > 1e-3


@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
def test_weights_are_arranged_once(bilm, initial_state, monkeypatch):
    made = []
    for kind in (lstm.Recurrence, lstm.CompiledRecurrence):
        real = kind.__init__

        def init(self, *args, real=real, **kwargs):
            made.append(self)
            real(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", init)
    bilm.warm_up()
    made.clear()
    for _ in range(3):
        bilm.embed(MANY, initial_state=initial_state)
    # By whoever arranged them: warm_up, or the first of these calls.
    assert len(made) <= 4


def test_copies_and_pickles_hold_nothing_that_is_kept(bilm):
    empty = len(pickle.dumps(bilm))
    expected = bilm.embed(MANY)
    assert len(bilm.word_cache) > 5
    assert len(pickle.dumps(bilm)) == empty
    for other in (copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm))):
        assert len(other.word_cache) == 0
        assert_close(other.embed(MANY), expected)
    assert not [name for name in bilm.state_dict() if "cache" in name or "start" in name]


def test_a_warm_state_that_changes_is_seen(bilm):
    first = bilm.embed(MANY[:1], initial_state="warm")[0]
    bilm.warm_up([["the", "river"] * 5])
    second = bilm.embed(MANY[:1], initial_state="warm")[0]
    assert numpy.abs(first - second).max() > 1e-4
    marked, _ = bilm(MANY[:1], bilm.initial_states("warm", 1))
    assert_close([second], [marked[0].detach().numpy()])


def test_no_padding_is_read(bilm, monkeypatch):
    """What memory holds before it is written would spoil all that reads it."""
    expected = bilm.embed(MANY)
    real = torch.Tensor.new_empty

    def poisoned(tensor, *size, **kwargs):
        found = real(tensor, *size, **kwargs)
        return found.fill_(float("nan")) if found.is_floating_point() else found

    def empty_like(tensor, **kwargs):
        value = float("nan") if tensor.is_floating_point() else 0
        return torch.full_like(tensor, value, **kwargs)

    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned)
    monkeypatch.setattr(recurrence.torch, "empty_like", empty_like)
    bilm.word_cache.clear()
    found = bilm.embed(MANY)
    monkeypatch.undo()
    assert_close(found, expected)


@pytest.mark.parametrize("max_positions", [1, 5, 1024])
def test_blocks_of_positions_change_nothing(bilm, max_positions, monkeypatch):
    expected = bilm.embed(MANY)
    monkeypatch.setattr(recurrence, "POSITIONS_A_PRODUCT", max_positions)
    assert_close(bilm.embed(MANY), expected)


def test_not_too_many_sentences_run_side_by_side():
    batches = list(plan_batches([["a"]] * 300, 4096))
    assert [len(batch) for batch in batches] == [128, 128, 44]
    assert max(map(len, batches)) == inference.MAX_SENTENCES


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_fixed_linear_layer_is_a_linear_layer(is_packed, monkeypatch):
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: is_packed)
    weight, bias, x, more = (torch.randn(*shape) for shape in ((6, 4), (6,), (3, 4), (3, 6)))
    fixed = FixedLinear(weight, bias)
    torch.testing.assert_close(fixed(x), x @ weight.t() + bias)
    torch.testing.assert_close(FixedLinear(weight)(x, add=more), x @ weight.t() + more)


def test_without_packed_products_the_vectors_are_the_same(make_bilm, monkeypatch):
    expected = make_bilm().embed(MANY)
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
    assert_close(make_bilm().embed(MANY), expected)


def test_a_fingerprint_tells_tensors_made_in_inference_mode():
    with torch.inference_mode():
        tensor = torch.ones(3)
        before = fingerprint([tensor])
        assert fingerprint([tensor]) == before
        tensor.add_(1)
    assert fingerprint([tensor]) != before
