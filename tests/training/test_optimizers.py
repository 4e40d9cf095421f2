"""Registered optimizers and schedules."""

import pytest
import torch

from spacy_elmo.training.optimizers import (
    build_adagrad_v1,
    build_adamw_v1,
    build_constant_v1,
    build_warmup_cosine_v1,
    build_warmup_linear_v1,
)
from spacy_elmo.training.registry import registry


def test_adagrad_makes_bilm_tfs_first_step():
    """TensorFlow's accumulator starts at 1.0: weight - 0.2 * g / sqrt(1 + g * g)."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = build_adagrad_v1()([weight])
    weight.grad = torch.tensor([3.0])
    optimizer.step()
    assert weight.item() == pytest.approx(-0.2 * 3 / 10**0.5)


def test_adamw_takes_its_settings():
    weight = torch.nn.Parameter(torch.ones(1))
    make = build_adamw_v1(learn_rate=0.5, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.1)
    optimizer = make([weight])
    weight.grad = torch.tensor([2.0])
    optimizer.step()
    # The first step is g / |g| (but for eps) times the rate, after the decay.
    assert weight.item() == pytest.approx((1 - 0.5 * 0.1) - 0.5 * 2 / (2 + 1e-3), rel=1e-5)
    assert optimizer.param_groups[0]["betas"] == (0.8, 0.9)


def test_constant_schedule():
    schedule = build_constant_v1()
    assert {schedule(step, 100) for step in (0, 50, 99)} == {1.0}


def test_constant_schedule_with_a_warm_up():
    schedule = build_constant_v1(warmup_steps=4)
    # Nothing depends on the number of steps.
    assert [schedule(step, None) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_warmup_cosine_schedule():
    schedule = build_warmup_cosine_v1(warmup_steps=2, final_rate=0.2)
    factors = [schedule(step, 10) for step in range(11)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    # Half of the way down after half of the steps, and flat at both ends.
    assert factors[6] == pytest.approx(0.6)
    assert factors[10] == pytest.approx(0.2)
    falls = [before - after for before, after in zip(factors[2:], factors[3:])]
    assert falls == pytest.approx(falls[::-1])
    assert falls[0] < falls[3] and min(falls) > 0
    # Past the end, and with nothing but a warm-up.
    assert schedule(12, 10) == pytest.approx(0.2)
    assert schedule(1, 2) == 1.0


@pytest.mark.parametrize("build", [build_warmup_linear_v1, build_warmup_cosine_v1])
def test_schedules_that_need_the_number_of_steps_say_so(build):
    with pytest.raises(ValueError, match="set max_epochs or max_steps in .training."):
        build(warmup_steps=3)(0, None)


def test_warmup_linear_schedule_rises_then_falls_to_the_end_of_the_run():
    schedule = build_warmup_linear_v1(warmup_steps=4)
    factors = [schedule(step, 12) for step in range(12)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    falls = [before - after for before, after in zip(factors[4:], factors[5:])]
    assert falls == pytest.approx([1 / 8] * 7)
    assert schedule(12, 12) == 0
    assert build_warmup_linear_v1()(0, 10) == 1.0
    # A run that is shorter than its warm-up.
    assert schedule(3, 3) == 1.0


@pytest.mark.parametrize(
    "kind, name",
    [
        ("torch_optimizers", "spacy-elmo.AdamW.v1"),
        ("torch_optimizers", "spacy-elmo.Adagrad.v1"),
        ("torch_schedules", "spacy-elmo.constant.v1"),
        ("torch_schedules", "spacy-elmo.warmup_linear.v1"),
        ("torch_schedules", "spacy-elmo.warmup_cosine.v1"),
        ("softmax_heads", "spacy-elmo.FullSoftmax.v1"),
        ("softmax_heads", "spacy-elmo.SampledSoftmax.v1"),
    ],
)
def test_all_are_registered(kind, name):
    assert callable(registry.resolve({"block": {f"@{kind}": name}})["block"])


@pytest.mark.parametrize(
    "build, values, message",
    [
        (build_adamw_v1, {"learn_rate": 0.0}, "learn_rate is 0.0; expected a number above 0"),
        (build_adamw_v1, {"learn_rate": float("nan")}, "learn_rate is nan"),
        (build_adamw_v1, {"eps": -1.0}, "eps is -1.0"),
        (build_adamw_v1, {"beta1": 1.0}, "beta1 is 1.0; expected a number from 0"),
        (build_adamw_v1, {"beta2": -0.1}, "beta2 is -0.1"),
        (build_adamw_v1, {"weight_decay": -0.1}, "weight_decay is -0.1; expected 0 or more"),
        (build_adagrad_v1, {"learn_rate": -0.2}, "learn_rate is -0.2"),
        (build_adagrad_v1, {"initial_accumulator": -1.0}, "initial_accumulator is -1.0"),
        (build_warmup_linear_v1, {"warmup_steps": -1}, "warmup_steps is -1; expected 0 or more"),
        (build_constant_v1, {"warmup_steps": -1}, "warmup_steps is -1; expected 0 or more"),
        (build_warmup_cosine_v1, {"warmup_steps": -1}, "warmup_steps is -1; expected 0 or more"),
        (build_warmup_cosine_v1, {"final_rate": 1.5}, "final_rate is 1.5; expected a part of the"),
    ],
)
def test_values_out_of_range_are_refused(build, values, message):
    with pytest.raises(ValueError, match=message):
        build(**values)
