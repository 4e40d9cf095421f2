"""``spacy elmo evaluate`` as a user runs it."""

import json
import math
import subprocess
import sys

import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.adaptive_softmax import build_adaptive_softmax_v1
from spacy_elmo.bilm.softmax import FullSoftmax
from spacy_elmo.training import (
    LanguageModel,
    Vocabulary,
    load_language_model,
    save_language_model,
    score_sentences,
    train,
)

from ..conftest import random_bilm
from ..training.configs import make_config
from ..training.conftest import WORDS, make_sentences
from .commands import invoke, one_line


@pytest.fixture
def model_path(tmp_path):
    bilm = random_bilm()
    vocabulary = Vocabulary.from_counts(dict.fromkeys(WORDS, 1))
    head = FullSoftmax(bilm.config.projection_dim, torch.ones(len(vocabulary)))
    save_language_model(LanguageModel(bilm, head), vocabulary, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def sentences():
    return [*make_sentences(12), ["the", "Zyzzyva", "runs"]]


@pytest.fixture
def text_path(tmp_path, sentences):
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
    return path


def evaluate(*args):
    done = invoke("evaluate", *args)
    assert done.exit_code == 0, done.output
    return done


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_summary_is_shown(model_path, text_path, sentences):
    shown = one_line(evaluate(model_path, text_path).stdout)
    values = json.loads(evaluate(model_path, text_path, "--json").stdout)
    n_tokens = sum(map(len, sentences))
    assert f"Text {n_tokens} tokens, 13 sentences" in shown
    assert f"Unknown {1 / n_tokens:.2%} of the tokens" in shown
    assert f"Predictions {n_tokens + 13} a direction" in shown
    for name in ("Forward", "Backward", "Mean"):
        assert f"{name} perplexity {values[name.lower()]:.2f}" in shown
    assert values["n_tokens"] == n_tokens and values["n_predictions"] == n_tokens + 13


def test_it_agrees_with_the_log_of_training(tmp_path):
    """The held-out text of a run gets the perplexity that the run told of its best model."""
    result = train(make_config(tmp_path), tmp_path / "out")
    found = json.loads(
        evaluate(tmp_path / "out" / "model-best", tmp_path / "dev.txt", "--json").stdout
    )
    assert found["forward"] == pytest.approx(result.best.forward_perplexity, rel=1e-5)
    assert found["backward"] == pytest.approx(result.best.backward_perplexity, rel=1e-5)
    assert found["mean"] == pytest.approx(result.best.perplexity, rel=1e-5)


def test_scores_of_sentences_and_tokens(model_path, text_path, sentences, tmp_path):
    by_sentence, by_token = tmp_path / "new" / "sentences.jsonl", tmp_path / "tokens.jsonl"
    options = ["--sentences", by_sentence, "--tokens", by_token, "--json"]
    summary = json.loads(evaluate(model_path, text_path, *options).stdout)
    model, vocabulary = load_language_model(model_path)
    scores = list(score_sentences(model, vocabulary, sentences))

    tokens = read_lines(by_token)
    assert [line["words"] for line in tokens] == sentences
    for line, score in zip(tokens, scores):
        assert line["forward"] == pytest.approx(score.forward, abs=1e-5)
        assert line["backward"] == pytest.approx(score.backward, abs=1e-5)
        assert line["unknown"] == score.unknown
    assert tokens[-1]["unknown"] == [False, True, False]

    found = read_lines(by_sentence)
    assert [line["words"] for line in found] == sentences
    for line, score in zip(found, scores):
        assert line["forward"] == pytest.approx(sum(score.forward), abs=1e-4)
        assert line["backward"] == pytest.approx(sum(score.backward), abs=1e-4)
        assert line["n_predictions"] == len(line["words"]) + 1
    assert sum(line["n_unknown"] for line in found) == 1
    total = sum(line["forward"] for line in found)
    assert math.exp(-total / summary["n_predictions"]) == pytest.approx(summary["forward"])


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_the_batch_size_changes_nothing(model_path, tmp_path, batch_size, monkeypatch):
    monkeypatch.setattr("spacy_elmo.training.rows.POSITIONS_A_ROW", 20)
    text = tmp_path / "long.txt"
    text.write_text("\n".join(map(" ".join, make_sentences(80))), encoding="utf-8")
    expected = json.loads(evaluate(model_path, text, "--json", "--batch-size", 64).stdout)
    found = json.loads(evaluate(model_path, text, "--json", "--batch-size", batch_size).stdout)
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_standard_output_has_the_scores_alone(model_path, text_path, sentences):
    done = evaluate(model_path, text_path, "--tokens", "-")
    assert [json.loads(line)["words"] for line in done.stdout.splitlines()] == sentences
    assert "Forward perplexity" in done.stderr


def test_tokenized_text_and_a_limit(model_path, tmp_path):
    path = tmp_path / "tokenized.txt"
    path.write_text("the bank's runs .\nthe old\na river\n", encoding="utf-8")
    output = tmp_path / "tokens.jsonl"
    evaluate(model_path, path, "--tokenized", "--limit", 2, "--tokens", output)
    assert [line["words"] for line in read_lines(output)] == [
        ["the", "bank's", "runs", "."],
        ["the", "old"],
    ]


def test_an_adaptive_softmax_is_evaluated(model_path, text_path):
    model, vocabulary = load_language_model(model_path)
    make_head = build_adaptive_softmax_v1(cutoffs=[5, 11])
    model.head = make_head(model.bilm.config.projection_dim, torch.ones(len(vocabulary)))
    save_language_model(model, vocabulary, model_path)
    values = json.loads(evaluate(model_path, text_path, "--json").stdout)
    assert 1 < values["mean"] < 1000


def test_a_bilm_without_a_softmax_is_one_message(text_path, tmp_path):
    """In a process of its own: no traceback."""
    random_bilm().save_pretrained(tmp_path / "bilm")
    assert BiLM.from_pretrained(tmp_path / "bilm").width == 24
    command = [sys.executable, "-m", "spacy", "elmo", "evaluate", tmp_path / "bilm", text_path]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "gives vectors, but no probabilities" in one_line(done.stdout)


@pytest.mark.parametrize(
    "model, text, options, message",
    [
        ("nowhere", "text.txt", [], "nowhere"),
        ("text.txt", "text.txt", [], "has no vocab.txt and no softmax.safetensors: a biLM"),
        ("model", "nowhere.txt", [], "nowhere.txt', which does not exist"),
        ("model", "text.txt", ["--lang", "nolang"], "lang is 'nolang'"),
        ("model", "text.txt", ["--device", "tpu"], "--device is 'tpu'; expected cpu, cuda, cuda:N"),
        ("model", "text.txt", ["--tokens", "model"], "model is a directory; expected the path of"),
        ("model", "text.txt", ["--tokens", "-", "--sentences", "-"], "are both -; expected two"),
    ],
)
def test_faults_are_one_message(
    model_path, text_path, tmp_path, monkeypatch, model, text, options, message
):
    monkeypatch.chdir(tmp_path)
    done = invoke("evaluate", model, text, *options)
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert message in one_line(done.output)


def test_a_failed_evaluation_leaves_the_scores_of_before(model_path, tmp_path):
    output = tmp_path / "tokens.jsonl"
    output.write_text("before", encoding="utf-8")
    text = tmp_path / "bad.txt"
    text.write_bytes(b"the bank\n\xff\n")
    done = invoke("evaluate", model_path, text, "--tokens", output)
    assert done.exit_code == 1 and "line 2" in one_line(done.output)
    assert output.read_text(encoding="utf-8") == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"model", "bad.txt", "tokens.jsonl"}


def test_the_text_is_not_overwritten(model_path, text_path):
    before = text_path.read_bytes()
    done = invoke("evaluate", model_path, text_path, "--sentences", text_path)
    assert done.exit_code == 1 and "is the text itself" in one_line(done.output)
    assert text_path.read_bytes() == before


def test_ctrl_c_is_one_message(model_path, text_path, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("spacy_elmo.cli.evaluate.summarize", interrupted)
    done = invoke("evaluate", model_path, text_path, "--tokens", tmp_path / "tokens.jsonl")
    assert done.exit_code == 130 and "Stopped" in done.output
    assert not (tmp_path / "tokens.jsonl").exists()
