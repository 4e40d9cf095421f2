"""Draw the scores as bars a task, and the layer weights of each component."""

from pathlib import Path
from typing import Any, Dict, List, Sequence

from .results import Row
from .settings import SYSTEMS

COLOURS = ("#7f7f7f", "#d62728", "#ff9896", "#c6dbef", "#6baed6", "#2171b5")
LAYER_COLOURS = COLOURS[3:]


def draw(
    systems: Sequence[str], rows: Dict[str, Row], mixes: Dict[str, List[float]], path: Path
) -> None:
    """The figure, PNG or SVG by the name of its file.

    :param rows: scores of each task.
    :param mixes: weights of the layers of each component.
    :raises ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed: pip install spacy-elmo[plots]"
        ) from error

    figure = Figure(figsize=(13, 5.5), dpi=120, layout="constrained")
    scores, weights = figure.subplots(1, 2, width_ratios=(2, 1))
    draw_scores(scores, systems, rows)
    draw_weights(weights, mixes)
    for axes in (scores, weights):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def draw_scores(axes: Any, systems: Sequence[str], rows: Dict[str, Row]) -> None:
    """Bars of the means, with whiskers of a standard deviation where there are several runs."""
    width = 0.8 / max(1, len(systems))
    for number, (system, colour) in enumerate(zip(systems, COLOURS)):
        known = [
            (place, row.scores[system])
            for place, row in enumerate(rows.values())
            if system in row.scores
        ]
        axes.bar(
            [place + (number - (len(systems) - 1) / 2) * width for place, _ in known],
            [100 * summary.mean for _, summary in known],
            width,
            yerr=[100 * (summary.spread or 0.0) for _, summary in known],
            color=colour,
            label=SYSTEMS[system],
        )
    axes.set_xticks(range(len(rows)), [_in_lines(row) for row in rows.values()], fontsize="small")
    axes.set_ylabel("score on the test part, %")
    axes.legend(fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def draw_weights(axes: Any, mixes: Dict[str, List[float]]) -> None:
    """A bar a component, made of its layers' softmax weights."""
    names = list(mixes)
    lefts = [0.0] * len(names)
    n_layers = max((len(weights) for weights in mixes.values()), default=0)
    for layer in range(n_layers):
        parts = [mixes[name][layer] for name in names]
        colour = LAYER_COLOURS[layer % len(LAYER_COLOURS)]
        axes.barh(range(len(names)), parts, left=lefts, color=colour, label=f"layer {layer}")
        lefts = [left + part for left, part in zip(lefts, parts)]
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("softmax weight in the mix")
    if names:
        axes.legend(fontsize="small", ncols=n_layers, loc="lower center", bbox_to_anchor=(0.5, 1))


def _in_lines(row: Row) -> str:
    """A title that is no wider than its longest word."""
    return row.title.replace(" ", "\n")
