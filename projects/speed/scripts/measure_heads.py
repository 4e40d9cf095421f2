"""Measure how long an epoch of training a tagger on frozen ELMo takes, beside the same tagger on
spaCy's HashEmbedCNN.

The pipelines take turns batch by batch within one process. From the second epoch on, ELMo's
layers come from the store. Times depend on the sizes of biLM, Docs and tags, and not on what they
are, so by default the text, the tags and the biLM are made up; --ewt and --bilm take real ones.
"""

import argparse
import gzip
import json
import random
import zlib
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional

import spacy
import torch
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.training.converters import conllu_to_docs
from spacy.util import fix_random_seed
from thinc.api import compounding

from spacy_elmo import BiLM

from .machine import describe_machine

N_TAGS = 50
WIDTH, DEPTH, PIECES = 96, 4, 3
EWT_TRAIN = "en_ewt-ud-train.conllu"

# Of `spacy elmo init-bilm --size sm`.
SM_SIZES: Dict[str, Any] = {
    "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]],
    "projection_dim": 128,
    "cell_size": 1024,
}


def read_ewt(folder: Path, n_sentences: int, sentences_a_doc: int) -> List[Doc]:
    """The first sentences of UD English EWT's training set."""
    plain = folder / EWT_TRAIN
    if plain.exists():
        text = plain.read_text(encoding="utf-8")
    else:
        with gzip.open(folder / f"{EWT_TRAIN}.gz", "rt", encoding="utf-8") as file:
            text = file.read()
    sentences = text.strip().split("\n\n")[:n_sentences]
    docs = conllu_to_docs("\n\n".join(sentences) + "\n", n_sents=sentences_a_doc, no_print=True)
    return list(docs)


def read_text(path: Path, n_sentences: int, sentences_a_doc: int) -> List[Doc]:
    """Lines of a text as sentences, with tags that are made up from the words."""
    nlp = spacy.blank("en")
    with path.open(encoding="utf-8") as file:
        lines = iter([line.strip() for line in islice(file, n_sentences)])
    docs: List[Doc] = []
    while group := list(islice(lines, sentences_a_doc)):
        words = [token.text for token in nlp.make_doc(" ".join(group))]
        tags = [f"T{zlib.crc32(word.encode()) % N_TAGS}" for word in words]
        docs.append(Doc(nlp.vocab, words=words, tags=tags))
    return docs


def cnn_block() -> Dict[str, Any]:
    """spaCy's own token vectors."""
    return {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": WIDTH,
        "depth": DEPTH,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": PIECES,
        "subword_features": True,
    }


def listener_block(width: int) -> Dict[str, Any]:
    """ELMo alone."""
    return {"@architectures": "spacy-elmo.ElmoListener.v1", "width": width, "upstream": "elmo"}


def joined_block(width: int) -> Dict[str, Any]:
    """The embedding and the encoder of HashEmbedCNN, with ELMo joined to the encoder's input and a
    maxout layer that brings both to the encoder's width."""
    return {
        "@architectures": "spacy-elmo.Tok2VecElmo.v1",
        "width": width,
        "upstream": "elmo",
        "join": "input",
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": WIDTH,
            "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
            "rows": [2000, 1000, 1000, 1000],
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": WIDTH,
            "depth": DEPTH,
            "window_size": 1,
            "maxout_pieces": PIECES,
        },
    }


class Case:
    """A pipeline in training.

    :param tok2vec: the tagger's block.
    :param docs: Docs with tags.
    :param elmo: the settings of an ``elmo`` component's model; none for no such component.
    """

    def __init__(
        self, tok2vec: Dict[str, Any], docs: Iterable[Doc], elmo: Optional[Dict[str, Any]]
    ) -> None:
        fix_random_seed(0)
        self.nlp = spacy.blank("en")
        if elmo is not None:
            self.nlp.add_pipe("elmo", config={"model": elmo})
        model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
        self.nlp.add_pipe("tagger", config={"model": model})
        self.examples = [self._make_example(doc) for doc in docs]
        self.optimizer = self.nlp.initialize(lambda: self.examples)
        self.seconds: List[float] = []

    def _make_example(self, doc: Doc) -> Example:
        reference = Doc(self.nlp.vocab).from_bytes(doc.to_bytes())
        return Example(Doc(self.nlp.vocab, words=[token.text for token in doc]), reference)

    def update(self, numbers: Iterable[int]) -> float:
        """A step as `spacy train` makes it; its seconds."""
        examples = [self.examples[number] for number in numbers]
        begin = perf_counter()
        self.nlp.update(examples, drop=0.1, sgd=False, losses={})  # type: ignore[arg-type]
        for _, pipe in self.nlp.pipeline:
            pipe.finish_update(self.optimizer)  # type: ignore[attr-defined]
        self.optimizer.step_schedules()
        return perf_counter() - begin

    def describe_store(self) -> Dict[str, Any]:
        """What the store has at the end."""
        store = self.nlp.get_pipe("elmo").layer_store  # type: ignore[attr-defined]
        return {"n_segments": len(store), "n_bytes": store.n_bytes}


def iter_batches(docs: List[Doc], n_epochs: int) -> Iterator[List[List[int]]]:
    """The numbers of the Docs in each batch of each epoch, by spaCy's default batcher."""
    size: Any = compounding(100, 1000, 1.001)
    order = list(range(len(docs)))
    shuffle = random.Random(0).shuffle
    for _ in range(n_epochs):
        shuffle(order)
        batches = minibatch_by_words(
            order, size=size, tolerance=0.2, get_length=lambda number: len(docs[number])
        )
        yield [list(batch) for batch in batches]


def measure(cases: Mapping[str, Case], docs: List[Doc], n_epochs: int) -> None:
    """Train all cases side by side, each as often first in a batch as the others."""
    names = list(cases)
    for batches in iter_batches(docs, n_epochs):
        seconds = dict.fromkeys(names, 0.0)
        for batch in batches:
            for name in names:
                seconds[name] += cases[name].update(batch)
            names = [*names[1:], names[0]]
        for name in names:
            cases[name].seconds.append(seconds[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="Text, a sentence a line")
    parser.add_argument("--ewt", default="", help="Folder of UD English EWT, in place of the text")
    parser.add_argument("--bilm", default="", help="Weights; by default size sm at random")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--sentences-a-doc", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: torch's choice")
    args = parser.parse_args()
    if args.epochs < 2:
        parser.error(f"--epochs is {args.epochs}; expected 2 or more, as the first fills the store")
    if args.threads:
        torch.set_num_threads(args.threads)
    read = partial(read_ewt, Path(args.ewt)) if args.ewt else partial(read_text, args.text)
    docs = read(args.sentences, args.sentences_a_doc)
    source = args.bilm or SM_SIZES
    width = BiLM.from_pretrained(args.bilm).width if args.bilm else 2 * SM_SIZES["projection_dim"]
    elmo = {"source": source, "width": width}
    cases = {
        "HashEmbedCNN": Case(cnn_block(), docs, None),
        "ELMo": Case(listener_block(width), docs, elmo),
        "HashEmbedCNN with ELMo at its input": Case(joined_block(width), docs, elmo),
    }
    measure(cases, docs, args.epochs)
    results = {
        "kind": "heads",
        "machine": describe_machine(torch.device("cpu")),
        "data": "UD English EWT" if args.ewt else "made-up text",
        "n_sentences": args.sentences,
        "n_docs": len(docs),
        "n_tokens": sum(map(len, docs)),
        "width": width,
        "store": cases["ELMo"].describe_store(),
        "seconds_by_epoch": {name: case.seconds for name, case in cases.items()},
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
