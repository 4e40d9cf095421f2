"""Measure how fast a biLM trains, beside how fast the same machine does the step's products alone.

What is timed is the training step of `spacy elmo train`, with the config of `spacy elmo
init-bilm` but for the size of the vocabulary, on batches of real size. Any setting can be given
as an option, as in `spacy elmo train`: --bilm.dropout 0
"""

import argparse
import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Dict, List, Mapping, Tuple

import torch
from spacy.cli._util import parse_config_overrides

from spacy_elmo.bilm.buffers import reuse_buffers
from spacy_elmo.bilm.softmax import SampledSoftmax
from spacy_elmo.training import Reporter, TrainingConfig, read_config
from spacy_elmo.training.distributed import World
from spacy_elmo.training.run import prepare_run
from spacy_elmo.training.steps import Stepper
from spacy_elmo.training.templates import make_template

from .machine import describe_machine, synchronize, time_it
from .products import ProductsAlone, list_products

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PARTS = ("batch", "forward", "backward", "clip", "optimizer")

# The same for all sizes, so that a text of half a million words will do for all.
VOCABULARY = 30_000

# Sentences that are read of a long text, more than any measurement needs.
MAX_SENTENCES = 50_000


WARM_UP_STEPS = 5


class Case:
    """A training run of one size and precision, whose steps and products are timed.

    :param config: its config.
    :param world: the device.
    """

    def __init__(self, config: TrainingConfig, world: World) -> None:
        self.precision = config.training.precision
        self.device = world.device
        torch.manual_seed(config.training.seed)
        self.run = prepare_run(config, world, Reporter())
        windows = self.run.windows
        if windows.steps_an_epoch < 2:
            raise ValueError(
                f"The text has {self.run.text.stream.n_tokens} tokens, less than two steps read; "
                "expected a longer one at --text."
            )
        self.stepper = Stepper(
            self.run.model, config.make_optimizer, config.schedule, windows, self.run.n_steps
        )
        batch = next(windows.of_step(0))
        head = self.run.model.head
        n_samples = head.n_words
        if isinstance(head, SampledSoftmax):
            n_samples = round(head.inclusion.sum().item())
        self.products = list_products(config.bilm, batch, n_samples)
        self.alone = ProductsAlone(self.products, PRECISIONS[self.precision], world.device)
        self.n_positions = sum(batch.batch_sizes)
        self.n_distinct_words = sum(group.n_words for group in batch.tokens)
        self.n_steps = 0
        self.step_seconds: List[float] = []
        #: Seconds of one of each product, a list a round.
        self.product_seconds: List[List[float]] = []

    def make_steps(self, n: int) -> None:
        """Train on. The last window of an epoch is smaller, so it is left out."""
        for _ in range(n):
            self.stepper.make_step(self.n_steps % (self.run.windows.steps_an_epoch - 1))
            self.n_steps += 1

    def time_round(self, n_steps: int) -> None:
        """Time some steps, then each product."""
        seconds = time_it(partial(self.make_steps, n_steps), self.device)
        self.step_seconds.append(seconds / n_steps)
        self.product_seconds.append(self.alone.time())

    def time_parts(self, n_steps: int) -> Dict[str, float]:
        """Median seconds of each part of further steps."""
        clock = PartClock(self.stepper, self.device)
        found = []
        for _ in range(n_steps):
            clock.start()
            self.make_steps(1)
            clock.end_of("optimizer")
            found.append(clock.seconds)
        return {part: median(seconds[part] for seconds in found) for part in PARTS}

    def summarize(self, parts: Mapping[str, float]) -> Dict[str, Any]:
        """What was found, for the report."""
        stream = self.run.text.stream
        # Sentence marks take time as words do, but nobody counts them.
        n_tokens = self.n_positions * stream.n_tokens / stream.n_positions
        step = median(self.step_seconds)
        products = [median(seconds) for seconds in zip(*self.product_seconds)]
        alone = sum(p.count * seconds for p, seconds in zip(self.products, products))
        flops = sum(product.flops for product in self.products)
        return {
            "precision": self.precision,
            "tokens_a_step": round(n_tokens),
            "positions_a_step": self.n_positions,
            "distinct_words_a_step": self.n_distinct_words,
            "step_seconds": step,
            "tokens_per_second": n_tokens / step,
            "mflop_a_token": flops / n_tokens / 1e6,
            "gflop_per_second": flops / step / 1e9,
            "products_seconds": alone,
            "products_gflop_per_second": flops / alone / 1e9,
            "ratio": alone / step,
            "parts_seconds": dict(parts),
            "seconds_of_each_product": products,
            "step_seconds_by_round": self.step_seconds,
        }


class PartClock:
    """Tells how long each part of a step takes, by hooks at their ends.

    :param stepper: makes the steps. The hooks stay on it, and wait for the device.
    """

    def __init__(self, stepper: Stepper, device: torch.device) -> None:
        self.device = device
        self.start()
        model, optimizer = stepper.model, stepper.optimizer
        model.register_forward_pre_hook(lambda *_: self.end_of("batch"))
        model.register_forward_hook(lambda *_: self.end_of("forward"))
        for parameter in stepper.parameters:
            # Only the last of them is the end of the backward pass; the times add up.
            parameter.register_post_accumulate_grad_hook(lambda _: self.end_of("backward"))
        optimizer.register_step_pre_hook(lambda *_: self.end_of("clip"))

    def start(self) -> None:
        """Begin a step."""
        self.seconds = dict.fromkeys(PARTS, 0.0)
        synchronize(self.device)
        self._last = perf_counter()

    def end_of(self, part: str) -> None:
        """Count the time since the end of the part before."""
        synchronize(self.device)
        now = perf_counter()
        self.seconds[part] += now - self._last
        self._last = now


def make_config(
    size: str, precision: str, args: argparse.Namespace, settings: Mapping[str, Any], folder: Path
) -> TrainingConfig:
    """The config that users get for a size, with the text and what is measured filled in."""
    path = folder / f"{size}.cfg"
    path.write_text(make_template(size), encoding="utf-8")
    overrides = {
        "paths.train": str(args.text),
        "paths.dev": str(args.text),
        "corpora.train.limit": MAX_SENTENCES,
        "corpora.dev.limit": 1,
        "corpora.train.cache": str(folder),
        "vocab.max_size": VOCABULARY,
        "vocab.min_count": 1,
        **settings,
        "training.device": args.device,
        "training.precision": precision,
        "training.grad_accumulation": 1,
    }
    return TrainingConfig.from_dict(read_config(path, overrides))


def measure_size(
    size: str, args: argparse.Namespace, settings: Mapping[str, Any], folder: Path, world: World
) -> Dict[str, Any]:
    """Measure both precisions of a size in turns, so that a slow moment of the machine meets
    both.

    :param settings: further settings of the config, by dotted name.
    :param folder: for the config and the tokenized text.
    """
    configs = [make_config(size, name, args, settings, folder) for name in PRECISIONS]
    cases = [Case(config, world) for config in configs]
    for case in cases:
        # The first steps take memory from the system and make the optimizer's state.
        case.make_steps(WARM_UP_STEPS)
    for _ in range(args.rounds):
        for case in cases:
            case.time_round(args.steps)
    return {
        "size": size,
        "n_parameters": sum(parameter.numel() for parameter in cases[0].stepper.parameters),
        "n_words": cases[0].run.model.head.n_words,
        "config": TrainingConfig.settings(configs[0]),
        "products": [{**vars(product), "flops": product.flops} for product in cases[0].products],
        "precisions": [case.summarize(case.time_parts(args.rounds)) for case in cases],
    }


def parse_args() -> Tuple[argparse.Namespace, Dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--text", type=Path, required=True, help="Raw text to train on")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument(
        "--sizes", default="auto", help="sm,md,original; auto: sm, and on CUDA original too"
    )
    parser.add_argument("--threads", type=int, default=0, help="0: torch's choice")
    parser.add_argument("--rounds", type=int, default=7, help="Rounds whose median counts")
    parser.add_argument("--steps", type=int, default=3, help="Steps of a precision in a round")
    args, others = parser.parse_known_args()
    return args, parse_config_overrides(others)


def main() -> None:
    args, settings = parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    with ExitStack() as stack:
        world = stack.enter_context(World.join(args.device))
        stack.enter_context(reuse_buffers())
        folder = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        sizes = "sm,original" if world.device.type == "cuda" else "sm"
        if args.sizes != "auto":
            sizes = args.sizes
        results = {
            "kind": "training",
            "machine": describe_machine(world.device),
            "options": settings,
            "sizes": [
                measure_size(size, args, settings, folder, world) for size in sizes.split(",")
            ],
        }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
