"""Shows a training run on the console: a plan, a progress bar, and a row an evaluation."""

import sys
from types import TracebackType
from typing import Literal, Optional, Sequence, Type

from tqdm import tqdm
from wasabi import msg, row

from ..training import Evaluation, Plan, Reporter, Step
from ..training.evaluation import perplexity

COLUMNS = ("step", "epoch", "loss", "forward", "backward", "mean", "tokens/s", "")
WIDTHS = (8, 7, 7, 9, 9, 9, 9, 4)
ALIGNS: Sequence[Literal["r", "c", "l"]] = ("r",) * 7 + ("l",)

# Weight of the newest step in the running loss: about the last 50 steps count.
NEWEST = 0.02

BAR_FORMAT = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps, {remaining} left{postfix}"

# Seconds between two pictures of the bar: on a screen, and in a file or a pipe.
INTERVAL, INTERVAL_IN_FILE = 0.2, 10.0


class ConsoleReporter(Reporter):
    """Writes to the standard output, and the bar to the standard error."""

    def __init__(self) -> None:
        self._bar: Optional["tqdm[None]"] = None
        self._loss = 0.0
        self._weight = 0.0

    def __enter__(self) -> "ConsoleReporter":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the bar, so that what is printed next starts on a line of its own."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def reading(self, what: str) -> None:
        msg.info(f"Reading the {what}")

    def planned(self, plan: Plan) -> None:
        msg.table(
            {
                "Training text": f"{plan.n_tokens:,} tokens, {plan.n_sentences:,} sentences",
                "Predictions": f"{plan.n_predictions:,} a direction and epoch",
                "Held-out text": f"{plan.dev_tokens:,} tokens, {plan.dev_sentences:,} sentences",
                "Vocabulary": f"{plan.n_words:,} words; unknown: {plan.unknown_rate:.1%} of the "
                f"training tokens, {plan.dev_unknown_rate:.1%} of the held-out ones",
                "Parameters": f"{plan.n_parameters:,} (biLM), {plan.n_softmax_parameters:,} "
                "(softmax)",
                "Steps": f"{plan.steps_an_epoch:,} an epoch, {plan.n_steps:,} in all",
            }
        )
        msg.text("Perplexities: held-out text, full softmax. Loss: training text.")
        _print_row(COLUMNS)
        _print_row(["-" * width for width in WIDTHS])
        interval = INTERVAL if sys.stderr.isatty() else INTERVAL_IN_FILE
        self._bar = tqdm(
            total=plan.n_steps, mininterval=interval, leave=False, bar_format=BAR_FORMAT
        )

    def stepped(self, step: Step) -> None:
        assert self._bar is not None
        self._weight += NEWEST * (1 - self._weight)
        self._loss += NEWEST * (step.loss - self._loss)
        shown = self._bar.format_dict
        steps_per_second = shown["rate"] or shown["n"] / max(shown["elapsed"], 1e-3)
        self._bar.set_postfix_str(
            f"{steps_per_second * step.n_tokens:,.0f} tokens/s, training perplexity "
            f"{perplexity(self._loss / self._weight):.1f}",
            refresh=False,
        )
        self._bar.update()

    def evaluated(self, evaluation: Evaluation, is_best: bool) -> None:
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


def _print_row(cells: Sequence[str]) -> None:
    # tqdm's writer lifts the bar out of the way of the line.
    tqdm.write(row(cells, widths=WIDTHS, aligns=ALIGNS).rstrip())
    sys.stdout.flush()
