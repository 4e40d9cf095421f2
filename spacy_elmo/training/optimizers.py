"""Registered torch optimizers and learning-rate schedules."""

from dataclasses import dataclass
from functools import partial
from typing import Callable, Iterable

import torch
from torch import nn

#: What a config's optimizer block gives: parameters -> optimizer. The optimizer's learning rate
#: is the highest one; a schedule scales it down.
OptimizerMaker = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

#: What a config's schedule block gives: (step, counted from 0; steps of the run) -> factor on the
#: optimizer's learning rate.
Schedule = Callable[[int, int], float]


def build_adam_v1(
    *,
    learn_rate: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> OptimizerMaker:
    """Adam (Kingma & Ba 2015), with decoupled weight decay (Loshchilov & Hutter 2019).

    :param learn_rate: the highest learning rate.
    :param weight_decay: part of each weight taken off a step, times the learning rate.
    :raises ValueError: a value is out of its range.
    """
    _require_positive("learn_rate", learn_rate)
    _require_positive("eps", eps)
    for name, beta in (("beta1", beta1), ("beta2", beta2)):
        if not 0 <= beta < 1:
            raise ValueError(f"{name} is {beta}; expected a number from 0 up to 1, 1 excluded.")
    if weight_decay < 0:
        raise ValueError(f"weight_decay is {weight_decay}; expected 0 or more.")
    return partial(
        torch.optim.AdamW,
        lr=learn_rate,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
    )


def build_adagrad_v1(
    *, learn_rate: float = 0.2, initial_accumulator: float = 1.0
) -> OptimizerMaker:
    """Adagrad (Duchi et al. 2011); the defaults are bilm-tf's.

    :param learn_rate: the highest learning rate.
    :param initial_accumulator: start value of the sums of squared gradients.
    :raises ValueError: a value is out of its range.
    """
    _require_positive("learn_rate", learn_rate)
    if initial_accumulator < 0:
        raise ValueError(f"initial_accumulator is {initial_accumulator}; expected 0 or more.")
    return partial(
        torch.optim.Adagrad, lr=learn_rate, initial_accumulator_value=initial_accumulator
    )


@dataclass(frozen=True)
class WarmupLinear:
    """A factor that rises from near 0 to 1, then falls to 0 at the end of the run."""

    warmup_steps: int

    def __call__(self, step: int, n_steps: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        return max(0.0, (n_steps - step) / max(1, n_steps - self.warmup_steps))


def constant(step: int, n_steps: int) -> float:
    """A factor that is always 1."""
    return 1.0


def build_constant_v1() -> Schedule:
    """The same learning rate at every step."""
    return constant


def build_warmup_linear_v1(*, warmup_steps: int = 0) -> Schedule:
    """A learning rate that rises for some steps, then falls in a straight line to 0 at the end of
    the run.

    :param warmup_steps: steps until the highest rate is reached.
    :raises ValueError: ``warmup_steps`` is below 0.
    """
    if warmup_steps < 0:
        raise ValueError(f"warmup_steps is {warmup_steps}; expected 0 or more.")
    return WarmupLinear(warmup_steps)


def _require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} is {value}; expected a number above 0.")
