"""The store of layers alone: what goes in comes out, within its limit, and in one process."""

import copy
import gc
import os
import pickle
import time
import traceback
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from spacy_elmo.models import layer_store
from spacy_elmo.models.layer_store import (
    ENTRY_BYTES,
    build_disk_store_v1,
    build_memory_store_v1,
    key_of,
)

SHAPE = (3, 5, 8)


@pytest.fixture(params=["memory", "disk"])
def make_store(request, tmp_path):
    def make(**settings):
        if request.param == "memory":
            store = build_memory_store_v1(**settings)
        else:
            store = build_disk_store_v1(folder=tmp_path / "store", **settings)
        store.begin_training_pass()
        return store

    return make


def make_layers(number, shape=SHAPE):
    return numpy.random.default_rng(number).normal(size=shape).astype("float32")


def make_key(number):
    return key_of(numpy.asarray([number, 7], dtype="uint64"), is_training=True)


def test_layers_come_back_bit_for_bit_and_cannot_be_written_to(make_store):
    store = make_store()
    for number in range(50):
        store.add(make_key(number), make_layers(number), is_training=True)
    # The first ones stay, whatever comes under their keys later.
    store.add(make_key(3), make_layers(99), is_training=True)
    assert len(store) == 50
    for number in range(50):
        layers = store.get(make_key(number))
        assert layers.dtype == numpy.float32
        assert numpy.array_equal(layers, make_layers(number))
        with pytest.raises(ValueError, match="read-only"):
            layers[0] = 1.0
    assert store.get(make_key(50)) is None


def test_float16_takes_half_the_room_and_rounds(make_store):
    store = make_store(dtype="float16")
    layers = make_layers(0)
    store.add(make_key(0), layers, is_training=True)
    found = store.get(make_key(0))
    assert found.nbytes == layers.nbytes // 2
    numpy.testing.assert_allclose(found, layers, rtol=2**-11)
    # What it cannot say is computed each time, not made infinite.
    store.add(make_key(1), layers * 1e5, is_training=True)
    assert store.get(make_key(1)) is None


@pytest.mark.parametrize("max_bytes", [1, 1000, 300_000, 20_000_000])
def test_the_limit_holds_and_the_first_stay(make_store, max_bytes):
    store = make_store(max_bytes=max_bytes)
    shape = (3, 40, 300)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(200):
            store.add(make_key(number), make_layers(number, shape), is_training=True)
            assert store.n_bytes <= max_bytes
    (warning,) = caught
    assert f"max_bytes = {max_bytes:,}" in str(warning.message)
    assert "[components.elmo.model.layer_store]" in str(warning.message)
    held = [number for number in range(200) if store.get(make_key(number)) is not None]
    assert held == list(range(len(store)))
    if max_bytes == 20_000_000:
        assert len(held) * 4 * numpy.prod(shape) > 0.9 * max_bytes
        assert all(numpy.array_equal(store.get(make_key(n)), make_layers(n, shape)) for n in held)


def test_the_limit_counts_keys_and_objects():
    """Against what Python's own bookkeeping says, for the smallest segments."""
    store = build_memory_store_v1(max_bytes=1_000_000)
    store.begin_training_pass()
    keys, layers = [make_key(number) for number in range(4_000)], make_layers(0, (3, 1, 4))
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.warns(UserWarning, match="has reached its limit"):
            for key in keys:
                store.add(bytes(bytearray(key)), layers, is_training=True)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(store) > 1000
    assert taken <= 1_000_000


def test_text_that_is_only_predicted_is_kept_when_it_comes_again(make_store):
    store = make_store()
    for _ in range(2):
        assert store.get(make_key(0)) is None
        store.add(make_key(0), make_layers(0), is_training=False)
    assert numpy.array_equal(store.get(make_key(0)), make_layers(0))


def test_new_text_without_end_fills_nothing(monkeypatch):
    monkeypatch.setattr(layer_store, "MAX_PREDICTED", 1000)
    store = build_memory_store_v1()
    store.begin_training_pass()
    layers = make_layers(0, (1, 1, 1))
    for number in range(2500):
        store.add(make_key(number), layers, is_training=False)
        assert store.n_bytes <= 1000 * ENTRY_BYTES
    assert len(store) == 0


def test_other_weights_empty_it(make_store):
    store = make_store()
    store.expect("weights")
    store.add(make_key(0), make_layers(0), is_training=True)
    handed_out = store.get(make_key(0))
    store.expect("weights")
    assert len(store) == 1
    store.expect("other weights")
    assert len(store) == 0 and store.get(make_key(0)) is None
    store.add(make_key(0), make_layers(1), is_training=True)
    assert numpy.array_equal(store.get(make_key(0)), make_layers(1))
    # What was handed out before stays what it was.
    assert numpy.array_equal(handed_out, make_layers(0))


def test_threads_share_it(make_store):
    store = make_store()

    def add_and_read(number):
        store.add(make_key(number), make_layers(number), is_training=True)
        return numpy.array_equal(store.get(make_key(number)), make_layers(number))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(add_and_read, [*range(300), *range(300)]))
    assert len(store) == 300


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_closed_and_empty(make_store, copied):
    store = make_store(max_bytes=1 << 20, dtype="float16")
    store.add(make_key(0), make_layers(0), is_training=True)
    other = copied(store)
    assert not other.is_open and len(other) == 0 and other.n_bytes == 0
    assert (other.max_bytes, other.dtype) == (1 << 20, "float16")
    other.begin_training_pass()
    other.add(make_key(0), make_layers(1), is_training=True)
    assert len(store) == 1 and not numpy.array_equal(other.get(make_key(0)), make_layers(0))


def test_closing_gives_everything_back(make_store):
    store = make_store()
    assert store.is_open
    store.add(make_key(0), make_layers(0), is_training=True)
    store.close()
    assert not store.is_open and len(store) == 0 and store.n_bytes == 0
    store.begin_training_pass()
    assert store.is_open and len(store) == 0


@pytest.mark.skipif(os.name == "nt", reason="files that are open have names on Windows")
def test_the_file_has_no_name_that_could_be_left_behind(tmp_path):
    store = build_disk_store_v1(folder=tmp_path)
    store.begin_training_pass()
    store.add(make_key(0), make_layers(0), is_training=True)
    assert list(tmp_path.iterdir()) == []


def start_process(function, *args) -> int:
    """Run a function in a forked process; its id. (A new interpreter would import for seconds.)"""
    process = os.fork()
    if process == 0:
        try:
            function(*args)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return process


def all_ended_well(processes) -> bool:
    return [os.waitpid(process, 0)[1] for process in processes] == [0] * len(processes)


def fill_and_check(store, seed):
    for number in range(60):
        layers = numpy.full((3, 100, 300), 1000 * seed + number, dtype="float32")
        store.add(make_key(number), layers, is_training=True)
        time.sleep(0.001)
    for number in range(60):
        assert (store.get(make_key(number)) == 1000 * seed + number).all()


def use_store_and_fork(folder, seed):
    store = build_disk_store_v1(folder=folder)
    store.begin_training_pass()
    fill_and_check(store, seed)
    child = start_process(use_inherited_store, store, seed + 5)
    assert all_ended_well([child])
    fill_and_check(store, seed)


def use_inherited_store(store, seed):
    # It neither reads nor writes what is the parent's, and can begin anew.
    assert not store.is_open and len(store) == 0
    store.begin_training_pass()
    fill_and_check(store, seed)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_processes_and_their_forks_share_a_folder(tmp_path):
    assert all_ended_well([start_process(use_store_and_fork, tmp_path, n) for n in (1, 2, 3)])


def fill_disk(folder):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))
    store = build_disk_store_v1(folder=folder)
    store.begin_training_pass()
    layers = numpy.zeros((3, 100, 300), dtype="float32")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(100):
            store.add(make_key(number), layers + number, is_training=True)
    (warning,) = caught
    assert f"cannot grow in {folder} ([Errno 27] File too large)" in str(warning.message)
    # Two chunks of 8 MiB have room.
    assert 40 < len(store) < 50
    assert all((store.get(make_key(number)) == number).all() for number in range(len(store)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits on files are a matter of POSIX")
def test_a_full_disk_is_a_warning(tmp_path):
    assert all_ended_well([start_process(fill_disk, tmp_path)])


def test_settings_out_of_range_are_named(tmp_path):
    with pytest.raises(ValueError, match="max_bytes is 0; expected 1 or more"):
        build_memory_store_v1(max_bytes=0)
    with pytest.raises(ValueError, match="dtype is 'float64'; expected one of float32, float16"):
        build_memory_store_v1(dtype="float64")
    with pytest.raises(ValueError, match="folder is ''"):
        build_disk_store_v1(folder="")
    file = tmp_path / "file"
    file.write_text("")
    store = build_disk_store_v1(folder=file)
    with pytest.raises(ValueError, match="folder .*file cannot be used.*Set folder in"):
        store.begin_training_pass()
