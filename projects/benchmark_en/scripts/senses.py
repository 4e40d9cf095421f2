"""Tell word senses by the nearest neighbour in context, layer by layer.

As in Peters et al. 2018, section 5.3: a sense is the average of its word's vectors in training
contexts, and a new context gets the sense of its word that is nearest (cosine). A word without
training contexts gets its first sense. Every fifth document is held out.
"""

import argparse
import hashlib
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy
import srsly
import torch
from numpy.typing import NDArray

from spacy_elmo import BiLM

from .files import is_result_of, write_json
from .semcor import SenseExample
from .source import digest_bilm, find_source

Word = Tuple[str, str]


def split(examples: Sequence[SenseExample]) -> Tuple[List[int], List[int]]:
    """Numbers of the training and of the test examples: of five documents, in the order of their
    names, the fifth is test, so that each genre is in both parts."""
    files = sorted({example.file for example in examples})
    held_out = set(files[4::5])
    parts: Tuple[List[int], List[int]] = ([], [])
    for number, example in enumerate(examples):
        parts[example.file in held_out].append(number)
    return parts


def embed(bilm: BiLM, examples: Sequence[SenseExample]) -> NDArray[numpy.float32]:
    """The layers of each example's word in its sentence.

    :returns: *Shape:* (n_layers + 1, n_examples, width)
    """
    wanted: Dict[Tuple[str, ...], List[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        wanted[tuple(example.tokens)].append(number)
    sentences = list(wanted)
    shape = (bilm.config.n_layers + 1, len(examples), bilm.width)
    vectors = numpy.empty(shape, dtype=numpy.float32)
    for sentence, layers in bilm.iter_embed(sentences, initial_state="warm"):
        for number in wanted[sentences[sentence]]:
            vectors[:, number] = layers[:, examples[number].index]
    return vectors


def first_senses(examples: Sequence[SenseExample]) -> Dict[Word, str]:
    """WordNet's first sense of each word, or the first of those that are there."""
    found: Dict[Word, str] = {}
    for example in sorted(examples, key=lambda example: (int(example.wnsn), example.sense)):
        found.setdefault(example.word, example.sense)
    return found


def most_frequent(
    examples: Sequence[SenseExample], train: Sequence[int], fallback: Dict[Word, str]
) -> Callable[[int], str]:
    """Tells the sense that an example's word has most often in training contexts; of equally
    frequent ones that which WordNet puts first."""
    counts: Dict[Word, Counter] = defaultdict(Counter)
    for number in sorted(train, key=lambda number: int(examples[number].wnsn)):
        counts[examples[number].word][examples[number].sense] += 1
    best = {word: senses.most_common(1)[0][0] for word, senses in counts.items()}
    return lambda number: best.get(examples[number].word, fallback[examples[number].word])


def nearest(
    examples: Sequence[SenseExample],
    vectors: NDArray[numpy.float32],
    train: Sequence[int],
    fallback: Dict[Word, str],
) -> Callable[[int], str]:
    """Tells the sense whose average vector is nearest to an example.

    :param vectors: *Shape:* (n_examples, width)
    """
    numbers: Dict[Word, Dict[str, List[int]]] = defaultdict(lambda: defaultdict(list))
    for number in train:
        numbers[examples[number].word][examples[number].sense].append(number)
    averages = {
        word: {sense: vectors[found].mean(axis=0) for sense, found in senses.items()}
        for word, senses in numbers.items()
    }

    def find(number: int) -> str:
        senses = averages.get(examples[number].word)
        if senses is None:
            return fallback[examples[number].word]
        return max(senses, key=lambda sense: cosine(senses[sense], vectors[number]))

    return find


def cosine(left: NDArray[numpy.float32], right: NDArray[numpy.float32]) -> float:
    """The cosine of two vectors; 0.0 where one has no direction."""
    norms = float(numpy.linalg.norm(left) * numpy.linalg.norm(right))
    return float(left @ right) / norms if norms else 0.0


def accuracy(
    examples: Sequence[SenseExample], test: Sequence[int], predict: Callable[[int], str]
) -> float:
    """Share of the test examples whose sense is predicted."""
    return sum(predict(number) == examples[number].sense for number in test) / len(test)


def measure(examples: Sequence[SenseExample], bilm: BiLM) -> Dict[str, Any]:
    """Accuracies, by the keys of ``settings.SYSTEMS`` and "most_frequent"; "elmo" is the average
    of the layers, since nothing learns a mix here."""
    train, test = split(examples)
    fallback = first_senses(examples)
    layers = embed(bilm, examples)
    of_system = {f"layer_{number}": vectors for number, vectors in enumerate(layers)}
    of_system["elmo"] = layers.mean(axis=0)
    scores = {"most_frequent": accuracy(examples, test, most_frequent(examples, train, fallback))}
    for system, vectors in of_system.items():
        predict = nearest(examples, vectors, train, fallback)
        scores[system] = accuracy(examples, test, predict)
    return {"n_train": len(train), "n_test": len(test), "scores": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="Folder of `prepare`")
    parser.add_argument("--source", required=True, help="The biLM, or auto")
    parser.add_argument("--output", type=Path, required=True, help="Result file to write")
    parser.add_argument("--n-threads", type=int, default=1, help="Threads to use")
    args = parser.parse_args()
    torch.set_num_threads(args.n_threads)
    path = args.corpus / "semcor.json"
    bilm = BiLM.from_pretrained(find_source(args.source))
    data = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    fingerprint = f"{data}-{digest_bilm(bilm)}"
    if is_result_of(args.output, fingerprint):
        print(f"{args.output} is finished.")
        return
    start = time.perf_counter()
    examples = [SenseExample(**row) for row in srsly.read_json(path)]
    result = {"fingerprint": fingerprint, **measure(examples, bilm)}
    write_json(args.output, {**result, "seconds": time.perf_counter() - start})
    for name, score in result["scores"].items():
        print(f"{name:14} {score:.4f}")


if __name__ == "__main__":
    main()
