"""Registered torch optimizers and learning-rate schedules."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Callable, Iterable, Optional

import torch
from torch import nn

#: What a config's optimizer block gives: parameters -> optimizer. The optimizer's learning rate
#: is the highest one; a schedule scales it down.
OptimizerMaker = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

#: What a config's schedule block gives: (step, counted from 0; steps of the run, none where only
#: max_hours ends it) -> factor on the optimizer's learning rate. One that needs the number of
#: steps raises a ValueError where there is none. A run that is resumed with other limits goes on
#: with the factors of the new number of steps.
Schedule = Callable[[int, Optional[int]], float]


def build_adamw_v1(
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
    # Fused, a step reads and writes each number once, which makes it several times faster.
    return partial(
        torch.optim.AdamW,
        lr=learn_rate,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
        fused=True,
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
class Constant:
    """A factor that rises from near 0 to 1, then stays there."""

    warmup_steps: int

    def __call__(self, step: int, n_steps: Optional[int]) -> float:
        return min(1.0, (step + 1) / max(1, self.warmup_steps))


@dataclass(frozen=True)
class WarmupLinear:
    """A factor that rises from near 0 to 1, then falls to 0 at the end of the run."""

    warmup_steps: int

    def __call__(self, step: int, n_steps: Optional[int]) -> float:
        rest = _part_left(step, n_steps, self.warmup_steps)
        return (step + 1) / self.warmup_steps if step < self.warmup_steps else rest


@dataclass(frozen=True)
class WarmupCosine:
    """A factor that rises from near 0 to 1, then falls to a last one, slowly at both ends."""

    warmup_steps: int
    final_rate: float

    def __call__(self, step: int, n_steps: Optional[int]) -> float:
        rest = _part_left(step, n_steps, self.warmup_steps)
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        return self.final_rate + (1 - self.final_rate) * (1 - math.cos(math.pi * rest)) / 2


def _part_left(step: int, n_steps: Optional[int], warmup_steps: int) -> float:
    """Part of the steps after the warm-up that are still to come."""
    if n_steps is None:
        raise ValueError(
            "this schedule ends with the run, whose number of steps is not known before: set "
            "max_epochs or max_steps in [training] (max_hours may still end it sooner), or use "
            "spacy-elmo.constant.v1."
        )
    return min(1.0, max(0.0, (n_steps - step) / max(1, n_steps - warmup_steps)))


def build_constant_v1(*, warmup_steps: int = 0) -> Schedule:
    """The same learning rate at every step, but for those of the warm-up.

    :param warmup_steps: steps until the rate is reached.
    :raises ValueError: ``warmup_steps`` is below 0.
    """
    _require_warmup(warmup_steps)
    return Constant(warmup_steps)


def build_warmup_linear_v1(*, warmup_steps: int = 0) -> Schedule:
    """A learning rate that rises for some steps, then falls in a straight line to 0 at the end of
    the run.

    :param warmup_steps: steps until the highest rate is reached.
    :raises ValueError: ``warmup_steps`` is below 0.
    """
    _require_warmup(warmup_steps)
    return WarmupLinear(warmup_steps)


def build_warmup_cosine_v1(*, warmup_steps: int = 0, final_rate: float = 0.0) -> Schedule:
    """A learning rate that rises for some steps, then falls along half a cosine (Loshchilov &
    Hutter 2017) until the end of the run.

    :param warmup_steps: steps until the highest rate is reached.
    :param final_rate: what it falls to, as a part of the highest rate.
    :raises ValueError: a value is out of its range.
    """
    _require_warmup(warmup_steps)
    if not 0 <= final_rate <= 1:
        raise ValueError(f"final_rate is {final_rate}; expected a part of the rate, 0 to 1.")
    return WarmupCosine(warmup_steps, final_rate)


def _require_warmup(warmup_steps: int) -> None:
    if warmup_steps < 0:
        raise ValueError(f"warmup_steps is {warmup_steps}; expected 0 or more.")


def _require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} is {value}; expected a number above 0.")
