"""Print what a biLM and the components on top of it learned, and write it as Markdown."""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy
import spacy
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_elmo.models import layer_weights

# Word, and two sentences that use it in different ways. None is in the treebank.
AMBIGUOUS = [
    ("book", "You can book the room by phone .", "He left his book on the table ."),
    ("light", "Please light the candle .", "This bag is very light ."),
    ("object", "They object to the new rule .", "The method returns a new object ."),
]
N_NEIGHBOURS = 2

Row = List[str]


def evaluate(model: Path, dev: Path) -> Dict[str, Any]:
    """Scores of a pipeline on a DocBin, as ``spacy evaluate`` computes them."""
    nlp = spacy.load(model)
    gold = DocBin().from_disk(dev).get_docs(nlp.vocab)
    return nlp.evaluate([Example(blank_copy(doc), doc) for doc in gold])


def blank_copy(doc: Doc) -> Doc:
    """The tokens of a Doc without their annotation."""
    return Doc(doc.vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc])


def score_rows(systems: List[Dict[str, Any]]) -> Iterator[Row]:
    names = [("tag_acc", "tag accuracy"), ("ents_f", "entity F1")]
    for key, name in names:
        if systems[0].get(key) is not None:
            yield [name, *(f"{scores[key]:.3f}" for scores in systems)]


def perplexity_rows(bilm: Path) -> Iterator[Row]:
    """Held-out perplexity of the saved model, from the training log's best line."""
    lines = [json.loads(line) for line in (bilm / "log.jsonl").read_text().splitlines()]
    best = min(lines, key=lambda line: line["perplexity"])
    for direction in ("forward", "backward"):
        yield [direction, f"{best[direction + '_perplexity']:.1f}"]


def weight_rows(nlp: Language) -> Iterator[Row]:
    for name, component in nlp.pipeline:
        for mix in layer_weights(component) if isinstance(component, TrainablePipe) else ():
            yield [name, *(f"{weight:.3f}" for weight in mix.weights), f"{mix.gamma:.3f}"]


def occurrences(nlp: Language, sentences: List[str], word: str) -> Iterator[Tuple[str, Any]]:
    """Every use of a word: its sentence with the word marked, and its vector."""
    for sentence in sentences:
        words = sentence.split()
        for i, found in enumerate(words):
            if found.lower() == word:
                doc = nlp(Doc(nlp.vocab, words=words))
                yield " ".join([*words[:i], f"**{found}**", *words[i + 1 :]]), doc[i].vector


def neighbour_rows(nlp: Language, treebank: Path) -> Iterator[Row]:
    """Uses of ambiguous words, and the most similar uses of the same word in the treebank."""
    sentences = [
        " ".join(token.split("|")[0] for token in line.split())
        for line in treebank.read_text(encoding="utf-8").splitlines()
    ]
    for word, *queries in AMBIGUOUS:
        candidates = list(occurrences(nlp, sentences, word))
        for query in queries:
            ((shown, vector),) = occurrences(nlp, [query], word)
            ranked = sorted(candidates, key=lambda other: -cosine(vector, other[1]))
            near = [f"{text} ({cosine(vector, v):.2f})" for text, v in ranked[:N_NEIGHBOURS]]
            yield [shown, *near]


def cosine(left: Any, right: Any) -> float:
    return float(left @ right / (numpy.linalg.norm(left) * numpy.linalg.norm(right)))


def table(title: str, header: Row, rows: Iterator[Row]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"## {title}\n\n{body}\n"


def build_report(
    dev: Path, bilm: Path, elmo: Path, bundled: Path, tok2vec: Path, treebank: Optional[Path]
) -> str:
    """All tables as one Markdown text."""
    nlp = spacy.load(bundled)
    n_layers = len(nlp("x")._.elmo_layers)
    layers = ["token layer", *(f"LSTM layer {i}" for i in range(1, n_layers))]
    parts = [
        "# What was learned\n\nA small demonstration, not a benchmark: one seed, a biLM trained "
        "for minutes beside the one that comes with the package, and few sentences. The biLMs are "
        "frozen; HashEmbedCNN is trained with the components.\n",
        table(
            "Held-out perplexity of the biLM", ["direction", "perplexity"], perplexity_rows(bilm)
        ),
        table(
            f"Scores on {dev.name}",
            ["", "the bundled biLM", "the biLM of minutes", "spaCy's HashEmbedCNN"],
            score_rows([evaluate(system, dev) for system in (bundled, elmo, tok2vec)]),
        ),
        table(
            "Learned layer weights (bundled biLM)",
            ["component", *layers, "gamma"],
            weight_rows(nlp),
        ),
    ]
    if treebank is not None:
        header = ["a use of the word", *(f"nearest use {i + 1}" for i in range(N_NEIGHBOURS))]
        title = "Nearest neighbours in context (bundled biLM, cosine)"
        parts.append(table(title, header, neighbour_rows(nlp, treebank)))
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", type=Path, required=True, help="DocBin to evaluate on")
    parser.add_argument("--bilm", type=Path, required=True, help="Output of the biLM's training")
    parser.add_argument("--elmo", type=Path, required=True, help="Pipeline on that biLM")
    parser.add_argument("--bundled", type=Path, required=True, help="Pipeline on the bundled one")
    parser.add_argument("--tok2vec", type=Path, required=True, help="Pipeline with tok2vec")
    parser.add_argument("--neighbours", type=Path, help="Treebank (.iob) to look for neighbours in")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    args = parser.parse_args()
    pipelines = (args.elmo, args.bundled, args.tok2vec)
    report = build_report(args.dev, args.bilm, *pipelines, args.neighbours)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
