"""How far a run has come, and when it ends: all that a checkpoint holds beside tensors."""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from .reporting import Evaluation
from .settings import TrainingSettings
from .steps import StepSums


@dataclass
class Tally:
    """Sums over the steps since the last evaluation."""

    loss_sum: float = 0.0
    n_predictions: int = 0
    seconds: float = 0.0
    n_steps: int = 0

    def add(self, loss_sum: float, n_predictions: int, seconds: float) -> None:
        self.loss_sum += loss_sum
        self.n_predictions += n_predictions
        self.seconds += seconds
        self.n_steps += 1

    @property
    def mean_loss(self) -> float:
        """Over predictions, not over steps."""
        return self.loss_sum / max(1, self.n_predictions)


@dataclass
class Progress:
    """How far a run has come.

    :param step: steps made.
    :param seconds: time since the first step, all sittings together.
    :param learn_rate: of the last step.
    :param tally: of the steps since the last evaluation.
    :param evaluations: all so far; the lines of the log.
    """

    step: int = 0
    seconds: float = 0.0
    learn_rate: float = 0.0
    tally: Tally = field(default_factory=Tally)
    evaluations: List[Evaluation] = field(default_factory=list)

    @property
    def best(self) -> Optional[Evaluation]:
        """The first of the evaluations with the lowest mean perplexity."""
        return min(self.evaluations, key=lambda e: e.perplexity, default=None)

    @property
    def n_not_better(self) -> int:
        """Evaluations since the best one."""
        if self.best is None:
            return 0
        return len(self.evaluations) - 1 - self.evaluations.index(self.best)

    @property
    def is_evaluated(self) -> bool:
        """Whether the last evaluation is of the present weights."""
        return bool(self.evaluations) and self.evaluations[-1].step == self.step

    @property
    def is_best(self) -> bool:
        """Whether the last evaluation is the best so far."""
        return bool(self.evaluations) and self.evaluations[-1] is self.best

    def add_step(self, sums: StepSums, seconds: float) -> None:
        """Count a step.

        :param seconds: how long it took.
        """
        self.step += 1
        self.seconds = sums.seconds
        self.learn_rate = sums.learn_rate
        self.tally.add(sums.loss_sum, sums.n_predictions, seconds)

    def add_evaluation(self, evaluation: Evaluation) -> None:
        """Take down an evaluation of the present weights."""
        self.evaluations.append(evaluation)
        self.seconds = evaluation.seconds
        self.tally = Tally()

    def find_end(self, settings: TrainingSettings, n_steps: Optional[int]) -> Optional[str]:
        """The setting that ends the run here, if one does.

        :param n_steps: steps by the limits on epochs and steps, if there are such limits.
        """
        if n_steps is not None and self.step >= n_steps:
            return "max_steps" if n_steps == settings.max_steps else "max_epochs"
        if 0 < settings.max_hours * 3600 <= self.seconds:
            return "max_hours"
        if 0 < settings.patience <= self.n_not_better:
            return "patience"
        return None

    def is_evaluation_due(self, frequency: int, is_over: bool) -> bool:
        """Whether to evaluate before the next step, or before the end."""
        return self.step > 0 and not self.is_evaluated and (is_over or self.step % frequency == 0)

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Progress":
        return cls(
            step=values["step"],
            seconds=values["seconds"],
            learn_rate=values["learn_rate"],
            tally=Tally(**values["tally"]),
            evaluations=[Evaluation(**evaluation) for evaluation in values["evaluations"]],
        )


def count_steps(settings: TrainingSettings, steps_an_epoch: int) -> Optional[int]:
    """Steps of a run by the limits on epochs and steps; none without such limits."""
    limits = [settings.max_epochs * steps_an_epoch, settings.max_steps]
    return min((limit for limit in limits if limit > 0), default=None)
