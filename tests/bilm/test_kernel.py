"""The compiled recurrence gives what torch's operations give, in every variant that runs here."""

import os
import subprocess
import sys
import threading
import time

import numpy
import pytest
import torch

from spacy_elmo.bilm import threads
from spacy_elmo.bilm.kernel import (
    Chain,
    CompiledRecurrence,
    find_variant,
    library,
    recurrence,
    run_chains,
)
from spacy_elmo.bilm.kernel.library import variants
from spacy_elmo.bilm.kernel.recurrence import split_sequences
from spacy_elmo.bilm.recurrence import Recurrence

pytestmark = pytest.mark.skipif(
    not variants(), reason="the package was built without a C compiler (GCC or Clang)"
)

# Sequences running at each step: tiles of every size, and more positions than fit at a time.
BATCHES = [
    *([n] * 2 for n in range(1, 14)),
    [7, 7, 5, 4, 4, 1],
    [200, 150, 33, 2],
    [40] * 9,
    [1] * 300,
]
SIZES = [
    {"input_size": 8, "cell_size": 16, "output_size": 8},
    {"input_size": 7, "cell_size": 17, "output_size": 9},
    {"input_size": 33, "cell_size": 100, "output_size": 70},
    {"input_size": 1, "cell_size": 1, "output_size": 1},
    {"input_size": 128, "cell_size": 64, "output_size": 128},
]
CLIPS = [(None, None), (0.2, 0.3)]


@pytest.fixture(params=variants(), ids=lambda variant: variant.name)
def variant(request):
    return request.param


def make_weights(input_size, cell_size, output_size, is_projected=True, scale=1.0):
    generator = torch.Generator().manual_seed(cell_size)
    n_hidden = output_size if is_projected else cell_size

    def draw(*shape):
        return torch.randn(*shape, generator=generator) * scale

    return (
        draw(4 * cell_size, input_size) / input_size**0.5,
        draw(4 * cell_size, n_hidden) / n_hidden**0.5,
        draw(4 * cell_size),
        draw(output_size, cell_size) / cell_size**0.5 if is_projected else None,
    )


def make_batch(weights, batch_sizes):
    generator = torch.Generator().manual_seed(sum(batch_sizes))
    input_weight, state_weight, bias, _ = weights
    x = torch.randn(sum(batch_sizes), input_weight.shape[1], generator=generator)
    hidden = torch.randn(batch_sizes[0], state_weight.shape[1], generator=generator)
    cell = torch.randn(batch_sizes[0], len(bias) // 4, generator=generator)
    return x, batch_sizes, hidden / 2, cell


def assert_near(found, expected, atol=5e-6):
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, atol=atol, rtol=0)


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: str(sizes["cell_size"]))
@pytest.mark.parametrize("is_projected", [True, False])
@pytest.mark.parametrize("clips", CLIPS, ids=["open", "clipped"])
def test_a_layer_is_that_of_torchs_operations(variant, sizes, is_projected, clips):
    weights = make_weights(**sizes, is_projected=is_projected)
    # Numbers of bfloat16 have 8 bits.
    atol = 5e-6 if variant.n_inputs == 1 else 0.05
    compiled = CompiledRecurrence(*weights, *clips, variant)
    plain = Recurrence(*weights, *clips, torch.float32)
    for batch_sizes in BATCHES:
        batch = make_batch(weights, batch_sizes)
        assert_near(compiled(*batch), plain(*batch), atol)


def test_the_state_that_is_given_is_left_alone(variant):
    weights = make_weights(**SIZES[1])
    batch = make_batch(weights, [3, 2])
    before = [part.clone() for part in (batch[0], *batch[2:])]
    CompiledRecurrence(*weights, None, None, variant)(*batch)
    assert all(map(torch.equal, before, (batch[0], *batch[2:])))


def test_a_sequence_has_the_same_bits_alone_and_in_any_batch(variant):
    weights = make_weights(**SIZES[2])
    layer = CompiledRecurrence(*weights, 3.0, 3.0, variant)
    n_steps = 20
    for n in (1, 2, 5, 6, 7, 31, 130):
        x, _, hidden, cell = make_batch(weights, [n] * n_steps)
        together = layer(x, [n] * n_steps, hidden, cell)
        row = n // 2
        alone = layer(x[row::n], [1] * n_steps, hidden[row : row + 1], cell[row : row + 1])
        assert torch.equal(together[0][row::n], alone[0])
        assert torch.equal(together[1][row : row + 1], alone[1])
        assert torch.equal(together[2][row : row + 1], alone[2])


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_the_number_of_threads_changes_no_bit(variant, n_threads, monkeypatch):
    weights = make_weights(**SIZES[2])
    layer = CompiledRecurrence(*weights, 3.0, 3.0, variant)
    batch = make_batch(weights, [40, 40, 33, 32, 10, 1])
    found = []
    for n in (1, n_threads):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=n: n)
        found.append(layer(*batch))
    assert all(map(torch.equal, *found))


def test_values_that_are_none_or_endless_stay_in_their_sequence(variant):
    weights = make_weights(**SIZES[2])
    layer = CompiledRecurrence(*weights, 3.0, 3.0, variant)
    x, batch_sizes, hidden, cell = make_batch(weights, [8] * 3)
    expected, *_ = layer(x, batch_sizes, hidden, cell)
    for value in (float("nan"), float("inf"), 1e30):
        spoiled = x.clone()
        spoiled[2] = value
        found, *_ = layer(spoiled, batch_sizes, hidden, cell)
        others = [n for n in range(len(x)) if n % 8 != 2]
        assert torch.equal(found[others], expected[others])
        assert value == 1e30 or found[2].isnan().any()


def test_gates_far_beyond_their_range(variant):
    weights = make_weights(**SIZES[1], scale=200.0)
    batch = make_batch(weights, [5] * 8)
    found = CompiledRecurrence(*weights, 3.0, 3.0, variant)(*batch)
    assert all(part.isfinite().all() for part in found)
    if variant.n_inputs == 1:
        # Where gates are open or shut, little differences of sums can turn a gate: one step.
        batch = make_batch(weights, [5])
        plain = Recurrence(*weights, 3.0, 3.0, torch.float32)
        assert_near(CompiledRecurrence(*weights, 3.0, 3.0, variant)(*batch), plain(*batch), 2e-3)


def test_a_chain_is_its_layers_one_after_the_other(variant):
    weights = make_weights(input_size=24, cell_size=40, output_size=24)
    layers = [CompiledRecurrence(*weights, 3.0, 3.0, variant) for _ in range(3)]
    x, batch_sizes, hidden, cell = make_batch(weights, [9, 9, 4])
    for has_skips in (False, True):
        chains = [Chain(layers, x, [(hidden, cell)] * 3, has_skips) for _ in range(2)]
        run_chains(chains, batch_sizes)
        y = x
        for number, layer in enumerate(layers):
            z, *state = layer(y, batch_sizes, hidden, cell)
            y = z + y if has_skips and number > 0 else z
            for chain in chains:
                assert torch.equal(chain.outputs[number], y)
                assert all(map(torch.equal, chain.states[number], state))


@pytest.mark.parametrize("is_projected", [True, False])
def test_calls_of_any_length_give_the_same_bits(variant, is_projected, monkeypatch):
    weights = make_weights(**SIZES[1], is_projected=is_projected)
    layer = CompiledRecurrence(*weights, 3.0, 3.0, variant)
    batch = make_batch(weights, [9, 9, 9, 8, 5, 5, 5, 1, 1, 1])
    expected = layer(*batch)
    for n_positions in (1, 4, 20):
        monkeypatch.setattr(recurrence, "POSITIONS_A_CALL", n_positions)
        assert all(map(torch.equal, layer(*batch), expected))


def test_a_long_sentence_can_be_interrupted(variant, monkeypatch):
    weights = make_weights(input_size=8, cell_size=16, output_size=8)
    layer = CompiledRecurrence(*weights, None, None, variant)
    calls = []

    def interrupted(self, *arguments):
        calls.append(threading.current_thread())
        # The other thread hears of it.
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.01)

    monkeypatch.setattr(type(variant), "run", interrupted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    x, batch_sizes, *state = make_batch(weights, [1] * 1000)
    monkeypatch.setattr(recurrence, "POSITIONS_A_CALL", 1)
    chains = [Chain([layer], x, [tuple(state)]) for _ in range(2)]
    with pytest.raises(KeyboardInterrupt):
        run_chains(chains, batch_sizes)
    assert len(calls) < 100


def test_a_state_of_other_sequences_is_named(variant):
    weights = make_weights(**SIZES[0])
    x, batch_sizes, hidden, cell = make_batch(weights, [4, 2])
    layer = CompiledRecurrence(*weights, None, None, variant)
    with pytest.raises(ValueError, match="state of 3 sequences was given for a batch of 4"):
        layer(x, batch_sizes, hidden[:3], cell[:3])


def test_vectors_come_also_when_python_ends():
    code = (
        "import atexit, threading, torch\n"
        "from spacy_elmo import BiLM, BiLMConfig\n"
        "torch.set_num_threads(2)\n"
        "bilm = BiLM(BiLMConfig.from_dict({'filters': [[1, 4]], 'projection_dim': 8,"
        " 'cell_size': 12}))\n"
        "def embed(name):\n"
        "    threading.main_thread().join()\n"
        "    print(name, bilm.embed([['a', 'b']])[0].shape)\n"
        "bilm.embed([['a']])\n"
        "atexit.register(lambda: print('exit', bilm.embed([['a', 'b']])[0].shape))\n"
        "threading.Thread(target=embed, args=['thread']).start()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["thread (3, 2, 16)", "exit (3, 2, 16)"], done.stderr


def test_no_memory_is_read_before_it_is_written():
    """The C library fills what it takes from the system with large numbers, where it can."""
    code = (
        "import torch\n"
        "from spacy_elmo import BiLM, BiLMConfig\n"
        "for projection in (True, False):\n"
        "    torch.manual_seed(0)\n"
        "    sizes = {'filters': [[1, 4]], 'projection_dim': 9 if projection else 17,"
        " 'cell_size': 17, 'cell_projection': projection}\n"
        "    bilm = BiLM(BiLMConfig.from_dict(sizes))\n"
        "    for precision in ('float32', 'bfloat16'):\n"
        "        for words in (['a'], ['a', 'b'] * 90):\n"
        "            layers, _ = bilm.embed([words, words[:1]], precision=precision)\n"
        "            print(layers.tolist())\n"
    )
    printed = {
        subprocess.check_output([sys.executable, "-c", code], env={**os.environ, **more})
        for more in ({}, {"MALLOC_PERTURB_": str(0x80)})
    }
    assert len(printed) == 1


def test_sequences_are_split_into_like_parts():
    batch_sizes = numpy.array([40] * 5 + [10] * 20 + [1] * 100)
    ranges = split_sequences(batch_sizes, 4)
    assert [first for first, _ in ranges[1:]] == [last for _, last in ranges[:-1]]
    assert (ranges[0][0], ranges[-1][1]) == (0, 40)
    # The longest sequence is longer than a quarter of all.
    assert ranges[0] == (0, 1) and len(ranges) <= 4
    assert split_sequences(numpy.array([3, 3]), 1) == [(0, 3)]
    assert split_sequences(numpy.array([8] * 4), 2) == [(0, 4), (4, 8)]


def test_a_variant_is_found_by_precision_and_device():
    cpu = torch.device("cpu")
    best = find_variant(torch.float32, cpu)
    assert best is not None and best.dtype == torch.float32
    assert find_variant(torch.float64, cpu) is None
    assert find_variant(torch.float32, torch.device("cuda")) is None
    low = find_variant(torch.bfloat16, cpu)
    assert low is None or low.dtype == torch.bfloat16


def test_too_little_memory_is_an_error(variant):
    weights = make_weights(**SIZES[0])
    layer = CompiledRecurrence(*weights, None, None, variant)
    layer.arguments.n_cell_panels = 2**50
    with pytest.raises(MemoryError, match="cell size 16"):
        layer(*make_batch(weights, [2, 2]))


def test_tasks_run_side_by_side_and_in_order_with_one_thread():
    meeting = threading.Barrier(2, timeout=60)
    threads.run_all([meeting.wait, meeting.wait], 2)
    order = []
    threads.run_all([lambda n=n: order.append(n) for n in range(5)], 1)
    assert order == list(range(5))


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_the_error_of_a_task_is_raised_when_all_have_ended(failing):
    done = []

    def task(number):
        if number == failing:
            raise KeyError(number)
        done.append(number)

    for n_threads in (1, 4):
        done.clear()
        with pytest.raises(KeyError, match=str(failing)):
            threads.run_all([lambda n=n: task(n) for n in range(3)], n_threads)
        if n_threads > 1:
            assert sorted(done) == sorted({0, 1, 2} - {failing})


def test_tasks_of_tasks_never_wait_for_each_other():
    done = []

    def outer():
        threads.run_all([lambda: done.append(1)] * 3, 2)

    callers = [threading.Thread(target=threads.run_all, args=([outer] * 9, 2)) for _ in range(16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(done) == 16 * 9 * 3


@pytest.fixture
def fresh_library():
    """Looks for the library anew, in the test and after it."""
    for found in (library._library, library.variants):
        found.cache_clear()
    yield
    for found in (library._library, library.variants):
        found.cache_clear()


@pytest.mark.parametrize("contents", [b"", b"no library", None])
def test_a_library_that_cannot_be_loaded_is_named_and_not_used(
    contents, fresh_library, tmp_path, monkeypatch
):
    path = tmp_path / "_kernel.abi3.so"
    if contents is not None:
        path.write_bytes(contents)
    monkeypatch.setattr(library, "_path", lambda: str(path))
    with pytest.warns(UserWarning, match=r"_kernel.abi3.so cannot be used: .*install the package"):
        assert library.variants() == []
    assert library.find_variant(torch.float32, torch.device("cpu")) is None


def test_a_library_of_another_version_is_named_and_not_used(fresh_library, monkeypatch):
    monkeypatch.setattr(library, "INTERFACE", 0)
    with pytest.warns(UserWarning, match=r"it has interface 1, this version of the package 0"):
        assert library.variants() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_threads_of_its_own(bilm):
    expected = bilm.embed([["the", "river"]])[0]
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        found = bilm.embed([["the", "river"]])[0]
        os.write(send, b"same" if numpy.array_equal(found, expected) else b"other")
        os._exit(0)
    os.close(send)
    assert os.read(receive, 10) == b"same"
    os.waitpid(child, 0)
