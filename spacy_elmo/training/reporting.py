"""What a training run tells: before it starts, at every step, and at every evaluation."""

from dataclasses import dataclass
from typing import Optional, Sequence


@dataclass(frozen=True)
class Plan:
    """What is known before the first step.

    :param n_tokens: tokens an epoch, sentence marks not counted.
    :param n_predictions: what a direction predicts an epoch: every token, and a mark a sentence.
    :param n_words: size of the vocabulary, the special entries included.
    :param unknown_rate: part of the training tokens that are not in the vocabulary.
    :param dev_tokens: tokens of the held-out text.
    :param dev_unknown_rate: part of the held-out tokens that are not in the vocabulary.
    :param steps_an_epoch: steps of a pass over the training text.
    :param first_step: steps that were made before, by the run that this one goes on with.
    :param n_steps: steps of the run, unless the time limit or the patience ends it before; none
        where there is no other limit.
    :param n_parameters: parameters of the biLM.
    :param n_softmax_parameters: parameters of the softmax, which the biLM's vectors do not need.
    :param n_bytes: memory that a step of a process is expected to take, see
        :func:`spacy_elmo.training.memory.estimate_bytes`.
    :param n_processes: processes that train together.
    :param device: where they do.
    """

    n_tokens: int
    n_sentences: int
    n_predictions: int
    n_words: int
    unknown_rate: float
    dev_tokens: int
    dev_sentences: int
    dev_unknown_rate: float
    steps_an_epoch: int
    first_step: int
    n_steps: Optional[int]
    n_parameters: int
    n_softmax_parameters: int
    n_bytes: int
    n_processes: int
    device: str

    @property
    def tokens_a_step(self) -> float:
        """Tokens that a step reads, on average over an epoch."""
        return self.n_tokens / self.steps_an_epoch


@dataclass(frozen=True)
class Step:
    """One step of training.

    :param step: its number, counted from 1.
    :param loss: mean training loss of its predictions, in nats (with a sampled softmax, the
        loss against the sample).
    :param n_tokens: tokens read, on average over an epoch.
    """

    step: int
    loss: float
    learn_rate: float
    n_tokens: float


@dataclass(frozen=True)
class Evaluation:
    """One evaluation; a line of the log.

    :param epoch: passes over the training text so far.
    :param n_tokens: tokens read so far: the steps times :attr:`Plan.tokens_a_step`, rounded.
    :param loss: mean training loss since the evaluation before, in nats.
    :param forward_perplexity: of the held-out text, with the full softmax.
    :param perplexity: ``exp`` of the mean of both directions' losses.
    :param tokens_per_second: of training since the evaluation before.
    :param seconds: since the first step, evaluations included; of a run that was stopped and
        resumed, those of all sittings.
    """

    step: int
    epoch: float
    n_tokens: int
    loss: float
    forward_perplexity: float
    backward_perplexity: float
    perplexity: float
    learn_rate: float
    tokens_per_second: float
    seconds: float


class Reporter:
    """What happens in a run, for whoever wants to show it; this one shows nothing."""

    def noted(self, message: str) -> None:
        """Something that the user of the run should know."""

    def reading(self, what: str) -> None:
        """A text, ``what``, is about to be read and tokenized."""

    def read(self, n_bytes: int, n_bytes_in_all: int) -> None:
        """So much of that text is read."""

    def planned(self, plan: Plan) -> None:
        """Training is about to start."""

    def stepped(self, step: Step) -> None:
        """A step is done."""

    def evaluated(self, evaluation: Evaluation, is_best: bool) -> None:
        """The held-out text was scored, and the model saved."""

    def ended(self) -> None:
        """Training is over, for whatever reason. Called whenever :meth:`planned` was."""


class Reporters(Reporter):
    """Several that are told the same.

    :param reporters: in the order in which they are told.
    """

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self.reporters = reporters

    def noted(self, message: str) -> None:
        for reporter in self.reporters:
            reporter.noted(message)

    def reading(self, what: str) -> None:
        for reporter in self.reporters:
            reporter.reading(what)

    def read(self, n_bytes: int, n_bytes_in_all: int) -> None:
        for reporter in self.reporters:
            reporter.read(n_bytes, n_bytes_in_all)

    def planned(self, plan: Plan) -> None:
        for reporter in self.reporters:
            reporter.planned(plan)

    def stepped(self, step: Step) -> None:
        for reporter in self.reporters:
            reporter.stepped(step)

    def evaluated(self, evaluation: Evaluation, is_best: bool) -> None:
        for reporter in self.reporters:
            reporter.evaluated(evaluation, is_best)

    def ended(self) -> None:
        for reporter in self.reporters:
            reporter.ended()
