"""Time a token and peak memory of a pipeline of size `sm` for documents of growing length.

A process of its own: peak memory never falls, so nothing else may come before.
"""

import argparse
import json
import resource
import sys
from time import perf_counter
from typing import Any, Dict, List

import spacy
import torch
from spacy.tokens import Doc

SIZES = {
    "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]],
    "projection_dim": 128,
    "cell_size": 1024,
}
SHORTEST = 10
N_WORDS = 5000


def peak_megabytes() -> float:
    """The most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def measure(lengths: List[int]) -> List[Dict[str, Any]]:
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"model": {"source": SIZES}})
    nlp.initialize()
    words = [f"w{number}" for number in range(N_WORDS)]
    for _ in range(3):
        nlp(Doc(nlp.vocab, words=words))
    before = peak_megabytes()
    found: List[Dict[str, Any]] = []
    for length in lengths:
        doc = Doc(nlp.vocab, words=[words[i % N_WORDS] for i in range(length)])
        begin = perf_counter()
        doc = nlp(doc)
        seconds = perf_counter() - begin
        found.append(
            {
                "n_tokens": length,
                "us_a_token": 1e6 * seconds / length,
                "tensor_megabytes": doc.tensor.nbytes / 1e6,
                "peak_megabytes": peak_megabytes() - before,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    lengths = [SHORTEST]
    while lengths[-1] * 10 <= args.longest:
        lengths.append(lengths[-1] * 10)
    print(json.dumps(measure(lengths)))


if __name__ == "__main__":
    main()
