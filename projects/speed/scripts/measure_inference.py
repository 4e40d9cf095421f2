"""Measure how fast a biLM gives vectors, beside how fast the same machine does its products alone,
spaCy's own tok2vec, and the plain forward pass that the first tools had.
"""

import argparse
import copy
import gzip
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Callable, Dict, Iterator, List, Sequence

import numpy
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from torch.utils.benchmark import Timer

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.fixed_weights import FixedLinear
from spacy_elmo.bilm.precision import Precision
from spacy_elmo.models.encoder import lazy_bilm

from . import textbook
from .machine import describe_machine, time_it
from .products import RUN_TIME

PRECISIONS: Dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
}

_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]

#: `sm` of `spacy elmo init-bilm`, and the small and the original one of those that were published.
SIZES: Dict[str, Dict[str, Any]] = {
    "sm": {"filters": _FILTERS[:5], "projection_dim": 128, "cell_size": 1024},
    "small": {"filters": _FILTERS, "projection_dim": 128, "cell_size": 1024},
    "original": {"filters": _FILTERS, "projection_dim": 512, "cell_size": 4096, "n_highway": 2},
}

# Sentences of a call, as AllenNLP's users had it; they come as they stand in the text.
BATCH = 32
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

# Rows of a product at which a machine is near its best rate.
MANY_ROWS = 512

WORDS_OF_A_SHORT_SENTENCE = 10

Sentences = List[List[str]]


def read_sentences(path: Path, n_tokens: int) -> Sentences:
    """The first sentences of raw text, a sentence a line, or of CoNLL-U, which may be gzipped."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        iterate = _iter_conllu if ".conllu" in path.name else _iter_lines
        sentences: Sentences = []
        for sentence in iterate(file):
            if n_tokens <= 0:
                break
            sentences.append(sentence)
            n_tokens -= len(sentence)
    if not sentences:
        raise ValueError(f"{path} has no sentence; expected a line of text, or CoNLL-U.")
    return sentences


def _iter_lines(lines: Any) -> Iterator[List[str]]:
    tokenizer = spacy.blank("xx").tokenizer
    for line in lines:
        if line.strip():
            yield [token.text for token in tokenizer(line.strip())]


def _iter_conllu(lines: Any) -> Iterator[List[str]]:
    words: List[str] = []
    for line in lines:
        number, _, rest = line.partition("\t")
        if number.isdigit():
            words.append(rest.partition("\t")[0])
        elif not line.strip() and words:
            yield words
            words = []
    if words:
        yield words


def count_flops(config: BiLMConfig) -> int:
    """Multiplications and additions in the LSTMs' products for a token, both directions."""
    gates = 2 * config.projection_dim * 4 * config.cell_size
    projection = config.cell_size * config.projection_dim if config.cell_projection else 0
    return 2 * 2 * config.n_layers * (gates + projection)


def rate_of_products(config: BiLMConfig, rows: int, dtype: torch.dtype) -> float:
    """FLOP/s of a step's products alone, again and again, in memory that is near: by torch.mm or
    packed, whichever is faster."""
    flops = seconds = 0.0
    for inner, columns in (
        (2 * config.projection_dim, 4 * config.cell_size),
        (config.cell_size, config.projection_dim),
    ):
        left = torch.randn(rows, inner).to(dtype)
        right = torch.randn(columns, inner).to(dtype)
        names: Dict[str, Any] = {
            "left": left,
            "right": right.t(),
            "result": left.new_empty(rows, columns),
        }
        names["packed"] = FixedLinear(right)
        codes = ("torch.mm(left, right, out=result)", "packed(left)")
        with torch.inference_mode():
            seconds += min(
                Timer(code, globals=names, num_threads=torch.get_num_threads())
                .blocked_autorange(min_run_time=RUN_TIME)
                .median
                for code in codes
            )
        flops += 2 * rows * inner * columns
    return flops / seconds


def make_nlp(bilm: BiLM, precision: str) -> Language:
    """A pipeline with only ``elmo``, around a biLM that is there already."""
    nlp = spacy.blank("xx")
    elmo: Any = nlp.add_pipe("elmo", config={"model": {"precision": precision}})
    lazy_bilm(elmo.model.layers[0]).take(bilm, "the measurement")
    return nlp


def make_cnn() -> Language:
    """A pipeline with only spaCy's default tok2vec, HashEmbedCNN."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("tok2vec")
    nlp.initialize()
    return nlp


def in_batches(sentences: Sentences, size: int) -> Iterator[Sentences]:
    for begin in range(0, len(sentences), size):
        yield sentences[begin : begin + size]


def embed(bilm: BiLM, precision: Precision, sentences: Sentences, size: int = BATCH) -> None:
    for batch in in_batches(sentences, size):
        bilm.embed(batch, initial_state="warm", precision=precision)


def embed_plainly(bilm: BiLM, sentences: Sentences) -> None:
    for batch in in_batches(sentences, BATCH):
        textbook.embed(bilm, batch)


def seconds_of_pipe(nlp: Language, sentences: Sentences) -> float:
    docs = [Doc(nlp.vocab, words=words) for words in sentences]
    return time_it(lambda: list(nlp.pipe(docs, batch_size=BATCH)), torch.device("cpu"))


class Case:
    """Something that gives vectors, timed in turns with others.

    :param run: reads all sentences, and says how long it took.
    :param bilm: whose words are forgotten before a cold run; none if there are no such words.
    """

    def __init__(
        self, system: str, precision: str, run: Callable[[], float], bilm: Any = None
    ) -> None:
        self.system, self.precision, self.run, self.bilm = system, precision, run, bilm
        self.cold: List[float] = []
        self.warm: List[float] = []

    def time_round(self) -> None:
        if self.bilm is not None:
            self.bilm.word_cache.clear()
            self.cold.append(self.run())
        self.warm.append(self.run())

    def summarize(self, n_tokens: int) -> Dict[str, Any]:
        return {
            "system": self.system,
            "precision": self.precision,
            "cold_tokens_per_second": n_tokens / median(self.cold) if self.cold else None,
            "warm_tokens_per_second": n_tokens / median(self.warm),
            "warm_seconds_by_round": self.warm,
        }


def make_cases(bilm: BiLM, sentences: Sentences) -> List[Case]:
    """All that is compared, by one text."""
    time = partial(time_it, device=bilm.device)
    cases: List[Case] = []
    for precision in PRECISIONS:
        # Each precision keeps weights of its own.
        own = bilm if precision == "float32" else copy.deepcopy(bilm)
        run = partial(time, partial(embed, own, precision, sentences))
        cases.append(Case("BiLM.embed", precision, run, own))
        nlp = make_nlp(own, precision)
        list(nlp.pipe(["a"]))
        run = partial(seconds_of_pipe, nlp, sentences)
        cases.append(Case("nlp.pipe, elmo", precision, run, own))
    cases.append(
        Case("nlp.pipe, HashEmbedCNN", "float32", partial(seconds_of_pipe, make_cnn(), sentences))
    )
    plain = partial(time, partial(embed_plainly, bilm, sentences))
    cases.append(Case("textbook", "float32", plain))
    return cases


def measure_latency(bilm: BiLM, sentences: Sentences, n_calls: int) -> Dict[str, Any]:
    """Milliseconds of calls with one short sentence, whose words are known."""
    words = [word for sentence in sentences for word in sentence]
    n = WORDS_OF_A_SHORT_SENTENCE
    short = [words[i : i + n] for i in range(0, max(len(words) - n, 1), n)][:n_calls]
    for sentence in short:
        bilm.embed([sentence], initial_state="warm")
    found: List[float] = []
    for number in range(n_calls):
        sentence = short[number % len(short)]
        begin = perf_counter()
        bilm.embed([sentence], initial_state="warm")
        found.append(1000 * (perf_counter() - begin))
    p50, p95 = numpy.percentile(found, (50, 95)).tolist()
    return {"n_tokens": n, "n_calls": n_calls, "p50_ms": p50, "p95_ms": p95}


def measure_batches(bilm: BiLM, sentences: Sentences, sizes: Sequence[int]) -> List[Dict[str, Any]]:
    n_tokens = sum(map(len, sentences))
    found = []
    for size in sizes:
        seconds = time_it(partial(embed, bilm, "float32", sentences, size), bilm.device)
        found.append({"batch_size": size, "tokens_per_second": n_tokens / seconds})
    return found


def measure_size(size: str, args: argparse.Namespace) -> Dict[str, Any]:
    torch.manual_seed(0)
    config = BiLMConfig.from_dict(SIZES[size])
    is_large = config.cell_size > 2048
    sentences = read_sentences(args.text, args.tokens // 3 if is_large else args.tokens)
    n_tokens = sum(map(len, sentences))
    with TemporaryDirectory() as folder:
        path = Path(folder)
        BiLM(config).save_pretrained(path)
        load_seconds = time_it(lambda: BiLM.from_pretrained(path), torch.device("cpu"))
        bilm = BiLM.from_pretrained(path).eval()
    cases = make_cases(bilm, sentences)
    for _ in range(args.rounds):
        for case in cases:
            case.time_round()
    embed(bilm, "float32", sentences)
    return {
        "size": size,
        "config": config.to_dict(),
        "n_parameters": sum(parameter.numel() for parameter in bilm.parameters()),
        "n_tokens": n_tokens,
        "n_sentences": len(sentences),
        "n_distinct_words": len({word for sentence in sentences for word in sentence}),
        "flops_a_token": count_flops(config),
        "load_seconds": load_seconds,
        "systems": [case.summarize(n_tokens) for case in cases],
        "products_flop_per_second": {
            name: {str(rows): rate_of_products(config, rows, dtype) for rows in (BATCH, MANY_ROWS)}
            for name, dtype in PRECISIONS.items()
        },
        "latency": measure_latency(bilm, sentences, 20 if is_large else args.calls),
        "batches": measure_batches(bilm, sentences, (1, 32, 512) if is_large else BATCH_SIZES),
    }


def run_python(*args: str) -> Any:
    """What a fresh Python process prints as JSON."""
    done = subprocess.run([sys.executable, *args], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


IMPORT = """
import spacy, time
begin = time.perf_counter()
import spacy_elmo.pipeline.elmo
print(time.perf_counter() - begin)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--text", type=Path, required=True, help="Text, a sentence a line; CoNLL-U")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--sizes", default="sm,small,original", help="Of " + ", ".join(SIZES))
    parser.add_argument("--threads", type=int, default=0, help="0: torch's choice")
    parser.add_argument("--rounds", type=int, default=3, help="Rounds whose median counts")
    parser.add_argument("--tokens", type=int, default=6000, help="Tokens of a run")
    parser.add_argument("--calls", type=int, default=200, help="Calls with one sentence")
    parser.add_argument("--longest", type=int, default=100_000, help="Tokens of the longest Doc")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    measured = {
        "kind": "inference",
        "machine": describe_machine(torch.device("cpu")),
        "options": {},
        "batch": BATCH,
        "import_seconds": median(run_python("-c", IMPORT) for _ in range(3)),
        "sizes": [measure_size(size, args) for size in args.sizes.split(",")],
        "documents": run_python(
            str(Path(__file__).with_name("measure_documents.py")),
            f"--longest={args.longest}",
            f"--threads={args.threads}",
        ),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
