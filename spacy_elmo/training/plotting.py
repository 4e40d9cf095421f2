"""Figures of training runs: loss, perplexity and learning rate from their logs."""

import json
import math
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence, Union

from .files import write_file
from .output import LOG
from .reporting import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

SUFFIXES = (".png", ".svg")

# Each x axis: its label, and its value at an evaluation.
X_AXES: Dict[str, Any] = {
    "steps": ("Steps", lambda evaluation: evaluation.step),
    "epochs": ("Epochs", lambda evaluation: evaluation.epoch),
    "tokens": ("Tokens read (millions)", lambda evaluation: evaluation.n_tokens / 1e6),
    "hours": ("Hours", lambda evaluation: evaluation.seconds / 3600),
}

# Between the lowest and the highest perplexity: from this ratio on a straight scale would press
# the end of the curves, which is what one looks for, flat.
LOG_SCALE_RATIO = 4

# From this ratio between the highest learning rates of two runs on, so would it with theirs.
RATES_RATIO = 10

# Curves with more points than this have no dots.
MAX_DOTS = 40


@dataclass(frozen=True)
class Run:
    """A training run as its log tells it.

    :param name: what the legend calls it.
    :param evaluations: one or more, in the order of the log.
    """

    name: str
    evaluations: List[Evaluation]

    @property
    def best(self) -> Evaluation:
        """The evaluation with the lowest mean perplexity."""
        return min(self.evaluations, key=lambda evaluation: evaluation.perplexity)


def read_log(path: Union[str, Path]) -> Run:
    """Read the log of a training run.

    :param path: a ``log.jsonl``, or the output directory of ``spacy elmo train`` with one.
    :raises ValueError: there is no log, it has no evaluation, or a line is damaged; the message
        names the line.
    """
    path = Path(path)
    log = path / LOG if path.is_dir() else path
    if not log.is_file():
        raise ValueError(f"{log} does not exist; expected the log of a training run ({LOG}).")
    evaluations: List[Evaluation] = []
    for number, line in enumerate(log.read_bytes().splitlines(), 1):
        if line.strip():
            evaluations.append(_read_line(line, f"{log}, line {number}"))
    if not evaluations:
        raise ValueError(f"{log} has no evaluation yet; there is nothing to plot.")
    name = log.resolve().parent.name if log.name == LOG else log.stem
    return Run(name, evaluations)


def _read_line(line: bytes, place: str) -> Evaluation:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place} is damaged: {error}.") from None
    if not isinstance(values, dict):
        raise ValueError(f"{place} holds {values!r:.80}; expected a JSON object.")
    found: Dict[str, Any] = {}
    for field in fields(Evaluation):
        value = values.get(field.name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{place}: {field.name!r} is {value!r:.80}; expected a number.")
        found[field.name] = value
    return Evaluation(**found)


def plot(runs: Sequence[Run], path: Union[str, Path], *, x: str = "steps") -> None:
    """Draw training loss, held-out perplexity and learning rate of one or more runs.

    Equal logs give equal bytes, with the same version of matplotlib.

    :param runs: each has a colour of its own.
    :param path: a ``.png`` or ``.svg`` file, written atomically.
    :param x: what the horizontal axis counts.
    :raises ValueError: another suffix, an unknown ``x``, or no run.
    :raises ImportError: matplotlib is not installed.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"The figure is {str(path)!r}; expected a name that ends in .png or .svg.")
    if x not in X_AXES:
        raise ValueError(f"x is {x!r}; expected one of {', '.join(X_AXES)}.")
    if not runs:
        raise ValueError("There is no run to plot; expected one or more.")
    data = _draw(runs, path.suffix.lower()[1:], x)
    write_file(path, data)


def _draw(runs: Sequence[Run], file_format: str, x: str) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed: pip install spacy-elmo[plots]"
        ) from error

    label, x_of = X_AXES[x]
    buffer = BytesIO()
    # The user's own settings of matplotlib, and random names in an SVG, would change the bytes.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "spacy-elmo"
        figure = Figure(figsize=(8, 9), dpi=120, layout="constrained")
        axes = figure.subplots(3, 1, sharex=True, height_ratios=[3, 4, 2])
        handles = [_draw_run(run, axes, x_of, f"C{number % 10}") for number, run in enumerate(runs)]
        figure.legend(handles=handles, loc="outside upper left", frameon=False)
        loss, perplexity, rate = axes
        loss.set_ylabel("Training loss (nats)")
        _finish_perplexity(perplexity, runs)
        _finish_rate(rate, runs)
        rate.set_xlabel(label)
        rate.set_xlim(left=0)
        rate.xaxis.set_major_formatter("{x:,.10g}")
        for ax in axes:
            ax.grid(True, color="0.9")
            ax.set_axisbelow(True)
            ax.spines[["top", "right"]].set_visible(False)
        # Neither a date nor a version.
        metadata = {"Date": None} if file_format == "svg" else {"Software": None}
        figure.savefig(buffer, format=file_format, metadata=metadata)
    return buffer.getvalue()


def _draw_run(
    run: Run, axes: "Sequence[Axes]", x_of: Callable[[Evaluation], float], color: str
) -> "Line2D":
    """Draw the curves of a run; what the legend shows for it comes back."""
    loss, perplexity, rate = axes
    xs = [x_of(evaluation) for evaluation in run.evaluations]
    marker = "." if len(xs) <= MAX_DOTS else ""
    style: Dict[str, Any] = {"color": color, "marker": marker, "linewidth": 1.5}
    best = run.best
    (handle,) = loss.plot(xs, [_finite(e.loss) for e in run.evaluations], **style)
    handle.set_label(
        f"{run.name}: best mean perplexity {best.perplexity:,.1f} (forward "
        f"{best.forward_perplexity:,.1f}, backward {best.backward_perplexity:,.1f}) at step "
        f"{best.step:,}"
    )
    for name, line in (("forward_perplexity", "-"), ("backward_perplexity", "--")):
        values = [_finite(getattr(evaluation, name)) for evaluation in run.evaluations]
        perplexity.plot(xs, values, linestyle=line, **style)
        best_value = _finite(getattr(best, name))
        perplexity.plot([x_of(best)], [best_value], color=color, marker="*", markersize=9)
    rate.plot(xs, [evaluation.learn_rate for evaluation in run.evaluations], **style)
    return handle


def _finish_perplexity(ax: "Axes", runs: Sequence[Run]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_ylabel("Held-out perplexity")
    handles = [
        Line2D([], [], color="0.3", label="forward"),
        Line2D([], [], color="0.3", label="backward", linestyle="--"),
        Line2D([], [], color="0.3", label="best", linestyle="", marker="*", markersize=9),
    ]
    ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
    drawn = [
        value
        for run in runs
        for evaluation in run.evaluations
        for value in (evaluation.forward_perplexity, evaluation.backward_perplexity)
        if math.isfinite(value)
    ]
    ratio = max(drawn, default=1) / min(drawn, default=1)
    if ratio >= LOG_SCALE_RATIO:
        ax.set_yscale("log")
        ax.set_ylabel("Held-out perplexity (log scale)")
        ax.yaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if ratio > 30 else (1, 1.5, 2, 3, 5, 7))
        )
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:,.10g}")


def _finish_rate(ax: "Axes", runs: Sequence[Run]) -> None:
    from matplotlib.ticker import ScalarFormatter

    ax.set_ylabel("Learning rate")
    highest = [max(evaluation.learn_rate for evaluation in run.evaluations) for run in runs]
    above_zero = [rate for rate in highest if rate > 0]
    if max(above_zero, default=1) > RATES_RATIO * min(above_zero, default=1):
        # Rates of different optimizers.
        ax.set_yscale("log", nonpositive="mask")
        return
    ax.set_ylim(bottom=0)
    formatter = ScalarFormatter(useMathText=True)
    formatter.set_powerlimits((-3, 4))
    ax.yaxis.set_major_formatter(formatter)


def _finite(value: float) -> float:
    """NaN, which leaves a gap, where a value cannot be drawn."""
    return value if math.isfinite(value) else math.nan
