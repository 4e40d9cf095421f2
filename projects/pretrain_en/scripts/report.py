"""Print the curve of the dev text and the scores of the last model, and write them as Markdown."""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List

from .texts import find_one
from .train import evaluate

CURVE = ("minutes", "steps", "epochs", "tokens read", "forward", "backward", "mean")
SCORES = ("text", "tokens", "unknown", "forward", "backward", "mean")


def curve_row(point: Dict[str, Any]) -> List[str]:
    return [
        f"{point['seconds'] / 60:.0f}",
        f"{point['step']:,}",
        f"{point['epoch']:.2f}",
        f"{point['n_tokens'] / 1e6:.1f} M",
        *perplexities(point),
    ]


def score_row(name: str, scores: Dict[str, Any]) -> List[str]:
    tokens, unknown = scores["n_tokens"], scores["unknown_rate"]
    return [name, f"{tokens:,}", f"{unknown:.2%}", *perplexities(scores)]


def perplexities(scores: Dict[str, Any]) -> List[str]:
    return [f"{scores[name]:.2f}" for name in ("forward", "backward", "mean")]


def table(head: Any, rows: List[List[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--lang", default="en")
    parser.add_argument("--curve", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    points = json.loads(args.curve.read_text(encoding="utf-8"))
    rows = [
        score_row(part, evaluate(args.model, find_one(args.text, part), args.lang))
        for part in ("dev", "test")
    ]
    report = "\n\n".join(
        [
            "Perplexity of the dev text by training time:",
            table(CURVE, [curve_row(point) for point in points]),
            "The last model:",
            table(SCORES, rows),
        ]
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(report + "\n", encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
