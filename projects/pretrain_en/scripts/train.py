"""Train in sittings of the minutes given, and score the whole dev text after each of them.

A sitting goes on where the one before ended, or where it was stopped: what comes out is what one
run of the whole length gives. Options that this script does not know go to `spacy elmo train`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

from .texts import find_one, find_part

ELMO = [sys.executable, "-m", "spacy", "elmo"]


def train(arguments: List[str], minutes: float, output: Path) -> Dict[str, Any]:
    """Train until the minutes are over, and read the log's last line."""
    hours = str(minutes / 60)
    command = [*ELMO, "train", *arguments, "--resume", "--training.max_hours", hours]
    subprocess.run([*command, "--output", str(output)], check=True)
    lines = (output / "log.jsonl").read_text(encoding="utf-8").splitlines()
    last: Dict[str, Any] = json.loads(lines[-1])
    return last


def evaluate(model: Path, text: str, lang: str) -> Dict[str, Any]:
    """What ``spacy elmo evaluate`` tells of a model."""
    command = [*ELMO, "evaluate", str(model), text, "--lang", lang, "--json"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    result: Dict[str, Any] = json.loads(printed)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--lang", default="en")
    parser.add_argument("--dev-sample", type=Path, required=True)
    parser.add_argument("--minutes", required=True, help="rising numbers, with commas")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--curve", type=Path, required=True)
    args, overrides = parser.parse_known_args()
    arguments = [
        str(args.config),
        *("--paths.train", json.dumps(find_part(args.text, "train"))),
        *("--paths.dev", str(args.dev_sample)),
        *("--corpora.train.lang", args.lang),
        *overrides,
    ]
    # Points of an earlier start are kept: their models are gone, but the run is the same.
    found = json.loads(args.curve.read_text(encoding="utf-8")) if args.curve.exists() else []
    points = {point["minutes"]: point for point in found}
    for minutes in map(float, args.minutes.split(",")):
        if minutes in points:
            continue
        log = train(arguments, minutes, args.output)
        scores = evaluate(args.output / "model-last", find_one(args.text, "dev"), args.lang)
        points[minutes] = {
            "minutes": minutes,
            "step": log["step"],
            "epoch": log["epoch"],
            "n_tokens": log["n_tokens"],
            "seconds": log["seconds"],
            **{name: scores[name] for name in ("forward", "backward", "mean")},
        }
        args.curve.parent.mkdir(parents=True, exist_ok=True)
        temporary = args.curve.with_suffix(".tmp")
        temporary.write_text(json.dumps(list(points.values()), indent=2), encoding="utf-8")
        temporary.replace(args.curve)
        print(json.dumps(points[minutes]))


if __name__ == "__main__":
    main()
