"""Vectors are a function of the sentence alone, whatever stands beside it."""

import threading
import tracemalloc

import numpy
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_elmo.bilm import inference
from spacy_elmo.bilm.word_cache import WORDS_A_STEP

pytestmark = pytest.mark.usefixtures("either_recurrence")

ATOL = 1e-5


def make_sentence(length, seed=0):
    rng = numpy.random.default_rng(seed)
    words = ["the", "bank", "of", "a", "river", "Übermut", "銀行", "x" * 70, "<S>", "."]
    return [words[number] for number in rng.integers(len(words), size=length)]


SENTENCES = [make_sentence(length, seed=length) for length in (1, 3, 40)]


def assert_close(found, expected, atol=ATOL):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert one.shape == other.shape
        numpy.testing.assert_allclose(one, other, atol=atol, rtol=0)


@pytest.fixture(params=[{}, {"n_layers": 3, "use_skip_connections": False, "cell_size": 12}])
def any_bilm(request, make_bilm):
    return make_bilm(**request.param)


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
@pytest.mark.parametrize("batch_tokens", [1, 7, 4096])
def test_alone_together_reversed(any_bilm, initial_state, batch_tokens):
    options = {"initial_state": initial_state, "batch_tokens": batch_tokens}
    alone = [any_bilm.embed([sentence], initial_state=initial_state)[0] for sentence in SENTENCES]
    assert_close(any_bilm.embed(SENTENCES, **options), alone)
    assert_close(any_bilm.embed(SENTENCES[::-1], **options)[::-1], alone)
    many = [make_sentence(length % 13, seed=length) for length in range(30)]
    assert_close(any_bilm.embed([*many, *SENTENCES, *many], **options)[30:33], alone)
    # After any other text, too.
    assert_close(any_bilm.embed(SENTENCES, **options), alone)


def test_directions_see_their_own_side_only(bilm):
    words = make_sentence(10)
    changed_end, changed_start = [*words[:-1], "other"], ["other", *words[1:]]
    base, end, start = bilm.embed([words, changed_end, changed_start])
    half = bilm.width // 2
    # The forward half of a word knows nothing of what follows, the backward half nothing of
    # what went before.
    assert_close([end[:, :-1, :half]], [base[:, :-1, :half]])
    assert_close([start[:, 1:, half:]], [base[:, 1:, half:]])
    # Every layer above the token layer knows the rest.
    assert (numpy.abs(end[1:, :-1, half:] - base[1:, :-1, half:]).max(axis=(1, 2)) > 1e-3).all()
    assert (numpy.abs(start[1:, 1:, :half] - base[1:, 1:, :half]).max(axis=(1, 2)) > 1e-3).all()


def test_nothing_leaks_from_a_neighbour(bilm):
    # A neighbour whose vectors are not numbers would spoil whatever it touches.
    expected = bilm.embed(SENTENCES)
    with torch.no_grad():
        bilm.token_layer.char_embedding.weight[ord("#")] = float("nan")
    neighbours = [["#"] * length for length in (1, 2, 50)]
    found = bilm.embed([neighbours[0], *SENTENCES, *neighbours[1:]])
    assert numpy.isnan(found[0]).all()
    assert_close(found[1:4], expected)


def test_token_layer_is_the_same_twice(bilm):
    (layers,) = bilm.embed([["bank", "x", "bank"]])
    half = bilm.width // 2
    numpy.testing.assert_array_equal(layers[0, :, :half], layers[0, :, half:])
    numpy.testing.assert_array_equal(layers[0, 0], layers[0, 2])
    # The context makes the difference.
    assert numpy.abs(layers[1:, 0] - layers[1:, 2]).max() > 1e-3


@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
def test_empty_sentences(bilm, initial_state):
    sentence = SENTENCES[1]
    found = bilm.embed([[], sentence, [], []], initial_state=initial_state)
    for number in (0, 2, 3):
        assert found[number].shape == (3, 0, bilm.width)
        assert found[number].dtype == numpy.float32
    assert_close([found[1]], bilm.embed([sentence], initial_state=initial_state))
    assert bilm.embed([], initial_state=initial_state) == []
    assert bilm.embed([[]], initial_state=initial_state)[0].shape == (3, 0, bilm.width)


@pytest.mark.parametrize(
    "sentences, message",
    [
        (["The river"], r"Sentence 0 is 'The river'; expected a list of words. Split text"),
        ([["a"], "b"], r"Sentence 1 is 'b'; expected a list of words"),
        ("text", r"The sentences are 'text'; expected a list of lists of words"),
        (None, r"The sentences are None; expected a list of lists of words"),
        ([5], r"Sentence 0 is 5; expected a list of words"),
        ([["a", 5]], r"Sentence 0 is \['a', 5\]; expected a list of words"),
        ([["a"], [b"a"]], r"Sentence 1 is \[b'a'\]; expected a list of words"),
        ([["a", None]], r"Sentence 0 is \['a', None\]; expected a list of words"),
    ],
)
def test_what_is_no_list_of_words(bilm, sentences, message):
    with pytest.raises(ValueError, match=message):
        bilm.embed(sentences)


def test_any_iterables_of_words_do(bilm):
    expected = bilm.embed([["a", "b"], ["c", "d"]])
    for sentences in (
        (("a", "b"), ("c", "d")),
        numpy.array([["a", "b"], ["c", "d"]]),
        (iter(words) for words in (["a", "b"], ["c", "d"])),
    ):
        found = bilm.embed(sentences)
        assert all(numpy.array_equal(x, y) for x, y in zip(found, expected)) and len(found) == 2


def test_wrong_arguments(bilm):
    with pytest.raises(ValueError, match=r"initial_state is 'cold'; expected one of zero, warm, c"):
        bilm.embed([["a"]], initial_state="cold")
    with pytest.raises(ValueError, match=r"batch_tokens is 0; expected 1 or more"):
        bilm.embed([["a"]], batch_tokens=0)
    with pytest.raises(ValueError, match=r"2 layer weights were given; this biLM has 3 layers"):
        list(bilm.iter_embed([["a"]], layer_weights=[1.0, 2.0]))


@pytest.mark.parametrize("weights", [[0.2, -1.5, 3.0], [0, 0, 1], numpy.array([1, 2, 3])])
@pytest.mark.parametrize("batch_tokens", [7, 4096])
def test_layer_weights_give_the_weighted_sum(bilm, weights, batch_tokens):
    sentences = [[], *SENTENCES]
    found = dict(bilm.iter_embed(sentences, layer_weights=weights, batch_tokens=batch_tokens))
    expected = [numpy.tensordot(weights, layers, 1) for layers in bilm.embed(sentences)]
    assert_close([found[number] for number in range(len(sentences))], expected)
    assert all(array.dtype == numpy.float32 for array in found.values())


def test_weights_of_one_layer_give_exactly_that_layer(bilm):
    (layers,) = bilm.embed(SENTENCES[2:])
    ((_, top),) = bilm.iter_embed(SENTENCES[2:], layer_weights=[0, 0, 1])
    numpy.testing.assert_array_equal(top, layers[2])


def test_arrays_are_copies_of_their_own(bilm):
    # A view would keep the layers of the whole sub-batch in memory.
    for array in bilm.embed(SENTENCES):
        base = array if array.base is None else array.base
        assert torch.as_tensor(base).untyped_storage().nbytes() == array.nbytes


def test_forward_gives_gradients_to_every_parameter(make_bilm):
    bilm = make_bilm(scale=1.5)
    outputs, state = bilm(SENTENCES)
    assert [tuple(output.shape) for output in outputs] == [(3, n, 24) for n in (1, 3, 40)]
    sum(output.square().sum() for output in outputs).backward()
    for name, parameter in bilm.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name
    assert len(state.forward) == len(state.backward) == 2


def test_gradients_are_those_of_the_function(make_bilm):
    # In float64 and without clips, which have no gradient where they hold.
    bilm = make_bilm(
        scale=1.0,
        filters=[[1, 3], [2, 4]],
        projection_dim=3,
        cell_size=4,
        cell_clip=None,
        proj_clip=None,
        activation="tanh",
    ).double()
    sentences = [["ab", "c"], ["d"]]
    parameters = [bilm.forward_lstm.layers[0].state_weight, bilm.backward_lstm.layers[1].bias]

    def layers(*values):
        return torch.cat([output.flatten() for output in bilm(sentences)[0]])

    assert torch.autograd.gradcheck(layers, parameters)


def test_embed_equals_forward(bilm):
    outputs, _ = bilm(SENTENCES)
    assert_close(bilm.embed(SENTENCES), [output.detach().numpy() for output in outputs])


def test_training_mode_drops_in_forward_only(make_bilm):
    bilm = make_bilm(dropout=0.5)
    expected = bilm.embed(SENTENCES)
    bilm.train()
    assert_close(bilm.embed(SENTENCES), expected, atol=0)
    dropped = [output.detach().numpy() for output in bilm(SENTENCES)[0]]
    assert numpy.abs(dropped[2] - expected[2]).max() > 0.01
    # The token layer itself is not dropped.
    assert_close([layers[:1] for layers in dropped], [layers[:1] for layers in expected])


def test_threads_embed_while_another_one_trains(make_bilm):
    bilm = make_bilm(dropout=0.5)
    expected = bilm.embed(SENTENCES, initial_state="warm")
    bilm.warm_hidden = bilm.warm_cell = None
    stop = threading.Event()
    wrong = []

    def toggle():
        while not stop.is_set():
            bilm.train()
            bilm.eval()
            bilm.train()

    def embed():
        for _ in range(10):
            found = bilm.embed(SENTENCES, initial_state="warm", batch_tokens=50)
            wrong.extend(
                numpy.abs(one - other).max()
                for one, other in zip(found, expected)
                if numpy.abs(one - other).max() > ATOL
            )

    trainer = threading.Thread(target=toggle)
    readers = [threading.Thread(target=embed) for _ in range(3)]
    for thread in (trainer, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    trainer.join()
    assert wrong == []


class LargestTensor(TorchDispatchMode):
    """Bytes of the largest tensor that any operation makes."""

    n_bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor) and not tensor.is_mkldnn:
                self.n_bytes = max(self.n_bytes, tensor.untyped_storage().nbytes())
        return result


def memory_of(bilm, sentences):
    """Bytes of the arrays that are there at a time at most, and of the largest tensor."""
    tracemalloc.start()
    try:
        with LargestTensor() as largest:
            for _ in bilm.iter_embed(sentences):
                pass
        return tracemalloc.get_traced_memory()[1] + largest.n_bytes
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_tokens_of_a_sentence_and_not_with_their_square(bilm):
    small = memory_of(bilm, [make_sentence(500)])
    large = memory_of(bilm, [make_sentence(2000)])
    n_output = 4 * 3 * 2000 * bilm.width
    assert large >= n_output
    assert large < 5 * small
    assert large < 4 * n_output


def test_memory_is_that_of_the_longest_sentence_and_not_longest_times_count(bilm):
    long = make_sentence(2000)
    alone = memory_of(bilm, [long])
    short = [make_sentence(20, seed=number) for number in range(63)]
    # All of them stand in one sub-batch, of less than twice as many positions.
    assert memory_of(bilm, [long, *short]) < 2 * alone


def test_sub_batches_keep_to_the_budget(make_bilm, monkeypatch):
    bilm = make_bilm()
    sizes = []
    real = inference.run_batch

    def run_batch(bilm, sentences, *args):
        sizes.append((len(sentences), sum(len(sentence) + 2 for sentence in sentences)))
        return real(bilm, sentences, *args)

    monkeypatch.setattr("spacy_elmo.bilm.bilm.run_batch", run_batch)
    sentences = [make_sentence(length % 17 + 1, seed=length) for length in range(100)]
    bilm.embed(sentences, batch_tokens=64)
    assert sum(n for n, _ in sizes) == 100
    assert all(n_positions <= 64 for _, n_positions in sizes)
    # Not one by one, either.
    assert len(sizes) < 40


def test_convolutions_run_once_for_a_word(make_bilm, monkeypatch):
    bilm = make_bilm()
    n_rows = []
    bilm.token_layer.register_forward_hook(lambda _, args, output: n_rows.append(len(output)))
    bilm.embed([["the", "bank"] * 50, ["the", "river"]])
    # The two marks, which all sentences share, and the three words, each in a group of their own.
    assert n_rows == [WORDS_A_STEP, WORDS_A_STEP]
