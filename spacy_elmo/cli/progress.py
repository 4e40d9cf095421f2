"""Shows a training run on the console: a plan, a progress bar, and a row an evaluation."""

import math
import sys
from typing import Literal, Sequence

from tqdm import tqdm
from wasabi import msg, row

from ..training import Evaluation, Plan, Reporter, Step
from ..training.evaluation import perplexity
from .screen import BarOwner

COLUMNS = ("step", "epoch", "loss", "forward", "backward", "mean", "tokens/s", "")
WIDTHS = (8, 7, 7, 9, 9, 9, 9, 4)
ALIGNS: Sequence[Literal["r", "c", "l"]] = ("r",) * 7 + ("l",)

# Weight of the newest step in the running loss: about the last 50 steps count.
NEWEST = 0.02

STEPS_FORMAT = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps, {remaining} left{postfix}"
ENDLESS_FORMAT = "{n_fmt} steps in {elapsed}{postfix}"
BYTES_FORMAT = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}, {remaining} left"

# Seconds between two pictures of the bar: on a screen, and in a file or a pipe.
INTERVAL, INTERVAL_IN_FILE = 0.2, 10.0


class ConsoleReporter(BarOwner, Reporter):
    """Writes to the standard output, and the bar to the standard error."""

    def __init__(self) -> None:
        super().__init__()
        #: Whether to show steps and evaluations; where a logger does, two tables would mix.
        self.shows_steps = True
        self._loss = 0.0
        self._weight = 0.0

    def noted(self, message: str) -> None:
        self.close()
        msg.info(message)

    def reading(self, what: str) -> None:
        self.noted(f"Reading the {what}")

    def read(self, n_bytes: int, n_bytes_in_all: int) -> None:
        if self._bar is None:
            self._bar = self._make_bar(
                total=n_bytes_in_all, unit="B", unit_scale=True, bar_format=BYTES_FORMAT
            )
        self._bar.update(n_bytes - self._bar.n)

    def planned(self, plan: Plan) -> None:
        self.close()
        steps = f"{plan.steps_an_epoch:,} an epoch"
        steps += ", no limit in all" if plan.n_steps is None else f", {plan.n_steps:,} in all"
        if plan.first_step > 0:
            steps += f"; {plan.first_step:,} are made"
        processes = "" if plan.n_processes == 1 else f" by each of {plan.n_processes} processes"
        msg.table(
            {
                "Training text": f"{plan.n_tokens:,} tokens, {plan.n_sentences:,} sentences",
                "Predictions": f"{plan.n_predictions:,} a direction and epoch",
                "Held-out text": f"{plan.dev_tokens:,} tokens, {plan.dev_sentences:,} sentences",
                "Vocabulary": f"{plan.n_words:,} words; unknown: {plan.unknown_rate:.1%} of the "
                f"training tokens, {plan.dev_unknown_rate:.1%} of the held-out ones",
                "Parameters": f"{plan.n_parameters:,} (biLM), {plan.n_softmax_parameters:,} "
                "(softmax)",
                "Memory": f"about {math.ceil(plan.n_bytes / 1e6):,} MB for training ({plan.device})"
                f"{processes}, beside the text",
                "Steps": steps,
            }
        )
        if not self.shows_steps:
            return
        msg.text("Perplexities: held-out text, full softmax. Loss: training text.")
        _print_row(COLUMNS)
        _print_row(["-" * width for width in WIDTHS])
        self._bar = self._make_bar(
            total=plan.n_steps,
            initial=plan.first_step,
            bar_format=ENDLESS_FORMAT if plan.n_steps is None else STEPS_FORMAT,
        )

    def stepped(self, step: Step) -> None:
        if self._bar is None:
            return
        self._weight += NEWEST * (1 - self._weight)
        self._loss += NEWEST * (step.loss - self._loss)
        shown = self._bar.format_dict
        made = shown["n"] - shown["initial"]
        steps_per_second = shown["rate"] or made / max(shown["elapsed"], 1e-3)
        self._bar.set_postfix_str(
            f"{steps_per_second * step.n_tokens:,.0f} tokens/s, training perplexity "
            f"{perplexity(self._loss / self._weight):.1f}",
            refresh=False,
        )
        self._bar.update()

    def evaluated(self, evaluation: Evaluation, is_best: bool) -> None:
        if not self.shows_steps:
            return
        cells = (
            str(evaluation.step),
            f"{evaluation.epoch:.2f}",
            f"{evaluation.loss:.3f}",
            f"{evaluation.forward_perplexity:.2f}",
            f"{evaluation.backward_perplexity:.2f}",
            f"{evaluation.perplexity:.2f}",
            f"{evaluation.tokens_per_second:,.0f}",
            "best" if is_best else "",
        )
        _print_row(cells)

    def ended(self) -> None:
        self.close()

    def _make_bar(self, **settings: object) -> "tqdm[None]":
        interval = INTERVAL if sys.stderr.isatty() else INTERVAL_IN_FILE
        return tqdm(mininterval=interval, leave=False, **settings)


def _print_row(cells: Sequence[str]) -> None:
    # tqdm's writer lifts the bar out of the way of the line.
    tqdm.write(row(cells, widths=WIDTHS, aligns=ALIGNS).rstrip())
    sys.stdout.flush()
