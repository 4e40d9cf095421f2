"""``spacy elmo train`` as a user runs it."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy
import pytest
from typer.testing import CliRunner

from spacy_elmo import BiLM
from spacy_elmo.cli.app import elmo_cli
from spacy_elmo.training import load_language_model

from ..training.configs import CONFIG, write_texts

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


def write_config(directory):
    write_texts(directory)
    path = directory / "config.cfg"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def arguments(directory, *more):
    return [
        "train",
        str(write_config(directory)),
        "--output",
        str(directory / "out"),
        "--paths.train",
        str(directory / "train.txt"),
        "--paths.dev",
        str(directory / "dev.txt"),
        *more,
    ]


def run(*args, module=("spacy", "elmo")):
    command = [sys.executable, "-m", *module, *args]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=ENVIRONMENT)


def invoke(*args):
    """In this process, which is quicker."""
    return CliRunner().invoke(elmo_cli, args)


def test_from_text_to_vectors(tmp_path):
    done = run(*arguments(tmp_path, "--training.eval_frequency", "10"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"Training text +\d+ tokens, 50 sentences", done.stdout)
    assert re.search(r"Parameters +[\d,]+ \(biLM\)", done.stdout)
    assert re.search(r"Held-out perplexity \d+\.\d+ \(forward \d+", done.stdout)
    # One row an evaluation: step, epoch, loss, three perplexities, tokens/s.
    steps = re.findall(r"^ *(\d+)(?: +[\d.,]+){6}", done.stdout, flags=re.MULTILINE)
    n_steps = re.search(r"([\d,]+) an epoch, ([\d,]+) in all", done.stdout).group(2)
    assert [int(step) for step in steps] == [*range(10, int(n_steps), 10), int(n_steps)]
    # The bar's last picture.
    assert re.search(
        rf"{n_steps}/{n_steps} steps, .* left, [\d,]+ tokens/s, .*perplexity \d", done.stderr
    )

    for name in ("model-best", "model-last"):
        bilm = BiLM.from_pretrained(tmp_path / "out" / name)
        (layers,) = bilm.embed([["the", "old", "bank"]])
        assert layers.shape == (3, 3, 12) and numpy.isfinite(layers).all()
    assert len(load_language_model(tmp_path / "out" / "model-best")[1]) > 3


def test_the_module_runs_the_same_commands(tmp_path):
    done = run(*arguments(tmp_path, "--training.max_steps", "2"), module=("spacy_elmo",))
    assert done.returncode == 0, done.stderr
    assert "2 in all" in done.stdout
    assert BiLM.from_pretrained(tmp_path / "out" / "model-last").width == 12


def test_settings_are_overridden_by_options(tmp_path):
    done = invoke(*arguments(tmp_path, "--bilm.cell_size", "9", "--training.max_steps=3"))
    assert done.exit_code == 0, done.output
    assert BiLM.from_pretrained(tmp_path / "out" / "model-best").config.cell_size == 9
    assert "3 in all" in done.output


def test_registered_functions_of_other_files_can_be_used(tmp_path):
    code = tmp_path / "code.py"
    code.write_text(
        "from spacy_elmo.training.registry import registry\n"
        "@registry.readers('two_sentences.v1')\n"
        "def build():\n"
        "    return [['the', 'bank'], ['a', 'river']]\n",
        encoding="utf-8",
    )
    args = arguments(tmp_path, "--code", str(code))
    config = tmp_path / "config.cfg"
    text = CONFIG.replace('"spacy-elmo.TextCorpus.v1"\npath = ${paths.train}', '"two_sentences.v1"')
    config.write_text(text, encoding="utf-8")
    done = invoke(*args)
    assert done.exit_code == 0, done.output
    assert "4 tokens, 2 sentences" in done.output


def test_a_faulty_text_is_one_message_and_no_traceback(tmp_path):
    args = arguments(tmp_path)
    (tmp_path / "train.txt").write_bytes(b"Fine.\nAlso fine.\n\xff\n")
    done = run(*args)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "Traceback" not in output
    assert "Training failed" in output
    assert re.search(r"train\.txt, line 3:\sbyte 1 of the line", output)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--training.batch_sise", "3"], r"\[training\] 'batch_sise' is unknown"),
        (["--nowhere.size", "3"], r"config\.cfg: .*nowhere"),
        (["--paths.dev", "nowhere.txt"], r"\[corpora.dev\] path is 'nowhere.txt', which does"),
        (["--training.optimizer.learn_rate", "1e30"], r"step \d+; expected finite numbers"),
        (["--corpora.train.lang", "nolang"], r"\[corpora.train\] lang is 'nolang'"),
    ],
)
def test_faults_end_with_status_1_and_a_message(tmp_path, options, message):
    done = invoke(*arguments(tmp_path, *options))
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert re.search(message, " ".join(done.output.split()))


def test_ctrl_c_before_training_starts(tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("spacy_elmo.cli.train.train", interrupted)
    done = invoke(*arguments(tmp_path))
    assert done.exit_code == 130
    assert "Stopped" in done.output


def test_a_config_that_is_not_there(tmp_path):
    done = invoke("train", str(tmp_path / "nowhere.cfg"), "--output", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "nowhere.cfg" in re.sub(r"\W*\n\W*", "", done.output)


def test_the_output_is_required(tmp_path):
    done = invoke("train", str(write_config(tmp_path)))
    assert done.exit_code == 2
    assert "--output" in done.output


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to one process")
def test_ctrl_c_saves_the_last_model(tmp_path):
    args = arguments(tmp_path, "--training.max_epochs", "100000")
    command = [sys.executable, "-m", "spacy", "elmo", *args]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", env=ENVIRONMENT
    )
    for line in process.stdout:
        # The header of the table of evaluations: training starts.
        if "tokens/s" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in output
    assert re.search(r"Stopped after step \d+", output)
    assert BiLM.from_pretrained(tmp_path / "out" / "model-last").width == 12
