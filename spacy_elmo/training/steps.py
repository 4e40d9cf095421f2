"""One training step: its windows, its gradients, its learning rate."""

import math
from dataclasses import dataclass
from typing import Any, Iterator, List, Optional

import numpy
import torch
from torch import Tensor, nn

from ..bilm import BiLMState
from .batches import Batch, Batches, count_windows
from .distributed import World
from .encoding import EncodedText
from .lm import LanguageModel
from .optimizers import OptimizerMaker, Schedule
from .settings import TrainingSettings


class Windows:
    """The windows that each step of a process reads.

    An epoch's windows are read in groups of ``grad_accumulation``; its last group may be smaller.

    :param text: the training text.
    :param settings: rows, unroll steps, order and seed.
    :param world: the processes, each of which reads its own rows.
    """

    def __init__(self, text: EncodedText, settings: TrainingSettings, world: World) -> None:
        self.text = text
        self.settings = settings
        self.world = world
        self.n_rows = settings.batch_size * world.size
        self.an_epoch = count_windows(text.stream.n_positions, self.n_rows, settings.unroll_steps)
        #: Steps of a pass over the text.
        self.steps_an_epoch = math.ceil(self.an_epoch / settings.grad_accumulation)
        self._epoch: Optional[int] = None
        self._batches: Optional[Batches] = None

    def of_step(self, step: int) -> Iterator[Batch]:
        """The windows of a step, counted from 0, without making those before."""
        epoch, number = divmod(step, self.steps_an_epoch)
        if self._batches is None or epoch != self._epoch:
            self._batches = self._read(epoch)
            self._epoch = epoch
        begin = number * self.settings.grad_accumulation
        end = min(begin + self.settings.grad_accumulation, self.an_epoch)
        for window in range(begin, end):
            yield self._batches.window(window).to(self.world.device)

    def is_start_of_epoch(self, step: int) -> bool:
        """Whether a step, counted from 0, is the first of an epoch, which starts without state."""
        return step % self.steps_an_epoch == 0

    def _read(self, epoch: int) -> Batches:
        stream = self.text.stream
        is_shuffled = self.settings.order == "shuffled"
        return Batches(
            self.text,
            stream.shuffled_types((self.settings.seed, epoch)) if is_shuffled else stream.types,
            n_rows=self.n_rows,
            unroll_steps=self.settings.unroll_steps,
            rank=self.world.rank,
            n_ranks=self.world.size,
        )


@dataclass(frozen=True)
class StepSums:
    """What a step of all processes together came to.

    :param loss_sum: of all predictions, in nats.
    :param n_predictions: their number.
    :param learn_rate: the rate of the step.
    :param seconds: the first process's clock when the step began to be summed up.
    :param is_stopping: whether one of the processes was asked to stop.
    """

    loss_sum: float
    n_predictions: int
    learn_rate: float
    seconds: float
    is_stopping: bool

    @property
    def loss(self) -> float:
        """Mean over the predictions."""
        # A window can hold nothing but ends of sentences, which predict nothing.
        return self.loss_sum / max(1, self.n_predictions)


class Stepper:
    """Makes one training step after the other.

    A step's random numbers depend on nothing but the seed and the step's number (the dropout's on
    the process too), so that a run that goes on from a checkpoint draws what it would have drawn,
    and all processes compare with the same sample of the vocabulary.

    :param model: what learns.
    :param make_optimizer: gives the optimizer of its parameters, those of a frozen table aside.
    :param schedule: (step, steps of the run) -> factor on the optimizer's learning rate.
    :param windows: what each step reads.
    :param n_steps: steps of the run, if they are limited.
    """

    def __init__(
        self,
        model: LanguageModel,
        make_optimizer: OptimizerMaker,
        schedule: Schedule,
        windows: Windows,
        n_steps: Optional[int],
    ) -> None:
        self.model = model
        self.parameters: List[nn.Parameter] = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(self.parameters)
        self.highest_rates: List[float] = [g["lr"] for g in self.optimizer.param_groups]
        self.schedule = schedule
        self.windows = windows
        self.world = windows.world
        self.settings = windows.settings
        self.n_steps = n_steps
        #: What the LSTMs remember after the last window.
        self.state: Optional[BiLMState] = None
        self._sample_seed = 0
        model.head.register_forward_pre_hook(self._seed_samples)

    def make_step(self, step: int, seconds: float = 0.0, wants_stop: bool = False) -> StepSums:
        """Make a step.

        :param step: its number, counted from 0.
        :param seconds: this process's clock.
        :param wants_stop: whether this process was asked to stop.
        :raises FloatingPointError: the loss or a gradient is NaN or infinite; no weight has moved.
        """
        learn_rate = self._set_rates(self.schedule(step, self.n_steps))
        loss_sum = torch.zeros((), device=self.world.device)
        n_predictions = 0
        if self.windows.is_start_of_epoch(step):
            self.state = None
        for number, batch in enumerate(self.windows.of_step(step)):
            loss_sum += self._add_gradients(batch, step, number)
            n_predictions += batch.n_predictions
        clock = seconds if self.world.is_first else 0.0
        own_sums = [float(n_predictions), clock, float(wants_stop)]
        sums = torch.cat([loss_sum.unsqueeze(0), loss_sum.new_tensor(own_sums)])
        sums = self.world.sum_gradients(self.parameters, sums)
        norm = self._scale_gradients(sums[1].clamp(min=1))
        loss_sum_, n_all, seconds, n_stopping, norm_ = torch.cat([sums, norm.unsqueeze(0)]).tolist()
        result = StepSums(loss_sum_, int(n_all), learn_rate, seconds, n_stopping > 0)
        _require_finite(result.loss, norm_, step + 1, learn_rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        # torch's fused optimizers do not count as changes of the weights, which what is made of
        # them for inference would miss.
        for parameter in self.parameters:
            torch.autograd.graph.increment_version(parameter)
        return result

    def _set_rates(self, factor: float) -> float:
        for group, highest_rate in zip(self.optimizer.param_groups, self.highest_rates):
            group["lr"] = factor * highest_rate
        return factor * self.highest_rates[0]

    def _add_gradients(self, batch: Batch, step: int, number: int) -> Tensor:
        """Read a window of a step and add up the gradients of its sum of losses."""
        seed = self.settings.seed
        torch.manual_seed(_mix(seed, step, number, 1 + self.world.rank))
        self._sample_seed = _mix(seed, step, number, 0)
        with torch.autocast(
            self.world.device.type,
            torch.bfloat16,
            enabled=self.settings.precision == "bfloat16",
        ):
            loss_sum, self.state = self.model(batch, self.state)
        loss_sum.backward()
        return loss_sum.detach()

    def _seed_samples(self, head: nn.Module, inputs: Any) -> None:
        torch.manual_seed(self._sample_seed)

    def _scale_gradients(self, n_predictions: Tensor) -> Tensor:
        """Make means of sums, no longer than ``grad_clip`` all together.

        :returns: the norm before clipping.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norms = [torch.linalg.vector_norm(gradient) for gradient in gradients]
        norm = torch.linalg.vector_norm(torch.stack(norms)) / n_predictions
        factor = 1 / n_predictions
        if self.settings.grad_clip > 0:
            factor = factor * (self.settings.grad_clip / (norm + 1e-6)).clamp(max=1)
        for gradient in gradients:
            gradient.mul_(factor)
        return norm


def _mix(*numbers: int) -> int:
    """A seed of its own for each sequence of numbers."""
    return int(numpy.random.SeedSequence(numbers).generate_state(1, numpy.uint64)[0])


def _require_finite(loss: float, norm: float, step: int, rate: float) -> None:
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise FloatingPointError(
            f"The loss is {loss} and the norm of its gradients {norm} at step {step}; expected "
            f"finite numbers. Lower learn_rate in [training.optimizer] (the rate was {rate:g}) "
            "or grad_clip in [training], or give [training.schedule] more warmup_steps. What "
            "was saved before is whole."
        )
