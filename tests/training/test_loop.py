"""The training loop: counts, determinism, learning, and ends of every kind."""

import json
import math
import signal
import threading
from pathlib import Path

import numpy
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.token_reader import TokenReader
from spacy_elmo.training import (
    EncodedText,
    TrainingConfig,
    Vocabulary,
    WordStream,
    evaluate,
    load_language_model,
    train,
)
from spacy_elmo.training.checkpoints import read_checkpoint
from spacy_elmo.training.distributed import World, find_device
from spacy_elmo.training.progress import count_steps
from spacy_elmo.training.registry import registry
from spacy_elmo.training.steps import Windows

from .configs import Recorder, StopAt, make_config, make_quick_config, read_all, read_models
from .conftest import make_sentences


def test_fifty_sentences_and_two_epochs_take_the_steps_announced(tmp_path):
    """Pitfall 8."""
    recorder = Recorder()
    result = train(make_quick_config(tmp_path), tmp_path / "out", reporter=recorder)
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
    train(make_quick_config(tmp_path), tmp_path / "out", reporter=recorder)
    model, vocabulary = load_language_model(tmp_path / "out" / "model-best")
    (plan,) = recorder.plans
    assert plan.n_words == len(vocabulary)
    assert plan.n_parameters == sum(p.numel() for p in model.bilm.parameters())
    assert plan.n_softmax_parameters == len(vocabulary) * 7


@pytest.mark.parametrize(
    "limits, n_steps", [((3, 0), 30), ((0, 7), 7), ((3, 7), 7), ((3, 700), 30), ((0, 0), None)]
)
def test_the_first_limit_counts(tmp_path, limits, n_steps):
    epochs, steps = limits
    changes = {"training.max_epochs": epochs, "training.max_steps": steps}
    changes["training.max_hours"] = 1.0
    config = TrainingConfig.from_dict(make_quick_config(tmp_path, changes))
    assert count_steps(config.training, steps_an_epoch=10) == n_steps


@pytest.mark.parametrize("order", ["shuffled", "text"])
def test_the_same_config_gives_the_same_bytes(tmp_path, order):
    changes = {"training.order": order, "training.max_epochs": 1, "training.eval_frequency": 15}
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        torch.manual_seed(len(name))
        train(make_quick_config(tmp_path, {**changes, "training.seed": seed}), tmp_path / name)
    first, second, other = (read_models(tmp_path / run) for run in "abc")
    assert len(first) == 8
    assert first == second
    weights = [name for name in first if name.suffix == ".safetensors"]
    assert all(first[name] != other[name] for name in weights)


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(make_quick_config(tmp_path, {"training.max_steps": 2}), tmp_path / "out")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("setting, used", [(0, 1), (3, 3)])
def test_the_number_of_threads_is_set_for_the_run_only(tmp_path, setting, used):
    class Threads(Recorder):
        def stepped(self, step):
            self.steps.append(torch.get_num_threads())

    recorder = Threads()
    changes = {"training.n_threads": setting, "training.max_steps": 1}
    train(make_quick_config(tmp_path, changes), tmp_path / "out", reporter=recorder)
    assert recorder.steps == [used]
    assert torch.get_num_threads() == 1


def test_the_models_saved_are_those_of_the_log(tmp_path):
    """The log's perplexities come back from the files, best and last."""
    recorder = Recorder()
    config = make_quick_config(
        tmp_path,
        # A rate at which the held-out text gets worse and worse.
        {"training.eval_frequency": 7, "training.optimizer.learn_rate": 1.0}
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
        stream = WordStream.from_sentences(sentences)
        text = EncodedText(stream, vocabulary, model.bilm.token_layer.reader)
        scores = evaluate(model, text)
        assert scores["forward"] == pytest.approx(line["forward_perplexity"], rel=1e-5)
        assert scores["backward"] == pytest.approx(line["backward_perplexity"], rel=1e-5)
        assert scores["mean"] == pytest.approx(line["perplexity"], rel=1e-5)
        metadata = json.loads((tmp_path / "out" / name / "config.json").read_bytes())["metadata"]
        assert metadata["step"] == line["step"]


def test_the_loss_of_the_log_is_the_mean_over_predictions(tmp_path):
    """Steps differ in how much they predict, so the mean of their means is another number."""
    recorder = Recorder()
    config = make_quick_config(tmp_path, {"training.unroll_steps": 3, "training.max_epochs": 1})
    train(config, tmp_path / "out", reporter=recorder)
    resolved = TrainingConfig.from_dict(config)
    stream = WordStream.from_sentences(resolved.train)
    vocabulary = Vocabulary.from_counts(stream.count_words())
    text = EncodedText(stream, vocabulary, TokenReader(resolved.bilm))
    windows = Windows(text, resolved.training, World(0, 1, torch.device("cpu")))
    sizes = [
        sum(batch.n_predictions for batch in windows.of_step(step))
        for step in range(len(recorder.steps))
    ]
    losses = [step.loss for step in recorder.steps]
    ((evaluation, _),) = recorder.evaluations
    assert evaluation.loss == pytest.approx(numpy.average(losses, weights=sizes))
    assert evaluation.loss != pytest.approx(numpy.mean(losses))


def test_the_warm_state_is_that_of_the_first_training_sentences(tmp_path):
    train(make_quick_config(tmp_path), tmp_path / "out")
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
    config = make_quick_config(tmp_path, changes)
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
        train(make_quick_config(tmp_path, changes), tmp_path / order, reporter=recorder)
        losses[order] = [step.loss for step in recorder.steps]
    assert len(set(losses["text"])) == 1
    assert len(set(losses["shuffled"])) == 3


def test_the_schedule_scales_the_learning_rate(tmp_path):
    changes = {
        "training.schedule": {"@torch_schedules": "spacy-elmo.warmup_linear.v1", "warmup_steps": 2}
    }
    recorder = Recorder()
    config = make_quick_config(tmp_path, {**changes, "training.max_steps": 6})
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
        train(make_quick_config(tmp_path, changes), tmp_path / "out", overwrite=True)
        model, _ = load_language_model(tmp_path / "out" / "model-last")
        moved.append(model.bilm.forward_lstm.layers[0].bias.detach().norm().item())
    assert moved[0] < 0.2 * 1e-4
    assert moved[1] > 10 * moved[0]


def test_a_vocabulary_file_is_used_as_it_is(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("<S>\n</S>\n<UNK>\nriver\nbank\nunseen\n", encoding="utf-8")
    config = make_quick_config(tmp_path)
    config["vocab"] = {"path": str(path)}
    recorder = Recorder()
    train(config, tmp_path / "out", reporter=recorder)
    assert (tmp_path / "out" / "model-best" / "vocab.txt").read_bytes() == path.read_bytes()
    assert 0.5 < recorder.plans[0].unknown_rate < 1


def test_faults_of_the_vocabulary_are_named_with_the_block(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("<S>\n</S>\n<UNK>\nriver\n\n", encoding="utf-8")
    config = make_quick_config(tmp_path)
    config["vocab"] = {"path": str(path)}
    recorder = Recorder()
    with pytest.raises(ValueError, match=r"\[vocab\] path: .*words\.txt, line 5: a blank entry"):
        train(config, tmp_path / "out", reporter=recorder)
    # Before the texts are read.
    assert not recorder.texts
    with pytest.raises(ValueError, match=r"\[vocab\] min_count is 9999: the vocabulary has 3"):
        train(make_quick_config(tmp_path, {"vocab.min_count": 9999}), tmp_path / "out")


def test_rows_that_outnumber_the_positions(tmp_path):
    changes = {"training.batch_size": 5000, "training.max_epochs": 3}
    recorder = Recorder()
    train(make_quick_config(tmp_path, changes), tmp_path / "out", reporter=recorder)
    assert recorder.plans[0].n_steps == len(recorder.steps) == 3


def test_an_hour_limit_ends_the_run_with_an_evaluation(tmp_path):
    recorder = Recorder()
    config = make_quick_config(tmp_path, {"training.max_hours": 1e-9})
    result = train(config, tmp_path / "out", reporter=recorder)
    assert result.n_steps == 1 and result.best.step == 1 and not result.is_interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_last_model_and_ends_the_run(tmp_path, number):
    handler = signal.getsignal(number)
    reporter = StopAt(3, number)
    result = train(make_quick_config(tmp_path), tmp_path / "out", reporter=reporter)
    assert result.is_interrupted and result.best is None
    assert result.n_steps == len(reporter.steps) == 3
    assert signal.getsignal(number) is handler
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["checkpoint.pt", "model-last"]
    # The weights are those after the last step.
    train(make_quick_config(tmp_path, {"training.max_steps": 3}), tmp_path / "short")
    short, ours = (
        load_language_model(tmp_path / name / "model-last")[0] for name in ("short", "out")
    )
    for mine, theirs in zip(ours.parameters(), short.parameters()):
        assert torch.equal(mine, theirs)


def test_training_works_outside_of_the_main_thread(tmp_path):
    results = []
    config = make_quick_config(tmp_path, {"training.max_steps": 2})
    thread = threading.Thread(target=lambda: results.append(train(config, tmp_path / "out")))
    thread.start()
    thread.join()
    assert results[0].n_steps == 2


@registry.torch_schedules.register("explosion.v1")
def build_explosion():
    """The weights grow beyond all bounds at the ninth step."""
    return lambda step, n_steps: 1e32 if step >= 8 else 1.0


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_loss_that_is_not_finite_keeps_what_was_saved(tmp_path, clip):
    config = make_quick_config(tmp_path, {"training.grad_clip": clip, "training.eval_frequency": 5})
    train({**config, "training": {**config["training"], "max_steps": 5}}, tmp_path / "five")
    config["training"]["schedule"] = {"@torch_schedules": "explosion.v1"}
    with pytest.raises(
        FloatingPointError,
        match=r"at step \d+; expected finite numbers\. Lower learn_rate in \[training.optimizer\]",
    ):
        train(config, tmp_path / "out")
    assert read_models(tmp_path / "out") == read_models(tmp_path / "five")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_perplexity_that_is_no_number_keeps_what_was_saved(tmp_path, monkeypatch, value):
    nothing = {"forward": value, "backward": 1.0, "mean": value}
    monkeypatch.setattr("spacy_elmo.training.loop.evaluate", lambda model, text: nothing)
    with pytest.raises(
        FloatingPointError, match=rf"held-out text is {value} after step 7, .* Lower"
    ):
        train(make_quick_config(tmp_path, {"training.max_steps": 7}), tmp_path / "out")
    assert list(read_all(tmp_path / "out")) == [Path("checkpoint.pt")]


@pytest.mark.parametrize("fault", ["config", "corpus"])
def test_a_run_that_fails_early_leaves_the_previous_result_whole(tmp_path, fault):
    train(make_config(tmp_path), tmp_path / "out")
    before = read_all(tmp_path / "out")
    config = make_config(tmp_path, {"training.seed": -1} if fault == "config" else None)
    if fault == "corpus":
        (tmp_path / "train.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(ValueError, match=r"seed is -1|train\.txt, line 2"):
        train(config, tmp_path / "out", overwrite=True)
    assert read_all(tmp_path / "out") == before


def test_a_wrong_config_makes_no_directory(tmp_path):
    with pytest.raises(ValueError, match="seed"):
        train(make_quick_config(tmp_path, {"training.seed": -1}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("patience", [1, 2])
def test_patience_ends_the_run(tmp_path, patience):
    # A rate at which the held-out text gets worse.
    changes = {"training.patience": patience, "training.optimizer.learn_rate": 0.3}
    changes |= {"training.eval_frequency": 2, "training.max_epochs": 50}
    recorder = Recorder()
    result = train(make_quick_config(tmp_path, changes), tmp_path / "out", reporter=recorder)
    assert result.ended_by == "patience"
    perplexities = [evaluation.perplexity for evaluation, _ in recorder.evaluations]
    best = perplexities.index(min(perplexities))
    assert len(perplexities) == best + 1 + patience
    assert result.best.step == 2 * (best + 1)


def test_hours_alone_limit_a_run(tmp_path):
    recorder = Recorder()
    changes = {"training.max_epochs": 0, "training.max_hours": 0.3 / 3600}
    result = train(make_quick_config(tmp_path, changes), tmp_path / "out", reporter=recorder)
    assert recorder.plans[0].n_steps is None
    assert result.ended_by == "max_hours" and result.n_steps > 1
    assert result.best.seconds > 0.25


def test_the_gradients_of_several_windows_make_one_step(tmp_path):
    """Windows of 3 and 3 positions, accumulated, are windows of 6 through which no gradient
    flows; with a learning rate of almost zero the losses of both are the same."""
    changes = {"training.optimizer.learn_rate": 1e-12, "bilm.dropout": 0.0}
    changes["training.max_epochs"] = 1
    changes["training.softmax"] = {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}
    losses = []
    for unroll, accumulation in ((6, 1), (3, 2), (2, 3)):
        changes |= {"training.unroll_steps": unroll, "training.grad_accumulation": accumulation}
        recorder = Recorder()
        train(make_quick_config(tmp_path, changes), tmp_path / str(unroll), reporter=recorder)
        losses.append([step.loss for step in recorder.steps])
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert losses[2] == pytest.approx(losses[0], abs=1e-5)


def test_fifty_sentences_with_accumulation_take_the_steps_announced(tmp_path):
    recorder = Recorder()
    config = make_quick_config(tmp_path, {"training.grad_accumulation": 3})
    train(config, tmp_path / "out", reporter=recorder)
    n_tokens = sum(map(len, make_sentences(50)))
    n_windows = math.ceil((n_tokens + 2 * 50) / (4 * 5))
    assert recorder.plans[0].steps_an_epoch == math.ceil(n_windows / 3)
    assert len(recorder.steps) == 2 * math.ceil(n_windows / 3)


def test_bfloat16_trains_alike_and_saves_float32(tmp_path):
    losses = {}
    for precision in ("float32", "bfloat16"):
        recorder = Recorder()
        changes = {"training.precision": precision, "training.max_epochs": 1, "bilm.dropout": 0.0}
        changes["training.softmax"] = {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}
        train(make_quick_config(tmp_path, changes), tmp_path / precision, reporter=recorder)
        losses[precision] = [step.loss for step in recorder.steps]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.02)
    assert losses["bfloat16"] != losses["float32"]
    checkpoint = read_checkpoint(tmp_path / "bfloat16" / "checkpoint.pt")
    assert {values.dtype for values in checkpoint["model"].values()} == {torch.float32}
    slots = [
        slot for values in checkpoint["optimizer"]["state"].values() for slot in values.values()
    ]
    assert {slot.dtype for slot in slots} == {torch.float32}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_named(tmp_path):
    recorder = Recorder()
    for device in ("cuda", "cuda:3"):
        config = make_quick_config(tmp_path, {"training.device": device})
        with pytest.raises(ValueError, match=rf"\[training\] device is '{device}', .* finds 0"):
            train(config, tmp_path / "out", reporter=recorder)
    assert not recorder.texts
    assert find_device("auto") == torch.device("cpu")
    train(
        make_quick_config(tmp_path, {"training.device": "auto"}),
        tmp_path / "out",
        reporter=recorder,
    )
    assert recorder.plans[0].device == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_gpu_trains_alike(tmp_path):
    losses = {}
    for device in ("cpu", "cuda"):
        recorder = Recorder()
        changes = {"training.device": device, "bilm.dropout": 0.0}
        changes["training.softmax"] = {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}
        train(make_quick_config(tmp_path, changes), tmp_path / device, reporter=recorder)
        losses[device] = [step.loss for step in recorder.steps]
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=1e-3)
