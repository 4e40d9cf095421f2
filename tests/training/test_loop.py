"""The training loop: counts, determinism, learning, and ends of every kind."""

import json
import math
import os
import signal
import threading
from itertools import islice

import numpy
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.training import (
    EncodedText,
    Reporter,
    TrainingConfig,
    Vocabulary,
    WordStream,
    evaluate,
    load_language_model,
    train,
)
from spacy_elmo.training.loop import count_steps, iter_batches

from .configs import make_config
from .conftest import make_sentences


class Recorder(Reporter):
    def __init__(self):
        self.texts, self.plans, self.steps, self.evaluations = [], [], [], []

    def reading(self, what):
        self.texts.append(what)

    def planned(self, plan):
        assert not self.steps
        self.plans.append(plan)

    def stepped(self, step):
        self.steps.append(step)

    def evaluated(self, evaluation, is_best):
        self.evaluations.append((evaluation, is_best))


class StopAt(Recorder):
    """Sends this process a signal after a step."""

    def __init__(self, step, number=signal.SIGINT):
        super().__init__()
        self.step = step
        self.number = number

    def stepped(self, step):
        super().stepped(step)
        if step.step == self.step:
            os.kill(os.getpid(), self.number)


def read_all(directory):
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_fifty_sentences_and_two_epochs_take_the_steps_announced(tmp_path):
    """Pitfall 8."""
    recorder = Recorder()
    result = train(make_config(tmp_path), tmp_path / "out", reporter=recorder)
    n_tokens = sum(map(len, make_sentences(50)))
    (plan,) = recorder.plans
    assert (plan.n_tokens, plan.n_sentences) == (n_tokens, 50)
    assert plan.n_predictions == n_tokens + 50
    assert plan.steps_an_epoch == math.ceil((n_tokens + 2 * 50) / (4 * 5))
    assert plan.n_steps == 2 * plan.steps_an_epoch
    assert plan.dev_sentences == 3 and plan.unknown_rate == 0
    assert [step.step for step in recorder.steps] == list(range(1, plan.n_steps + 1))
    assert result.n_steps == plan.n_steps
    assert sum(step.n_tokens for step in recorder.steps) == pytest.approx(2 * n_tokens)
    assert len(recorder.texts) == 2


def test_parameters_are_counted(tmp_path):
    recorder = Recorder()
    train(make_config(tmp_path), tmp_path / "out", reporter=recorder)
    model, vocabulary = load_language_model(tmp_path / "out" / "model-best")
    (plan,) = recorder.plans
    assert plan.n_words == len(vocabulary)
    assert plan.n_parameters == sum(p.numel() for p in model.bilm.parameters())
    assert plan.n_softmax_parameters == len(vocabulary) * 7


@pytest.mark.parametrize(
    "limits, n_steps", [((3, 0), 30), ((0, 7), 7), ((3, 7), 7), ((3, 700), 30)]
)
def test_the_first_limit_counts(tmp_path, limits, n_steps):
    epochs, steps = limits
    changes = {"training.max_epochs": epochs, "training.max_steps": steps}
    config = TrainingConfig.from_dict(make_config(tmp_path, changes))
    assert count_steps(config.training, steps_an_epoch=10) == n_steps


@pytest.mark.parametrize("order", ["shuffled", "text"])
def test_the_same_config_gives_the_same_bytes(tmp_path, order):
    changes = {"training.order": order, "training.eval_frequency": 10}
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        torch.manual_seed(len(name))
        train(make_config(tmp_path, {**changes, "training.seed": seed}), tmp_path / name)
    first, second, other = (
        {name: data for name, data in read_all(tmp_path / run).items() if "log" not in str(name)}
        for run in "abc"
    )
    assert len(first) == 8
    assert first == second
    weights = [name for name in first if name.suffix == ".safetensors"]
    assert all(first[name] != other[name] for name in weights)


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(make_config(tmp_path, {"training.max_steps": 2}), tmp_path / "out")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("setting, used", [(0, 1), (3, 3)])
def test_the_number_of_threads_is_set_for_the_run_only(tmp_path, setting, used):
    class Threads(Recorder):
        def stepped(self, step):
            self.steps.append(torch.get_num_threads())

    recorder = Threads()
    changes = {"training.n_threads": setting, "training.max_steps": 1}
    train(make_config(tmp_path, changes), tmp_path / "out", reporter=recorder)
    assert recorder.steps == [used]
    assert torch.get_num_threads() == 1


def test_the_models_saved_are_those_of_the_log(tmp_path):
    """The log's perplexities come back from the files, best and last."""
    recorder = Recorder()
    config = make_config(
        tmp_path,
        # A rate at which the held-out text gets worse in the end.
        {"training.eval_frequency": 7, "training.optimizer.learn_rate": 0.3}
        | {"training.max_epochs": 3},
    )
    result = train(config, tmp_path / "out", reporter=recorder)
    lines = (tmp_path / "out" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    log = [json.loads(line) for line in lines]
    n_steps = recorder.plans[0].n_steps
    assert [line["step"] for line in log] == [*range(7, n_steps, 7), n_steps]
    assert log[-1]["epoch"] == 3.0
    assert {"loss", "learn_rate", "tokens_per_second", "seconds"} < set(log[0])
    best = min(log, key=lambda line: line["perplexity"])
    assert result.best.step == best["step"] < n_steps
    assert [is_best for _, is_best in recorder.evaluations].count(True) >= 1

    sentences = list(TrainingConfig.from_dict(config).dev)
    for name, line in (("model-best", best), ("model-last", log[-1])):
        model, vocabulary = load_language_model(tmp_path / "out" / name)
        text = EncodedText(WordStream.from_sentences(sentences), vocabulary, model.bilm.config)
        scores = evaluate(model, text)
        assert scores["forward"] == pytest.approx(line["forward_perplexity"], rel=1e-5)
        assert scores["backward"] == pytest.approx(line["backward_perplexity"], rel=1e-5)
        assert scores["mean"] == pytest.approx(line["perplexity"], rel=1e-5)
        metadata = json.loads((tmp_path / "out" / name / "config.json").read_bytes())["metadata"]
        assert metadata["step"] == line["step"]


def test_the_loss_of_the_log_is_the_mean_over_predictions(tmp_path):
    """Steps differ in how much they predict, so the mean of their means is another number."""
    recorder = Recorder()
    config = make_config(tmp_path, {"training.unroll_steps": 3, "training.max_epochs": 1})
    train(config, tmp_path / "out", reporter=recorder)
    resolved = TrainingConfig.from_dict(config)
    stream = WordStream.from_sentences(resolved.train)
    text = EncodedText(stream, Vocabulary.from_counts(stream.count_words()), resolved.bilm)
    batches = islice(iter_batches(text, resolved.training), len(recorder.steps))
    sizes = [batch.n_predictions for _, batch in batches]
    losses = [step.loss for step in recorder.steps]
    ((evaluation, _),) = recorder.evaluations
    assert evaluation.loss == pytest.approx(numpy.average(losses, weights=sizes))
    assert evaluation.loss != pytest.approx(numpy.mean(losses))


def test_the_warm_state_is_that_of_the_first_training_sentences(tmp_path):
    train(make_config(tmp_path), tmp_path / "out")
    bilm = BiLM.from_pretrained(tmp_path / "out" / "model-best")
    saved = bilm.warm_hidden.clone()
    bilm.warm_up(make_sentences(50)[:20])
    torch.testing.assert_close(saved, bilm.warm_hidden)
    embedded = bilm.embed([["the", "bank"]], initial_state="warm")
    assert embedded[0].shape == (3, 2, 12) and numpy.isfinite(embedded[0]).all()


@pytest.mark.parametrize("head", ["full", "sampled"])
def test_a_tiny_corpus_is_learned_by_heart_in_both_directions(tmp_path, head):
    changes = {
        "training.order": "text",
        "training.batch_size": 1,
        "training.unroll_steps": 50,
        "training.max_epochs": 150,
        "training.optimizer.learn_rate": 0.03,
        "bilm.dropout": 0.0,
        "bilm.projection_dim": 16,
        "bilm.cell_size": 24,
    }
    if head == "full":
        changes["training.softmax"] = {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}
    config = make_config(tmp_path, changes)
    text = "the old bank .\nI deposited it by the river .\na boat runs by the bank .\n"
    for name in ("train", "dev"):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    best = train(config, tmp_path / "out").best
    assert best.forward_perplexity < 1.1
    assert best.backward_perplexity < 1.1


def test_sentences_are_shuffled_anew_every_epoch_or_stay_in_order(tmp_path):
    """A corpus that is one window an epoch: its losses tell the order that was read."""
    losses = {}
    for order in ("shuffled", "text"):
        changes = {
            "training.order": order,
            "training.batch_size": 16,
            "training.unroll_steps": 10_000,
            "training.max_epochs": 3,
            "training.softmax": {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"},
            "training.optimizer.learn_rate": 1e-12,
            "bilm.dropout": 0.0,
        }
        recorder = Recorder()
        train(make_config(tmp_path, changes), tmp_path / order, reporter=recorder)
        losses[order] = [step.loss for step in recorder.steps]
    assert len(set(losses["text"])) == 1
    assert len(set(losses["shuffled"])) == 3


def test_the_schedule_scales_the_learning_rate(tmp_path):
    changes = {
        "training.schedule": {"@torch_schedules": "spacy-elmo.warmup_linear.v1", "warmup_steps": 2}
    }
    recorder = Recorder()
    config = make_config(tmp_path, {**changes, "training.max_steps": 6})
    train(config, tmp_path / "out", reporter=recorder)
    rates = [step.learn_rate / 0.01 for step in recorder.steps]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.25])


def test_gradients_are_clipped(tmp_path):
    """With plain Adagrad steps, a tiny norm moves the weights by a tiny step."""
    moved = []
    for clip in (1e-4, 0):
        changes = {
            "training.grad_clip": clip,
            "training.max_steps": 1,
            "training.optimizer": {"@torch_optimizers": "spacy-elmo.Adagrad.v1"},
        }
        train(make_config(tmp_path, changes), tmp_path / "out")
        model, _ = load_language_model(tmp_path / "out" / "model-last")
        moved.append(model.bilm.forward_lstm.layers[0].bias.detach().norm().item())
    assert moved[0] < 0.2 * 1e-4
    assert moved[1] > 10 * moved[0]


def test_a_vocabulary_file_is_used_as_it_is(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("<S>\n</S>\n<UNK>\nriver\nbank\nunseen\n", encoding="utf-8")
    config = make_config(tmp_path)
    config["vocab"] = {"path": str(path)}
    recorder = Recorder()
    train(config, tmp_path / "out", reporter=recorder)
    assert (tmp_path / "out" / "model-best" / "vocab.txt").read_bytes() == path.read_bytes()
    assert 0.5 < recorder.plans[0].unknown_rate < 1


def test_faults_of_the_vocabulary_are_named_with_the_block(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("<S>\n</S>\n<UNK>\nriver\n\n", encoding="utf-8")
    config = make_config(tmp_path)
    config["vocab"] = {"path": str(path)}
    recorder = Recorder()
    with pytest.raises(ValueError, match=r"\[vocab\] path: .*words\.txt, line 5: a blank entry"):
        train(config, tmp_path / "out", reporter=recorder)
    # Before the texts are read.
    assert not recorder.texts
    with pytest.raises(ValueError, match=r"\[vocab\] min_count is 9999: the vocabulary has 3"):
        train(make_config(tmp_path, {"vocab.min_count": 9999}), tmp_path / "out")


def test_rows_that_outnumber_the_positions(tmp_path):
    changes = {"training.batch_size": 5000, "training.max_epochs": 3}
    recorder = Recorder()
    train(make_config(tmp_path, changes), tmp_path / "out", reporter=recorder)
    assert recorder.plans[0].n_steps == len(recorder.steps) == 3


def test_an_hour_limit_ends_the_run_with_an_evaluation(tmp_path):
    recorder = Recorder()
    config = make_config(tmp_path, {"training.max_hours": 1e-9})
    result = train(config, tmp_path / "out", reporter=recorder)
    assert result.n_steps == 1 and result.best.step == 1 and not result.is_interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_last_model_and_ends_the_run(tmp_path, number):
    handler = signal.getsignal(number)
    result = train(make_config(tmp_path), tmp_path / "out", reporter=StopAt(3, number))
    assert result.is_interrupted and result.n_steps == 3 and result.best is None
    assert signal.getsignal(number) is handler
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model-last"]
    stopped = (tmp_path / "out" / "model-last" / "model.safetensors").read_bytes()
    # The weights are those after step 3.
    load_language_model(tmp_path / "out" / "model-last")
    train(make_config(tmp_path, {"training.max_steps": 3}), tmp_path / "short")
    short, _ = load_language_model(tmp_path / "short" / "model-last")
    for ours, theirs in zip(
        load_language_model(tmp_path / "out" / "model-last")[0].parameters(), short.parameters()
    ):
        assert torch.equal(ours, theirs)
    assert stopped


def test_training_works_outside_of_the_main_thread(tmp_path):
    results = []
    config = make_config(tmp_path, {"training.max_steps": 2})
    thread = threading.Thread(target=lambda: results.append(train(config, tmp_path / "out")))
    thread.start()
    thread.join()
    assert results[0].n_steps == 2


@pytest.mark.parametrize("rate, clip", [(1e30, 0.0), (1e30, 1.0)])
def test_a_loss_that_is_not_finite_keeps_what_was_saved(tmp_path, rate, clip):
    train(make_config(tmp_path), tmp_path / "out")
    before = read_all(tmp_path / "out")
    changes = {"training.optimizer.learn_rate": rate, "training.grad_clip": clip}
    with pytest.raises(
        FloatingPointError,
        match=r"at step \d+; expected finite numbers\. Lower learn_rate in \[training.optimizer\]",
    ):
        train(make_config(tmp_path, changes), tmp_path / "out")
    assert read_all(tmp_path / "out") == before


@pytest.mark.parametrize("fault", ["config", "corpus"])
def test_a_run_that_fails_early_leaves_the_previous_result_whole(tmp_path, fault):
    train(make_config(tmp_path), tmp_path / "out")
    before = read_all(tmp_path / "out")
    config = make_config(tmp_path, {"training.seed": -1} if fault == "config" else None)
    if fault == "corpus":
        (tmp_path / "train.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(ValueError, match=r"seed is -1|train\.txt, line 2"):
        train(config, tmp_path / "out")
    assert read_all(tmp_path / "out") == before


def test_a_wrong_config_makes_no_directory(tmp_path):
    with pytest.raises(ValueError, match="seed"):
        train(make_config(tmp_path, {"training.seed": -1}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("x", encoding="utf-8")
    with pytest.raises(OSError, match="out"):
        train(make_config(tmp_path), tmp_path / "out")
