"""The training loop."""

import math
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Union

import torch

from ..bilm.buffers import reuse_buffers
from .checkpoints import Checkpoints
from .config import TrainingConfig
from .distributed import World
from .evaluation import evaluate
from .interrupt import StopRequest
from .locks import only_writer
from .loggers import LoggerReporter
from .output import clear_output, prepare_output, save_evaluated, save_stopped
from .progress import Progress
from .reporting import Evaluation, Reporter, Reporters, Step
from .run import Run, make_plan, prepare_run
from .settings import TrainingSettings
from .steps import Stepper

SIGNAL = "signal"


@dataclass(frozen=True)
class Result:
    """How a run ended.

    :param n_steps: steps that were made, those before it was resumed included.
    :param first_step: steps that were made before it was resumed.
    :param best: the evaluation of ``model-best``; none if the run was stopped before the first.
    :param ended_by: the setting that ended it, or ``signal`` for SIGINT and SIGTERM.
    """

    n_steps: int
    first_step: int
    best: Optional[Evaluation]
    ended_by: str

    @property
    def is_interrupted(self) -> bool:
        """Whether it was stopped before its end."""
        return self.ended_by == SIGNAL


def train(
    config: Mapping[str, Any],
    output: Union[str, Path],
    *,
    resume: bool = False,
    overwrite: bool = False,
    reporter: Optional[Reporter] = None,
) -> Result:
    """Train a biLM.

    Writes the native models ``model-best`` (lowest mean perplexity of the held-out text) and
    ``model-last``, ``log.jsonl``, an evaluation a line, and ``checkpoint.pt`` into a directory.
    The same config on the same machine gives the same bytes of weights, also where the run was
    stopped, in whatever way, and resumed. SIGINT or SIGTERM saves and ends the run.

    Under ``torchrun`` this function runs in every process. All of them make the same steps; the
    first one evaluates, reports and writes.

    :param config: the training config, its variables filled in (see :func:`read_config`).
    :param output: the directory, made if it is not there.
    :param resume: go on with the run in the directory, if there is one. Limits, ``patience``,
        ``eval_frequency``, ``checkpoint_minutes``, ``logger``, ``device``, ``n_threads`` and paths
        may be others than before; a schedule that depends on the number of steps takes the new
        one. A run that has ended makes no step unless a limit was raised.
    :param overwrite: replace the run in the directory, if there is one.
    :param reporter: told what happens, in the first process.
    :raises ValueError: the config or a text is faulty, an earlier run would be lost, or the one to
        go on with has other settings.
    :raises OSError: a file cannot be read or written, or another process of the run ended.
    :raises FloatingPointError: the loss or a gradient became NaN or infinite.
    """
    resolved = TrainingConfig.from_dict(config)
    output = Path(output)
    with World.join(resolved.training.device) as world, _surroundings(resolved.training, world):
        if reporter is None or not world.is_first:
            reporter = Reporter()
        is_resumed = world.share(lambda: prepare_output(output, resume=resume, overwrite=overwrite))
        with only_writer(output, output) if world.is_first else nullcontext():
            if resume and not is_resumed:
                reporter.noted(f"There is no checkpoint in {output}: training starts anew")
            run = prepare_run(resolved, world, reporter)
            return _train(resolved, run, output, reporter, is_resumed)


def _train(
    config: TrainingConfig, run: Run, output: Path, reporter: Reporter, is_resumed: bool
) -> Result:
    settings = config.training
    world = run.windows.world
    stepper = Stepper(run.model, config.make_optimizer, config.schedule, run.windows, run.n_steps)
    checkpoints = Checkpoints(output, config.settings(), run, stepper)
    progress = checkpoints.load() if is_resumed else Progress()
    if not is_resumed:
        checkpoints.save(progress)
    if world.is_first:
        if progress.evaluations:
            # A process that was killed may not have come to it.
            checkpoints.write(save_evaluated, run, output, progress)
        else:
            clear_output(output)
        if config.make_logger is not None:
            logger = LoggerReporter(config.make_logger, config.source, progress.evaluations)
            reporter = Reporters([reporter, logger])

    plan = make_plan(run, config, progress.step)
    begin = time.perf_counter() - progress.seconds
    is_stopping = False
    with StopRequest() as stop, _told(reporter):
        reporter.planned(plan)
        while True:
            ended_by = SIGNAL if is_stopping else progress.find_end(settings, run.n_steps)
            if not is_stopping and progress.is_evaluation_due(
                settings.eval_frequency, is_over=ended_by is not None
            ):
                progress.add_evaluation(world.share(partial(_evaluate, run, progress, begin)))
                checkpoints.save(progress)
                if world.is_first:
                    checkpoints.write(save_evaluated, run, output, progress)
                reporter.evaluated(progress.evaluations[-1], progress.is_best)
                ended_by = progress.find_end(settings, run.n_steps)
            elif is_stopping or checkpoints.is_due(progress):
                checkpoints.save(progress)
            if ended_by is not None:
                break

            step_begin = time.perf_counter()
            sums = stepper.make_step(progress.step, step_begin - begin, stop.requested)
            progress.add_step(sums, time.perf_counter() - step_begin)
            reporter.stepped(Step(progress.step, sums.loss, sums.learn_rate, plan.tokens_a_step))
            # Several processes learn of each other's wish with the next step's sums only.
            is_stopping = sums.is_stopping or (world.size == 1 and stop.requested)
        if is_stopping and world.is_first:
            checkpoints.write(save_stopped, run, output, progress)
    return Result(progress.step, plan.first_step, progress.best, ended_by)


def _evaluate(run: Run, progress: Progress, begin: float) -> Evaluation:
    perplexities = evaluate(run.model, run.dev_text)
    if not math.isfinite(perplexities["mean"]):
        raise FloatingPointError(
            f"The perplexity of the held-out text is {perplexities['mean']} after step "
            f"{progress.step}, with a learn "
            f"rate of {progress.learn_rate:g}. Lower learn_rate in [training.optimizer]. What was "
            "saved before is whole."
        )
    tally = progress.tally
    windows = run.windows
    tokens_a_step = run.text.stream.n_tokens / windows.steps_an_epoch
    return Evaluation(
        step=progress.step,
        epoch=round(progress.step / windows.steps_an_epoch, 3),
        n_tokens=round(progress.step * tokens_a_step),
        loss=tally.mean_loss,
        forward_perplexity=perplexities["forward"],
        backward_perplexity=perplexities["backward"],
        perplexity=perplexities["mean"],
        learn_rate=progress.learn_rate,
        tokens_per_second=tokens_a_step * tally.n_steps / tally.seconds,
        seconds=time.perf_counter() - begin,
    )


@contextmanager
def _surroundings(settings: TrainingSettings, world: World) -> Iterator[None]:
    """Threads, random numbers and memory of the run, and afterwards those of before."""
    n_threads = torch.get_num_threads()
    devices = [world.device] if world.device.type == "cuda" else []
    try:
        torch.set_num_threads(settings.n_threads or n_threads)
        with torch.random.fork_rng(devices=devices), reuse_buffers():
            torch.manual_seed(settings.seed)
            yield
    finally:
        torch.set_num_threads(n_threads)


@contextmanager
def _told(reporter: Reporter) -> Iterator[None]:
    try:
        yield
    finally:
        reporter.ended()
