"""The training loop."""

import json
import math
import time
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Optional, Tuple, Union

import torch
from torch import nn

from ..bilm import BiLM, BiLMState
from .batches import Batch, Batches, count_windows
from .config import TrainingConfig, TrainingSettings, VocabularySettings
from .encoding import EncodedText, WordStream
from .evaluation import evaluate
from .files import write_files
from .interrupt import StopRequest
from .lm import LanguageModel
from .reporting import Evaluation, Plan, Reporter, Step
from .storage import save_language_model
from .vocabulary import Vocabulary

BEST, LAST, LOG = "model-best", "model-last", "log.jsonl"

# The text that the stored "warm" state has read: enough to forget the zeros before it.
WARM_UP_SENTENCES = 20
WARM_UP_WORDS_A_SENTENCE = 100


@dataclass(frozen=True)
class Result:
    """How a run ended.

    :param n_steps: steps that were made.
    :param best: the evaluation of ``model-best``; none if the run was stopped before the first.
    :param is_interrupted: whether SIGINT or SIGTERM stopped it.
    """

    n_steps: int
    best: Optional[Evaluation]
    is_interrupted: bool


def train(
    config: Mapping[str, Any],
    output: Union[str, Path],
    *,
    reporter: Optional[Reporter] = None,
) -> Result:
    """Train a biLM.

    Writes the native models ``model-best`` (lowest mean perplexity of the held-out text) and
    ``model-last``, and ``log.jsonl``, an evaluation a line, into a directory. What was there of
    an earlier run stays whole until the first evaluation. The same config on the same machine
    gives the same bytes of weights. SIGINT or SIGTERM saves ``model-last`` and ends the run.

    :param config: the training config, its variables filled in (see :func:`read_config`).
    :param output: the directory, made if it is not there.
    :param reporter: told what happens.
    :raises ValueError: the config or a text is faulty.
    :raises FloatingPointError: the loss or a gradient became NaN or infinite.
    """
    resolved = TrainingConfig.from_dict(config)
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(resolved.training.n_threads or n_threads)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(resolved.training.seed)
            return _train(resolved, Path(output), reporter or Reporter())
    finally:
        torch.set_num_threads(n_threads)


def _train(config: TrainingConfig, output: Path, reporter: Reporter) -> Result:
    settings = config.training
    output.mkdir(parents=True, exist_ok=True)
    vocabulary = _read_vocabulary(config.vocabulary)
    reporter.reading("training text")
    stream = WordStream.from_sentences(config.train)
    reporter.reading("held-out text")
    dev_stream = WordStream.from_sentences(config.dev)
    if vocabulary is None:
        vocabulary = _build_vocabulary(config.vocabulary, stream)
    text = EncodedText(stream, vocabulary, config.bilm)
    dev_text = EncodedText(dev_stream, vocabulary, config.bilm)

    head = config.make_head(config.bilm.projection_dim, text.count_targets(len(vocabulary)))
    model = LanguageModel(BiLM(config.bilm), head).train()
    parameters = list(model.parameters())
    optimizer = config.make_optimizer(parameters)
    highest_rates = [group["lr"] for group in optimizer.param_groups]
    plan = _plan(model, text, dev_text, settings)

    best: Optional[Evaluation] = None
    evaluations: List[Evaluation] = []
    state: Optional[BiLMState] = None
    tally = Tally()
    step = saved_step = 0
    begin = time.perf_counter()
    with StopRequest() as stop:
        reporter.planned(plan)
        batches = islice(iter_batches(text, settings), plan.n_steps)
        for step, (is_new_epoch, batch) in enumerate(batches, 1):
            step_begin = time.perf_counter()
            factor = config.schedule(step - 1, plan.n_steps)
            for group, highest_rate in zip(optimizer.param_groups, highest_rates):
                group["lr"] = factor * highest_rate
            learn_rate = factor * highest_rates[0]

            loss_sum, state = model(batch, None if is_new_epoch else state)
            # A window can hold nothing but ends of sentences, which predict nothing.
            loss = loss_sum / max(1, batch.n_predictions)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(parameters, settings.grad_clip or math.inf)
            _require_finite(loss.item(), norm.item(), step, learn_rate)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

            tally.add(loss_sum.item(), batch.n_predictions, time.perf_counter() - step_begin)
            reporter.stepped(Step(step, loss.item(), learn_rate, plan.tokens_a_step))

            seconds = time.perf_counter() - begin
            is_over = step == plan.n_steps or 0 < settings.max_hours * 3600 < seconds
            if not stop.requested and (is_over or step % settings.eval_frequency == 0):
                perplexities = evaluate(model, dev_text)
                evaluation = Evaluation(
                    step=step,
                    epoch=round(step / plan.steps_an_epoch, 3),
                    loss=tally.mean_loss,
                    forward_perplexity=perplexities["forward"],
                    backward_perplexity=perplexities["backward"],
                    perplexity=perplexities["mean"],
                    learn_rate=learn_rate,
                    tokens_per_second=plan.tokens_a_step * tally.n_steps / tally.seconds,
                    seconds=time.perf_counter() - begin,
                )
                evaluations.append(evaluation)
                is_best = best is None or evaluation.perplexity < best.perplexity
                _save(model, vocabulary, stream, output / LAST, evaluation)
                saved_step = step
                if is_best:
                    best = evaluation
                    _save(model, vocabulary, stream, output / BEST, evaluation)
                write_files(output, {LOG: _json_lines(evaluations)})
                reporter.evaluated(evaluation, is_best)
                tally = Tally()
            if is_over or stop.requested:
                break
        if step != saved_step:
            _save(model, vocabulary, stream, output / LAST, None)
    return Result(step, best, stop.requested)


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


def iter_batches(text: EncodedText, settings: TrainingSettings) -> Iterator[Tuple[bool, Batch]]:
    """The batches of all epochs, without end, each with whether an epoch starts there, which
    forgets the state of the one before."""
    for epoch in count():
        types = text.stream.types
        if settings.order == "shuffled":
            types = text.stream.shuffled_types((settings.seed, epoch))
        batches = Batches(
            text, types, n_rows=settings.batch_size, unroll_steps=settings.unroll_steps
        )
        for number, batch in enumerate(batches):
            yield number == 0, batch


def count_steps(settings: TrainingSettings, steps_an_epoch: int) -> int:
    """Steps of a run, by the limits on epochs and steps."""
    limits = [settings.max_epochs * steps_an_epoch, settings.max_steps]
    return min(limit for limit in limits if limit > 0)


def _read_vocabulary(settings: VocabularySettings) -> Optional[Vocabulary]:
    if settings.path is None:
        return None
    try:
        return Vocabulary.from_disk(settings.path)
    except ValueError as error:
        raise ValueError(f"[vocab] path: {error}") from None


def _build_vocabulary(settings: VocabularySettings, stream: WordStream) -> Vocabulary:
    try:
        return Vocabulary.from_counts(
            stream.count_words(), max_size=settings.max_size, min_count=settings.min_count
        )
    except ValueError as error:
        raise ValueError(f"[vocab] min_count is {settings.min_count}: {error}") from None


def _plan(
    model: LanguageModel, text: EncodedText, dev_text: EncodedText, settings: TrainingSettings
) -> Plan:
    stream = text.stream
    steps_an_epoch = count_windows(stream.n_positions, settings.batch_size, settings.unroll_steps)
    return Plan(
        n_tokens=stream.n_tokens,
        n_sentences=stream.n_sentences,
        n_predictions=stream.n_predictions,
        n_words=model.head.n_words,
        unknown_rate=text.unknown_rate,
        dev_tokens=dev_text.stream.n_tokens,
        dev_sentences=dev_text.stream.n_sentences,
        dev_unknown_rate=dev_text.unknown_rate,
        steps_an_epoch=steps_an_epoch,
        n_steps=count_steps(settings, steps_an_epoch),
        n_parameters=sum(parameter.numel() for parameter in model.bilm.parameters()),
        n_softmax_parameters=sum(parameter.numel() for parameter in model.head.parameters()),
    )


def _save(
    model: LanguageModel,
    vocabulary: Vocabulary,
    stream: WordStream,
    path: Path,
    evaluation: Optional[Evaluation],
) -> None:
    sentences = islice(stream.iter_sentences(), WARM_UP_SENTENCES)
    model.bilm.warm_up([sentence[:WARM_UP_WORDS_A_SENTENCE] for sentence in sentences])
    # Facts that are the same in every run of a config, so that the files are too.
    metadata = (
        None
        if evaluation is None
        else {
            name: getattr(evaluation, name)
            for name in ("step", "epoch", "forward_perplexity", "backward_perplexity", "perplexity")
        }
    )
    save_language_model(model, vocabulary, path, metadata)


def _json_lines(evaluations: List[Evaluation]) -> bytes:
    return "".join(json.dumps(asdict(e)) + "\n" for e in evaluations).encode("utf-8")


def _require_finite(loss: float, norm: float, step: int, rate: float) -> None:
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise FloatingPointError(
            f"The loss is {loss} and the norm of its gradients {norm} at step {step}; expected "
            f"finite numbers. Lower learn_rate in [training.optimizer] (the rate was {rate:g}) "
            "or grad_clip in [training], or give [training.schedule] more warmup_steps. What "
            "was saved before is whole."
        )
