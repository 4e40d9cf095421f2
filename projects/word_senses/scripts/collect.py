"""Collect the contexts of words from labelled and from plain text."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple, TypeVar

import spacy

from spacy_elmo.training.text.corpus import build_text_corpus_v1

from .contexts import Context, write_contexts
from .labelled_text import find_word, read_labelled

ItemT = TypeVar("ItemT")


def parse_words(text: str) -> List[str]:
    """The words of a list such as ``bank,bass``, each once."""
    words = [word.strip() for word in text.split(",")]
    words = list(dict.fromkeys(word for word in words if word))
    if not words:
        raise SystemExit(f"The words are {text!r}; expected a list: --vars.words bank,bass")
    return words


def read_plain(path: str, words: Sequence[str], lang: str) -> Iterator[Context]:
    """The unlabelled contexts of words in any text that ``spacy elmo train`` reads."""
    try:
        corpus = build_text_corpus_v1(path=path, lang=lang)
    except ValueError as error:
        raise SystemExit(f"{error} Name the text: --vars.text path/to/file/or/folder") from None
    for tokens in corpus.read_stream().iter_sentences():
        for word in words:
            for index in find_word(word, tokens):
                yield Context(word, "", list(tokens), index)


def spread(items: Sequence[ItemT], limit: int) -> List[ItemT]:
    """At most so many items, at even distances."""
    if len(items) <= limit:
        return list(items)
    return [items[number * len(items) // limit] for number in range(limit)]


def choose(contexts: Sequence[Context], words: Sequence[str], per_sense: int) -> List[Context]:
    """The contexts of words in the order of the words and senses, at most ``per_sense`` of each
    sense and without a label. The same sentence counts once."""
    groups: Dict[Tuple[str, str], Dict[Tuple[Tuple[str, ...], int], Context]] = {}
    for context in contexts:
        groups.setdefault((context.word, context.sense), {}).setdefault(
            (tuple(context.tokens), context.index), context
        )
    chosen: List[Context] = []
    for word in words:
        # Those without a label come last.
        senses = sorted((key for key in groups if key[0] == word), key=lambda key: not key[1])
        for key in senses:
            chosen.extend(spread(list(groups[key].values()), per_sense))
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", required=True, help="Words, separated by commas")
    parser.add_argument("--labelled", default="", help="Labelled text; empty for none")
    parser.add_argument("--text", default="", help="Plain text; empty for none")
    parser.add_argument("--lang", default="en")
    parser.add_argument("--per-sense", type=int, default=40, help="Contexts of a sense at most")
    parser.add_argument("--output", type=Path, required=True, help="JSONL file to write")
    args = parser.parse_args()
    words = parse_words(args.words)
    if args.per_sense < 1:
        raise SystemExit(f"--per-sense is {args.per_sense}; expected 1 or more.")
    if not args.labelled and not args.text:
        raise SystemExit("There is no text: give --vars.labelled, --vars.text or both.")
    contexts: List[Context] = []
    if args.labelled:
        contexts += read_labelled(Path(args.labelled), spacy.blank(args.lang))
    if args.text:
        contexts += read_plain(args.text, words, args.lang)
    chosen = choose(contexts, words, args.per_sense)
    if not chosen:
        raise SystemExit(f"The text has none of the words {', '.join(words)}.")
    write_contexts(args.output, chosen)
    counts = Counter((context.word, bool(context.sense)) for context in chosen)
    for word in words:
        labelled, plain = counts[word, True], counts[word, False]
        print(f"{word}: {labelled} labelled contexts, {plain} without a label")


if __name__ == "__main__":
    main()
