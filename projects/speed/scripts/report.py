"""Make one Markdown report and one figure of all measurements, and print the report."""

import argparse
import json
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Sequence, Tuple

from . import report_heads, report_inference, report_training
from .tables import Measurement

# Each kind of measurement: what writes its section, and what draws its row of two panels.
KINDS: Dict[str, Tuple[Callable[[Measurement], str], Callable[[Measurement, Any, Any], None]]] = {
    "inference": (report_inference.write_section, report_inference.draw),
    "training": (report_training.write_section, report_training.draw),
    "heads": (report_heads.write_section, report_heads.draw),
}


def read_measurements(folder: Path) -> Iterator[Measurement]:
    """What each JSON file of a folder holds.

    :raises ValueError: one is of no known kind, or there is none.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError(f"{folder} has no .json file; expected one or more measurements.")
    for path in paths:
        measurement = json.loads(path.read_text(encoding="utf-8"))
        kind = measurement.get("kind")
        if kind not in KINDS:
            raise ValueError(f"{path}: kind is {kind!r}; expected one of {', '.join(KINDS)}.")
        yield measurement


def write_report(measurements: Sequence[Measurement], figure: str) -> str:
    """All sections as one Markdown text.

    :param figure: name of the figure, which stands beside the report.
    """
    sections = [KINDS[measurement["kind"]][0](measurement) for measurement in measurements]
    return "\n".join(["# Speed\n", f"![The rates as bars]({figure})\n", *sections])


def draw(measurements: Sequence[Measurement], path: Path) -> None:
    """The figure, PNG or SVG by the name of its file.

    :raises ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed: pip install spacy-elmo[plots]"
        ) from error

    n_rows = len(measurements)
    figure = Figure(figsize=(10, 4 * n_rows), dpi=120, layout="constrained")
    rows = figure.subplots(n_rows, 2, squeeze=False)
    for measurement, row in zip(measurements, rows):
        KINDS[measurement["kind"]][1](measurement, *row)
        for axes in row:
            axes.set_title(measurement["machine"]["device"], fontsize="medium")
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.margins(y=0.15)
            axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measurements", type=Path, help="Folder of JSON files")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--figure", default="speed.png", help="PNG or SVG file to write beside it")
    args = parser.parse_args()
    measurements = list(read_measurements(args.measurements))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    draw(measurements, args.output.with_name(args.figure))
    report = write_report(measurements, args.figure)
    args.output.write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
