"""Write the table and the figure of all results, and print the table."""

import argparse
import json
from pathlib import Path
from typing import Dict, Iterator, Optional, Sequence

from .figure import draw
from .results import Result, Row, Summary, make_rows, mean_mixes, read_results
from .settings import SYSTEMS, Settings, read_settings

#: What part of HashEmbedCNN's errors ELMo is to take away, and on which tasks.
TO_CUT = 0.15
JUDGED = ("upos", "wnut17")


def write_report(
    settings: Settings, results: Sequence[Result], senses: Optional[Result], figure: str
) -> str:
    """The report as Markdown.

    :param senses: the result of ``senses``, if it is there.
    :param figure: name of the figure, which stands beside the report.
    """
    rows = make_rows(settings, results, senses)
    n_missing = sum(len(settings.runs_of(task)) for task in settings.tasks) - len(results)
    parts = ["# ELMo downstream\n", table(settings.systems, rows)]
    if n_missing:
        parts.append(f"{n_missing} runs are missing.\n")
    lines = [f"- {line}\n" for line in verdicts(rows)]
    parts += ["".join(lines), f"![Scores and layer weights]({figure})\n", describe(results)]
    return "\n".join(part for part in parts if part)


def table(systems: Sequence[str], rows: Dict[str, Row]) -> str:
    """Scores in percent, one task a line."""
    titles = [SYSTEMS[system] for system in systems]
    header = ["test part", *titles, "errors cut by ELMo at the input"]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for row in rows.values():
        cells = [show(row.scores.get(system)) for system in systems]
        if row.baseline and "hash" in systems:
            cells[systems.index("hash")] += f" ({row.baseline})"
        cut = None if row.baseline else row.error_cut("elmo_input")
        lines.append([row.title, *cells, "" if cut is None else f"{100 * cut:.1f} %"])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def show(summary: Optional[Summary]) -> str:
    """Mean and, of several runs, standard deviation."""
    if summary is None:
        return ""
    spread = "" if summary.spread is None else f" ± {100 * summary.spread:.2f}"
    return f"{100 * summary.mean:.2f}{spread}"


def verdicts(rows: Dict[str, Row]) -> Iterator[str]:
    """What a good biLM is to reach, and whether this one does."""
    for name in JUDGED:
        cut = rows[name].error_cut("elmo_input") if name in rows else None
        if cut is not None:
            reached = _reached(cut >= TO_CUT)
            yield (
                f"{rows[name].title}: ELMo at the input cuts the errors of HashEmbedCNN by "
                f"{100 * cut:.1f} % (to reach: {100 * TO_CUT:.0f} %): **{reached}**"
            )
    for name in ("upos", "xpos"):
        scores = rows[name].scores if name in rows else {}
        if "layer_1" in scores and "layer_2" in scores:
            reached = _reached(scores["layer_1"].mean > scores["layer_2"].mean)
            yield f"{rows[name].title}: layer 1 is better than layer 2: **{reached}**"
    if "semcor" in rows:
        scores = dict(rows["semcor"].scores)
        baseline = scores.pop("hash").mean
        reached = _reached(scores["layer_2"].mean > baseline)
        yield f"{rows['semcor'].title}: layer 2 beats the most frequent sense: **{reached}**"


def describe(results: Sequence[Result]) -> str:
    """What was run."""
    if not results:
        return ""
    hours = sum(result["seconds"] for result in results) / 3600
    sources = sorted({result["source"] for result in results if result["source"]})
    versions = sorted({result["version"] for result in results})
    return (
        f"{len(results)} runs of together {hours:.2f} hours; biLM {', '.join(sources) or 'none'}; "
        f"spacy-elmo {', '.join(versions)}. Means and, after ±, standard deviations over seeds. "
        "The word senses have no learned mix: “ELMo alone” is the average of the layers there.\n"
    )


def _reached(value: bool) -> str:
    return "reached" if value else "not reached"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", type=Path, help="Settings of the benchmark (.cfg)")
    parser.add_argument("--results", type=Path, required=True, help="Folder of result files")
    parser.add_argument("--senses", type=Path, required=True, help="Result file of the senses")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--figure", default="benchmark.png", help="PNG or SVG beside it")
    args = parser.parse_args()
    settings = read_settings(args.settings)
    results = read_results(settings, args.results)
    senses = json.loads(args.senses.read_text("utf-8")) if args.senses.exists() else None
    args.output.parent.mkdir(parents=True, exist_ok=True)
    rows = make_rows(settings, results, senses)
    draw(settings.systems, rows, mean_mixes(settings, results), args.output.with_name(args.figure))
    report = write_report(settings, results, senses, args.figure)
    args.output.write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
