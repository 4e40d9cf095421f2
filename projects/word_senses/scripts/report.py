"""Write the page of words and their contexts, and print how well neighbours agree."""

import argparse
from pathlib import Path
from typing import List, Sequence

import numpy
from numpy.typing import NDArray

from spacy_elmo.training.files import write_files

from .collect import parse_words
from .contexts import Context, read_contexts
from .neighbours import agreement, chance, cosines, nearest, project
from .page import Page, View, Word, write_page


def describe_view(
    vectors: NDArray[numpy.floating], contexts: Sequence[Context], k: int, is_labelled: bool
) -> View:
    """One layer of one word.

    :param vectors: *Shape:* (n_contexts, width)
    :param is_labelled: whether two senses or more have labels.
    """
    similarities = cosines(vectors)
    points, shares = project(vectors)
    figures = None
    if is_labelled:
        rows = [number for number, context in enumerate(contexts) if context.sense]
        labels = [contexts[number].sense for number in rows]
        of_labelled = similarities[numpy.ix_(rows, rows)]
        figures = [agreement(of_labelled, labels, n) for n in (1, k)]
    return View(points, shares, similarities, nearest(similarities, k), figures)


def describe_word(
    word: str, contexts: List[Context], layers: NDArray[numpy.floating], k: int
) -> Word:
    """All views of one word: its layers, and their average.

    :param layers: *Shape:* (n_contexts, n_layers + 1, width)
    """
    labels = [context.sense for context in contexts if context.sense]
    is_labelled = len(set(labels)) > 1
    views = [*numpy.moveaxis(layers, 1, 0), layers.mean(axis=1)]
    return Word(
        word,
        contexts,
        [describe_view(vectors, contexts, k, is_labelled) for vectors in views],
        chance(labels) if is_labelled else None,
    )


def name_views(n_layers: int) -> List[str]:
    """Names of the token layer, of so many LSTM layers, and of their average."""
    return ["layer 0 (static)", *(f"layer {n + 1}" for n in range(n_layers)), "average"]


def make_page(
    contexts: Sequence[Context],
    layers: NDArray[numpy.floating],
    words: Sequence[str],
    source: str,
    k: int,
) -> Page:
    """Describe the words that have contexts.

    :param layers: *Shape:* (n_contexts, n_layers + 1, width)
    """
    found: List[Word] = []
    for word in words:
        rows = [number for number, context in enumerate(contexts) if context.word == word]
        if rows:
            own = [contexts[number] for number in rows]
            found.append(describe_word(word, own, layers[rows], k))
    missing = [word for word in words if word not in {one.word for one in found}]
    names = name_views(layers.shape[1] - 1)
    return Page(found, names, source, k, first_view=len(names) - 1, missing=missing)


def table(page: Page) -> str:
    """The agreement of the ``k`` nearest neighbours as Markdown."""
    rows = [["word", "labelled", "senses", "by chance", *page.names]]
    rows.append(["---", *["---:"] * (len(rows[0]) - 1)])
    for word in page.words:
        if word.chance is not None:
            n_labelled = sum(bool(context.sense) for context in word.contexts)
            row = [word.word, str(n_labelled), str(len(word.senses)), f"{word.chance:.2f}"]
            rows.append(row + [f"{view.agreement[1]:.2f}" for view in word.views if view.agreement])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--words", required=True, help="Words, separated by commas")
    parser.add_argument("--source", required=True, help="What to call the biLM on the page")
    parser.add_argument("--neighbours", type=int, default=5)
    parser.add_argument("--output", type=Path, required=True, help="HTML file to write")
    args = parser.parse_args()
    if args.neighbours < 1:
        raise SystemExit(f"--neighbours is {args.neighbours}; expected 1 or more.")
    contexts, layers = read_contexts(args.contexts), numpy.load(args.vectors)
    if len(contexts) != len(layers):
        raise SystemExit(
            f"{args.vectors} has {len(layers)} vectors, {args.contexts} {len(contexts)} contexts; "
            "expected as many. Run the step 'embed' again."
        )
    page = make_page(contexts, layers, parse_words(args.words), args.source, args.neighbours)
    write_files(args.output.parent, {args.output.name: write_page(page).encode("utf-8")})
    if any(word.chance is not None for word in page.words):
        print(f"The share of the {page.k} nearest neighbours that have the same label:\n")
        print(table(page) + "\n")
    if page.missing:
        print(f"Not in the text: {', '.join(page.missing)}")
    print(f"Open it in a browser: {args.output.resolve()}")


if __name__ == "__main__":
    main()
