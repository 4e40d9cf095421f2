"""Convert the data sets to spaCy's format, one folder a task, and the examples of word senses."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any, List, Sequence

import spacy
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from .files import write_json
from .readers import READERS, SPLITS, Sentence
from .semcor import read_examples
from .settings import Settings, Task, read_settings


def make_doc(vocab: Vocab, sentence: Sentence, annotation: str) -> Doc:
    """A Doc with what a task learns and nothing else.

    :param annotation: "upos" or "xpos" (both as ``token.tag_``), "deps", "entities" or "category".
    """
    values: Any = {
        "upos": {"tags": sentence.upos},
        "xpos": {"tags": sentence.xpos},
        "deps": {"heads": sentence.heads, "deps": sentence.deps},
        "entities": {"ents": sentence.entities},
        "category": {},
    }[annotation]
    # Without spaces: spaCy's corpus reader then keeps the tokens of the data set.
    doc = Doc(vocab, words=sentence.words, **values)
    if annotation == "category":
        doc.cats = {sentence.category: 1.0}
    return doc


def thin(sentences: Sequence[Sentence], limit: int) -> List[Sentence]:
    """At most so many sentences, evenly spread; 0 for all."""
    if not limit or len(sentences) <= limit:
        return list(sentences)
    return [sentences[number * len(sentences) // limit] for number in range(limit)]


def convert(task: Task, data: Path, corpus: Path) -> None:
    """Write a task's splits as DocBins, a sentence a Doc."""
    vocab = spacy.blank("en").vocab
    limits = {"train": task.train_sentences, "dev": task.dev_sentences, "test": 0}
    splits = READERS[task.data](data)
    labels = sorted({sentence.category for sentence in splits["train"] if sentence.category})
    for split in SPLITS:
        docs = [
            make_doc(vocab, sentence, task.annotation)
            for sentence in thin(splits[split], limits[split])
        ]
        for doc in docs:
            if doc.cats:
                doc.cats = {label: float(label in doc.cats) for label in labels}
        path = corpus / task.name / f"{split}.spacy"
        path.parent.mkdir(parents=True, exist_ok=True)
        DocBin(docs=docs).to_disk(path)
        n_tokens = sum(map(len, docs))
        print(f"{task.name:12} {split:5} {len(docs):7,} sentences {n_tokens:9,} tokens")


def prepare(settings: Settings, data: Path, corpus: Path) -> None:
    """Write all corpora.

    :param data: a folder laid out as ``assets`` is, each file plain, as ``.gz`` or as ``.xz``.
    :param corpus: folder to write.
    """
    for task in settings.tasks:
        convert(task, data, corpus)
    examples = read_examples(data)
    write_json(corpus / "semcor.json", [asdict(example) for example in examples])
    print(f"{'senses':12} {len(examples):13,} examples")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", type=Path, help="Settings of the benchmark (.cfg)")
    parser.add_argument("--data", type=Path, required=True, help="Folder of the data sets")
    parser.add_argument("--output", type=Path, required=True, help="Folder to write")
    args = parser.parse_args()
    prepare(read_settings(args.settings), args.data, args.output)


if __name__ == "__main__":
    main()
