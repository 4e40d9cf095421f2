"""Take each n-th sentence of the dev text."""

import argparse
from pathlib import Path

from spacy_elmo.training.text.corpus import build_text_corpus_v1

from .texts import find_one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--lang", default="en")
    parser.add_argument("--every", type=int, default=10)
    args = parser.parse_args()
    corpus = build_text_corpus_v1(path=find_one(args.text, "dev"), lang=args.lang)
    kept = [words for number, words in enumerate(corpus) if number % args.every == 0]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("".join(" ".join(words) + "\n" for words in kept), encoding="utf-8")


if __name__ == "__main__":
    main()
