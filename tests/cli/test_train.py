"""``spacy elmo train`` as a user runs it."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy
import pytest
import torch
from typer.testing import CliRunner

from spacy_elmo import BiLM
from spacy_elmo.cli.app import elmo_cli
from spacy_elmo.training import load_language_model

from ..training.configs import CONFIG, read_models, write_texts

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
    assert re.search(r"Memory +about \d+ MB for training \(cpu\), beside the text", done.stdout)
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
    assert "train.txt, line 3: byte 1 of the line" in " ".join(output.split())


@pytest.mark.parametrize(
    "options, message",
    [
        (["--training.batch_sise", "3"], r"\[training\] 'batch_sise' is unknown"),
        (["--nowhere.size", "3"], r"config\.cfg: .*nowhere"),
        (["--paths.dev", "nowhere.txt"], r"\[corpora.dev\] path is 'nowhere.txt', which does"),
        (["--training.optimizer.learn_rate", "1e30"], r"step \d+; expected finite numbers"),
        (["--corpora.train.lang", "nolang"], r"\[corpora.train\] lang is 'nolang'"),
        (["--overwite"], r"No such option '?--overwite.* given with their block"),
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


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] . can't allocate memory: you tried"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 GiB."),
        MemoryError("Unable to allocate 8 GiB"),
    ],
)
def test_too_little_memory_is_a_message(tmp_path, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("spacy_elmo.cli.train.train", fail)
    done = invoke(*arguments(tmp_path))
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert "not enough memory" in done.output and "batch_size" in done.output


def test_other_errors_of_torch_are_not_hidden(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr("spacy_elmo.cli.train.train", fail)
    assert isinstance(invoke(*arguments(tmp_path)).exception, RuntimeError)


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
    assert "Go on with --resume" in " ".join(output.split())

    # As it went on to, so it goes on from.
    n_steps = int(re.search(r"Stopped after step (\d+)", output).group(1))
    # Without a limit on epochs, which a fast machine has passed by then.
    limits = ["--training.max_epochs", "0", "--training.max_steps", str(n_steps + 3)]
    args = [*args[:-2], *limits, "--resume"]
    done = invoke(*args)
    assert done.exit_code == 0, done.output
    output = " ".join(done.output.split())
    assert f"{n_steps:,} are made" in output and f"of step {n_steps + 3}" in output
    done = invoke(*args)
    assert done.exit_code == 0
    assert f"ended at step {n_steps + 3} by max_steps" in " ".join(done.output.split())


def test_a_run_is_replaced_only_where_that_is_asked_for(tmp_path):
    args = arguments(tmp_path, "--training.max_steps", "2")
    assert "starts anew" in " ".join(invoke(*args, "--resume").output.split())
    done = invoke(*args)
    assert done.exit_code == 1
    assert re.search("earlier run .* --resume .* --overwrite", " ".join(done.output.split()))
    assert invoke(*args, "--overwrite").exit_code == 0


def test_training_starts_from_another_model(tmp_path):
    assert invoke(*arguments(tmp_path, "--training.max_steps", "2")).exit_code == 0
    model = str(tmp_path / "out" / "model-best")
    args = arguments(tmp_path, "--init", model, "--training.max_steps", "1")
    args[args.index("--output") + 1] = str(tmp_path / "tuned")
    done = invoke(*args)
    assert done.exit_code == 0, done.output
    assert "biLM, vocabulary and softmax" in " ".join(done.output.split())


def test_hours_without_a_number_of_steps_and_patience(tmp_path):
    limits = ["--training.max_epochs", "0", "--training.max_hours", "0.0001"]
    done = invoke(*arguments(tmp_path, *limits))
    assert done.exit_code == 0, done.output
    assert "an epoch, no limit in all" in done.output
    assert "by max_hours" in done.output
    settings = ["--training.patience", "1", "--training.eval_frequency", "1", "--overwrite"]
    settings += ["--training.optimizer.learn_rate", "0.3", "--training.max_epochs", "50"]
    done = invoke(*arguments(tmp_path, *settings))
    assert done.exit_code == 0, done.output
    assert "by patience" in done.output


def test_a_logger_takes_the_place_of_the_table(tmp_path):
    args = arguments(tmp_path, "--training.max_steps", "2")
    config = tmp_path / "config.cfg"
    logger = '\n[training.logger]\n@loggers = "spacy.ConsoleLogger.v3"\n'
    config.write_text(CONFIG + logger, encoding="utf-8")
    done = invoke(*args)
    assert done.exit_code == 0, done.output
    assert "LOSS ELMO" in done.output and "tokens/s" not in done.output
    assert "2 in all" in done.output and "Held-out perplexity" in done.output


@pytest.mark.slow
def test_torchrun_shows_what_one_process_would(tmp_path):
    args = arguments(tmp_path, "--training.max_steps", "3")
    torchrun = (
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "spacy_elmo",
    )
    done = run(*args, module=torchrun)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Training text") == done.stdout.count("Held-out perplexity") == 1
    assert "by each of 2 processes" in done.stdout
    # The faults of one are not those of the run alone.
    done = run(*args, module=torchrun)
    assert done.returncode == 1
    assert "holds an earlier run" in " ".join((done.stdout + done.stderr).split())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_run_killed_again_and_again_ends_like_one_that_was_not(tmp_path):
    """The same command each time, from the start of the process on."""
    settings = ["--training.checkpoint_minutes", "0.001", "--training.eval_frequency", "40"]
    settings += ["--training.max_epochs", "10", "--resume"]
    args = arguments(tmp_path, *settings)
    command = [sys.executable, "-m", "spacy", "elmo", *args]
    moments = random.Random(0)
    n_kills = 0
    while n_kills < 30:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT
        )
        # The header of the table of evaluations comes when training starts.
        while (line := process.stdout.readline()) and b"tokens/s" not in line:
            pass
        try:
            # Longer from time to time, so that a busy machine gets on too.
            process.communicate(timeout=moments.uniform(0.2, 2.0) * (1 + n_kills / 10))
            break
        except subprocess.TimeoutExpired:
            n_kills += 1
            process.kill()
            process.communicate()
    assert process.returncode == 0 and n_kills >= 2
    args[args.index("--output") + 1] = str(tmp_path / "whole")
    assert invoke(*args).exit_code == 0
    assert read_models(tmp_path / "out") == read_models(tmp_path / "whole")
