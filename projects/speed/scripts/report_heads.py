"""The section on training components, and its panels of the figure."""

from typing import Any, Dict, List, Tuple

from .tables import Measurement, describe, table

#: From the second epoch on, ELMo is to take at most this many times as long as HashEmbedCNN.
RATIO_TO_REACH = 1.3
BASELINE = "HashEmbedCNN"


def write_section(measurement: Measurement) -> str:
    """The table as Markdown."""
    rows: List[List[str]] = []
    for name, first, later in list_times(measurement):
        rate = measurement["n_tokens"] / later
        ratio = f"{later / baseline_of(measurement):.2f}"
        rows.append([name, f"{first:.2f}", f"{later:.2f}", f"{rate:,.0f}", ratio])
    header = ["tagger on", "seconds, epoch 1", "seconds, later epochs", "tokens/s", "ratio"]
    store = measurement["store"]
    return "\n".join(
        [
            f"## Training a component\n\n{describe(measurement['machine'])}",
            table(header, rows),
            f"- {measurement['n_sentences']:,} sentences of {measurement['data']} "
            f"({measurement['n_tokens']:,} tokens in {measurement['n_docs']:,} Docs), ELMo's "
            f"vectors of width {measurement['width']}. The store held {store['n_segments']:,} "
            f"segments in {store['n_bytes'] / 1e6:,.0f} MB.",
            *(write_verdict(measurement, name, later) for name, _, later in elmos(measurement)),
            "",
        ]
    )


def write_verdict(measurement: Measurement, name: str, later: float) -> str:
    """Whether a case is fast enough."""
    ratio = later / baseline_of(measurement)
    verdict = "reached" if ratio <= RATIO_TO_REACH else "not reached"
    return f"- {name}: ratio {ratio:.2f}, to reach {RATIO_TO_REACH} or less: **{verdict}**."


def list_times(measurement: Measurement) -> List[Tuple[str, float, float]]:
    """Name, seconds of the first epoch, and mean seconds of each later one."""
    found: Dict[str, List[float]] = measurement["seconds_by_epoch"]
    return [(name, s[0], sum(s[1:]) / len(s[1:])) for name, s in found.items()]


def elmos(measurement: Measurement) -> List[Tuple[str, float, float]]:
    """What is compared with the baseline."""
    return [times for times in list_times(measurement) if times[0] != BASELINE]


def baseline_of(measurement: Measurement) -> float:
    """Mean seconds of a later epoch of HashEmbedCNN."""
    return {name: later for name, _, later in list_times(measurement)}[BASELINE]


def draw(measurement: Measurement, left: Any, right: Any) -> None:
    """Bars for the epochs, and for the ratio of the later ones.

    :param left: axes of matplotlib, as is ``right``.
    """
    times = list_times(measurement)
    names = [name.replace(" with ", "\nwith ") for name, _, _ in times]
    width = 0.4
    for shift, label, heights in (
        (-width / 2, "epoch 1", [first for _, first, _ in times]),
        (width / 2, "later epochs", [later for _, _, later in times]),
    ):
        bars = left.bar([n + shift for n in range(len(times))], heights, width, label=label)
        left.bar_label(bars, fmt="{:.1f}")
    left.set_ylabel("Training a tagger, seconds an epoch")
    left.legend(frameon=False)
    ratios = [later / baseline_of(measurement) for _, _, later in times]
    right.bar_label(right.bar(range(len(times)), ratios, width=0.6), fmt="{:.2f}")
    right.axhline(RATIO_TO_REACH, color="grey", linestyle="--", linewidth=1)
    right.set_ylabel("Later epochs, times HashEmbedCNN")
    for axes in (left, right):
        axes.set_xticks(range(len(times)), names, fontsize="small")
