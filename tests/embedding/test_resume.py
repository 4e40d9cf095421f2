"""A run that is killed, and goes on: the file is the one of a run that was never stopped."""

import json
import os
import signal

import pytest

from spacy_elmo.embedding import corpus, embed_corpus
from spacy_elmo.embedding.partial import PartialDirectory
from spacy_elmo.embedding.sinks import SINKS

from ..conftest import random_bilm
from .reading import NAMES, SENTENCES

BATCH_TOKENS = 8


@pytest.fixture(autouse=True)
def journal_of_each_block(monkeypatch):
    monkeypatch.setattr(corpus, "CHECKPOINT_SECONDS", 0.0)


def embed(bilm, path, sentences=SENTENCES, **settings):
    return embed_corpus(bilm, sentences, path, **{"batch_tokens": BATCH_TOKENS, **settings})


def embed_and_be_killed(bilm, path, at, **settings):
    """In a process of its own, which kills itself; ``at``: where, a function to set it up."""
    child = os.fork()
    if child == 0:
        try:
            at(lambda: os.kill(os.getpid(), signal.SIGKILL))
            embed(bilm, path, **settings)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def after_tokens(n):
    def set_up(kill):
        ignore = corpus._ignore
        corpus._ignore = lambda what, done, total: kill() if done >= n else ignore(what, 0, 0)

    return set_up


def within(owner, name, call=1, before=True):
    """Kill before, or after, a method does its work for the so many-th time."""

    def set_up(kill):
        method, calls = getattr(owner, name), [0]

        def killing(*args, **kwargs):
            calls[0] += 1
            if calls[0] == call and before:
                kill()
            result = method(*args, **kwargs)
            if calls[0] == call:
                kill()
            return result

        setattr(owner, name, killing)

    return set_up


@pytest.mark.parametrize(
    "name, initial_state", [*((name, "warm") for name in NAMES), ("out.hdf5", "carry")]
)
def test_a_killed_run_goes_on_to_the_same_bytes(bilm, tmp_path, name, initial_state):
    (tmp_path / "one").mkdir()
    embed(bilm, tmp_path / "one" / name, initial_state=initial_state)
    expected = (tmp_path / "one" / name).read_bytes()
    sink = SINKS[name.partition(".")[2]]
    places = [
        after_tokens(1),
        after_tokens(100),
        within(sink, "write", 2),
        within(sink, "write", 3, before=False),
        within(sink, "flush", 4, before=False),
        # While the journal is replaced.
        within(os, "replace", 2),
        within(sink, "finish", before=False),
    ]
    out = tmp_path / "two" / name
    for number, place in enumerate(places):
        resume = {"resume": number > 0, "initial_state": initial_state}
        embed_and_be_killed(bilm, out, place, **resume)
        assert not out.exists() and (out.parent / f"{name}.partial").is_dir()
    embed(bilm, out, resume=True, initial_state=initial_state)
    assert out.read_bytes() == expected
    assert [path.name for path in out.parent.iterdir()] == [name]
    # Killed when the file is in its place, but the rest is not removed yet.
    out.unlink()
    embed_and_be_killed(bilm, out, within(PartialDirectory, "remove"), initial_state=initial_state)
    assert out.read_bytes() == expected
    assert embed(bilm, out, resume=True, initial_state=initial_state).n_embedded == 0
    assert [path.name for path in out.parent.iterdir()] == [name]


def test_only_what_is_left_is_embedded(bilm, tmp_path):
    out = tmp_path / "out.npz"
    embed_and_be_killed(bilm, out, after_tokens(100))
    result = embed(bilm, out, resume=True)
    assert result.n_tokens == sum(map(len, SENTENCES))
    assert result.n_tokens - 100 <= result.n_embedded < result.n_tokens - 100 + 4 * BATCH_TOKENS


def test_a_run_that_was_stopped_is_not_dropped_by_accident(bilm, tmp_path):
    out = tmp_path / "out.npz"
    embed_and_be_killed(bilm, out, after_tokens(100))
    with pytest.raises(FileExistsError, match=r"out.npz.partial is of a run that was stopped. Go"):
        embed(bilm, out)
    assert embed(bilm, out, overwrite=True).n_embedded == sum(map(len, SENTENCES))


@pytest.mark.parametrize(
    "change, named",
    [
        ({"sentences": [*SENTENCES, ["more"]]}, r"input \(other contents than before\)"),
        ({"layers": "top"}, r"layers \('all' before, 'top' now\)"),
        ({"precision": "float16"}, "precision"),
        ({"initial_state": "zero"}, "initial state"),
        ({"batch_tokens": 9}, r"batch tokens \(8 before, 9 now\)"),
        ({"keep_sentences": False}, r"forget sentences \(False before, True now\)"),
        ({"bilm": random_bilm(seed=1)}, r"model \(other contents"),
    ],
)
def test_another_run_is_not_resumed(bilm, tmp_path, change, named):
    out = tmp_path / "out.npz"
    embed_and_be_killed(bilm, out, after_tokens(100))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    before.pop(tmp_path / "out.npz.partial" / corpus.SPOOL_FILE, None)
    with pytest.raises(ValueError, match=f"other settings: {named}"):
        embed(**{"bilm": bilm, "path": out, "resume": True, **change})
    assert all(path.read_bytes() == data for path, data in before.items())


def test_a_file_that_is_complete_is_left(bilm, tmp_path):
    out = tmp_path / "out.hdf5"
    embed(bilm, out)
    with pytest.raises(FileExistsError, match=r"out.hdf5 exists. Replace it \(--overwrite\)"):
        embed(bilm, out)
    before = out.stat().st_mtime_ns
    assert embed(bilm, out, resume=True).n_embedded == 0
    assert out.stat().st_mtime_ns == before


def test_a_file_of_another_run_is_not_taken_for_complete(bilm, tmp_path):
    out = tmp_path / "out.npz"
    embed(bilm, out)
    before = out.read_bytes()
    message = r"out.npz exists, and is of a run with other settings: layers \('all' before, "
    with pytest.raises(FileExistsError, match=message):
        embed(bilm, out, layers="top", resume=True)
    assert out.read_bytes() == before and list(tmp_path.iterdir()) == [out]


def test_a_file_of_another_kind_is_not_taken_for_complete(bilm, tmp_path):
    out = tmp_path / "out.npz"
    out.write_bytes(b"something else")
    with pytest.raises(FileExistsError, match="not written by this command, or not in this format"):
        embed(bilm, out, resume=True)
    assert out.read_bytes() == b"something else"
    assert embed(bilm, out, overwrite=True).n_sentences == len(SENTENCES)


def test_two_runs_do_not_write_the_same_file(bilm, tmp_path):
    out = tmp_path / "out.npz"
    with PartialDirectory(out, resume=False, overwrite=False):
        with pytest.raises(BlockingIOError, match="Another process is writing .*out.npz"):
            embed(bilm, out)
        assert (tmp_path / "out.npz.partial").is_dir()
    assert embed(bilm, out).n_sentences == len(SENTENCES)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"settings": 1, "state": {}}'])
def test_a_damaged_journal_is_named(bilm, tmp_path, text):
    out = tmp_path / "out.npz"
    embed_and_be_killed(bilm, out, after_tokens(100))
    (tmp_path / "out.npz.partial" / "journal.json").write_text(text)
    with pytest.raises(ValueError, match=r"journal.json is damaged .* Start anew"):
        embed(bilm, out, resume=True)


def test_data_that_is_cut_short_is_named(bilm, tmp_path):
    out = tmp_path / "out.npz"
    embed_and_be_killed(bilm, out, after_tokens(100))
    os.truncate(tmp_path / "out.npz.partial" / "output", 10)
    with pytest.raises(ValueError, match=r"output has 10 bytes; expected \d+ or more. It cannot"):
        embed(bilm, out, resume=True)
    assert json.loads((tmp_path / "out.npz.partial" / "journal.json").read_text())


def test_an_interrupted_run_can_be_resumed(bilm, tmp_path):
    """Ctrl-C, or an error like that of a full disk."""
    out = tmp_path / "out.parquet"

    def stop(what, n, total):
        if n > 100:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left on device: .*out.parquet'"):
        embed(bilm, out, progress=stop)
    assert not out.exists()
    assert embed(bilm, out, resume=True).n_embedded < sum(map(len, SENTENCES))
