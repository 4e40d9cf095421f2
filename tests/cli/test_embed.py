"""``spacy elmo embed`` as a user runs it."""

import errno
import io
import json
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy
import pytest
from typer.testing import CliRunner

from spacy_elmo import BiLM
from spacy_elmo.cli.app import elmo_cli
from spacy_elmo.cli.embed import _Bar
from spacy_elmo.embedding.sinks.npz import NpzSink
from spacy_elmo.formats import write

from ..conftest import random_bilm
from ..embedding.reading import LINES, SENTENCES, read_arrays
from .commands import invoke, one_line


@pytest.fixture
def model(tmp_path):
    random_bilm().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def expected(model):
    return BiLM.from_pretrained(model).embed(SENTENCES, initial_state="warm")


def embed(*args):
    done = invoke("embed", *args)
    assert done.exit_code == 0, done.output
    return one_line(done.output)


@pytest.mark.parametrize(
    "options, choose",
    [
        ([], lambda layers: layers),
        (["--all"], lambda layers: layers),
        (["--top"], lambda layers: layers[2]),
        (["--average"], lambda layers: layers.mean(0)),
        (["--layer", 1], lambda layers: layers[1]),
        (["--mix", "0.5,-1,2"], lambda layers: 0.5 * layers[0] - layers[1] + 2 * layers[2]),
    ],
)
def test_layers(model, text, tmp_path, expected, options, choose):
    shown = embed(model, text, tmp_path / "out.hdf5", *options)
    n_tokens = sum(map(len, SENTENCES))
    assert f"out.hdf5, {n_tokens} tokens, {len(LINES)} sentences" in shown
    found = read_arrays(tmp_path / "out.hdf5")
    assert len(found) == len(LINES)
    for number, layers in enumerate(expected):
        assert found[number] == pytest.approx(choose(layers), abs=1e-5)


def test_options_reach_the_file(model, text, tmp_path):
    options = ["--precision", "float16", "--forget-sentences", "--initial-state", "zero"]
    options += ["--batch-tokens", 100, "--format", "hdf5", "--device", "cpu"]
    embed(model, text, tmp_path / "out.dat", *options)
    expected = BiLM.from_pretrained(model).embed(SENTENCES)
    with h5py.File(tmp_path / "out.dat", "r") as file:
        assert "sentence_to_index" not in file
        assert file["3"].dtype == numpy.float16
        assert file["3"][()] == pytest.approx(expected[3], abs=0.01)


def test_raw_text(model, tmp_path):
    (tmp_path / "raw.txt").write_text("He isn't here.\n")
    embed(model, tmp_path / "raw.txt", tmp_path / "out.hdf5", "--lang", "en")
    assert read_arrays(tmp_path / "out.hdf5")[0].shape[1] == 5
    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"He isn't here.": "0"}


def test_any_format_of_weights(model, text, tmp_path):
    write(BiLM.from_pretrained(model), tmp_path / "hdf5", "bilm-tf")
    embed(tmp_path / "hdf5", text, tmp_path / "one.npz", "--initial-state", "zero")
    embed(model, text, tmp_path / "two.npz", "--initial-state", "zero")
    one, two = (read_arrays(tmp_path / name) for name in ("one.npz", "two.npz"))
    assert all((one[number] == two[number]).all() for number in range(len(LINES)))


def test_pipes(model, text, tmp_path):
    arguments = ["embed", str(model), "-", "-", "--format", "npz", "--average"]
    done = CliRunner().invoke(elmo_cli, arguments, input=text.read_bytes())
    assert done.exit_code == 0, done.output
    (tmp_path / "out.npz").write_bytes(done.stdout_bytes)
    embed(model, text, tmp_path / "two.npz", "--average")
    assert (tmp_path / "two.npz").read_bytes() == done.stdout_bytes
    assert "Written" in done.stderr


def test_resume_and_overwrite(model, text, tmp_path):
    out = tmp_path / "out.npz"
    embed(model, text, out, "--resume")
    assert "was complete; nothing was left to do" in embed(model, text, out, "--resume")
    done = invoke("embed", model, text, out)
    assert done.exit_code == 1 and "exists. Replace it (--overwrite)" in one_line(done.output)
    embed(model, text, out, "--overwrite", "--top")
    assert read_arrays(out)[0].shape == (3, 24)


@pytest.mark.parametrize(
    "model_name, text_name, out, options, message",
    [
        ("nowhere", "text.txt", "o.npz", [], "nowhere does not exist"),
        ("text.txt", "text.txt", "o.npz", [], "No biLM found in"),
        ("model", "nowhere.txt", "o.npz", [], "INPUT is 'nowhere.txt', which does not exist"),
        ("model", "text.txt", "o.csv", [], "expected a name that ends in .hdf5"),
        ("model", "text.txt", "-", [], "A stream has no name that tells the format"),
        ("model", "text.txt", "-", ["--format", "hdf5"], "hdf5 cannot be written to a stream"),
        ("model", "text.txt", "o.npz", ["--top", "--layer", 1], "--top and --layer were given"),
        ("model", "text.txt", "o.npz", ["--mix", "a,b"], "--mix is 'a,b'; expected a number a"),
        ("model", "text.txt", "o.npz", ["--mix", "1,2"], "this biLM has 3 layers"),
        ("model", "text.txt", "o.npz", ["--mix", "nan,0,1"], "expected finite numbers"),
        ("model", "text.txt", "o.npz", ["--layer", 3], "layers is 3; expected a number from 0"),
        ("model", "text.txt", "o.npz", ["--lang", "nolang"], "lang is 'nolang'"),
        ("model", "text.txt", "o.npz", ["--device", "tpu"], "--device is 'tpu'; expected cpu"),
        ("model", "text.txt", "o.npz", ["--initial-state", "cold"], "initial_state is 'cold'"),
    ],
)
def test_faults_are_one_message(
    model, text, tmp_path, monkeypatch, model_name, text_name, out, options, message
):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = invoke("embed", model_name, text_name, out, *options)
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert message in one_line(done.output)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_input_is_not_overwritten(model, text, tmp_path):
    before = text.read_bytes()
    done = invoke("embed", model, text, text, "--format", "npz", "--overwrite")
    assert done.exit_code == 1 and "is the input" in one_line(done.output)
    assert text.read_bytes() == before


def test_too_little_memory_is_one_message(model, text, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("spacy_elmo.cli.embed.embed_corpus", fail)
    done = invoke("embed", model, text, tmp_path / "o.npz")
    assert done.exit_code == 1 and "Lower --batch-tokens" in one_line(done.output)


@pytest.mark.parametrize("after, way_on", [(0, "run the same command"), (10, "--resume. What is")])
def test_a_full_disk_is_named_with_the_way_on(model, text, tmp_path, monkeypatch, after, way_on):
    write, written = NpzSink.write, []

    def fail(sink, block):
        written.append(block)
        if len(written) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(sink, block)

    monkeypatch.setattr("spacy_elmo.embedding.corpus.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(NpzSink, "write", fail)
    options = [model, text, tmp_path / "o.npz", "--batch-tokens", 1]
    done = invoke("embed", *options)
    assert done.exit_code == 1
    shown = one_line(done.output)
    assert "No space left on device: " in shown and "o.npz'. Free some space there" in shown
    assert way_on in shown
    monkeypatch.undo()
    assert ("of them before" in embed(*options, "--resume")) == (after > 0)


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_tells_speed_and_time_left(monkeypatch):
    monkeypatch.setattr("sys.stderr", Screen())
    with _Bar() as bar:
        bar.show("read", 500, 1000)
        # A resumed run: the first 400 tokens do not count for the speed.
        bar.show("embed", 400, 1000)
        time.sleep(0.3)
        bar.show("embed", 700, 1000)
    shown = sys.stderr.getvalue()
    assert "Reading  50%" in shown and "500/1.00k [" in shown
    assert "Embedding  70%" in shown
    (speed,) = re.findall(r"700/1.00k \[00:0\d left, (.*) tokens/s\]", shown)
    assert 0 < float(speed.replace("k", "e3")) <= 300 / 0.3


def test_no_bar_where_nobody_looks(model, text, tmp_path):
    done = invoke("embed", model, text, tmp_path / "out.npz")
    assert "Embedding" not in done.output and "%" not in done.output


def run_process(*args, **settings):
    command = [sys.executable, "-m", "spacy", "elmo", "embed", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings)


@pytest.mark.slow
def test_killed_processes_go_on(tmp_path):
    """The command itself, killed by the system, as often as it takes."""
    random_bilm(projection_dim=64, cell_size=256).save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("the bank of the river .\n" * 8000)
    arguments = [tmp_path / "model", tmp_path / "text.txt"]
    embed(*arguments, tmp_path / "expected.npz", "--batch-tokens", 256)
    out = tmp_path / "out.npz"
    journal = tmp_path / "out.npz.partial" / "journal.json"
    code = (
        "import sys; from spacy_elmo.embedding import corpus; corpus.CHECKPOINT_SECONDS = 0.2; "
        "from spacy_elmo.cli.app import elmo_cli; elmo_cli(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "embed", *map(str, arguments), str(out)]
    command += ["--batch-tokens", "256", "--resume"]
    n_killed, before = 0, ""
    while not out.exists():
        process = subprocess.Popen(command)
        while process.poll() is None and n_killed < 3:
            time.sleep(0.01)
            if journal.exists() and journal.read_text() != before:
                before = journal.read_text()
                process.send_signal(signal.SIGKILL)
                process.wait()
                n_killed += 1
        assert process.wait() in (0, -signal.SIGKILL)
    assert n_killed >= 1
    assert out.read_bytes() == (tmp_path / "expected.npz").read_bytes()


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_it_quietly(model, tmp_path):
    (tmp_path / "text.txt").write_text("the bank of the river .\n" * 5000)
    process = run_process(model, tmp_path / "text.txt", "-", "--format", "safetensors")
    process.stdout.read(10)
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read() and process.wait() == 1
