"""Embed the files of a corpus on Ray: each worker holds the model and takes file after file."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Dict, List, Union

import numpy
import ray
import typer
from ray.data import ActorPoolStrategy
from ray.exceptions import RayError

from spacy_elmo import BiLM
from spacy_elmo.embedding import EmbeddedCorpus, embed_corpus
from spacy_elmo.formats import from_bytes, to_bytes

from .corpus import find_shards

# Seconds for which a worker waits for another one that Ray takes for dead.
MAX_WAIT = 3600.0


class Worker:
    """What runs in each worker process."""

    def __init__(self, model: Any, device: str, settings: Dict[str, Any]) -> None:
        self.bilm = from_bytes(ray.get(model)).to(device)
        self.settings = settings

    def __call__(self, batch: Dict[str, numpy.ndarray]) -> Dict[str, List[int]]:
        """Embed files. Ray calls it once more with the files of a worker that died; what is
        complete is left then, and what is not complete goes on from its journal."""
        counts: Dict[str, List[int]] = {"n_sentences": [], "n_tokens": [], "n_embedded": []}
        for shard, output in zip(batch["shard"], batch["output"]):
            done = self.embed(str(shard), str(output))
            for name in counts:
                counts[name].append(getattr(done, name))
        return counts

    def embed(self, shard: str, output: str) -> EmbeddedCorpus:
        """Embed a file, or wait for a worker that does: one that Ray lost, but which still runs.

        :raises BlockingIOError: it does so for too long.
        """
        end = time.monotonic() + MAX_WAIT
        while True:
            try:
                return embed_corpus(self.bilm, shard, output, resume=True, **self.settings)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)


def main(
    model: Annotated[Path, typer.Argument(help="Weights, in any format")],
    corpus: Annotated[Path, typer.Argument(help="Folder of .txt, .jsonl or .spacy files")],
    output: Annotated[Path, typer.Argument(help="Folder for the Parquet files")],
    lang: Annotated[str, typer.Option(help="Language of the tokenizer; none: blanks")] = "",
    layers: Annotated[
        str, typer.Option(help="all, top, average, a number, or weights")
    ] = "average",
    precision: Annotated[str, typer.Option(help="float16 or float32")] = "float16",
    address: Annotated[str, typer.Option(help="local, or the address of a cluster")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Worker processes")] = 2,
    cpus: Annotated[float, typer.Option(min=0, help="CPUs of a worker")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of a worker")] = 0,
) -> None:
    bilm = BiLM.from_pretrained(model)
    # Made once, so that all workers start from the same bits.
    bilm.warm_up()
    shards = find_shards(corpus, output)
    settings = {"layers": parse_layers(layers), "precision": precision, "lang": lang or None}
    start = time.perf_counter()
    try:
        ray.init(address=address, log_to_driver=False)
    except ConnectionError as error:
        sys.exit(f"--address is {address!r}, where no Ray cluster answers: {error}")
    # Held here, so that a worker that is started again still finds them.
    weights = ray.put(to_bytes(bilm))
    dataset = ray.data.from_items(
        [{"shard": str(shard), "output": str(place)} for shard, place in shards.items()],
        override_num_blocks=len(shards),
    ).map_batches(
        Worker,
        fn_constructor_args=[weights, "cuda" if gpus else "cpu", settings],
        batch_size=1,
        compute=ActorPoolStrategy(size=min(workers, len(shards))),
        num_cpus=cpus,
        num_gpus=gpus,
    )
    try:
        rows = dataset.take_all()
    except RayError as error:
        sys.exit(f"Not all files were embedded; run again to go on with them.\n{error}")
    n_tokens, n_embedded = (sum(row[name] for row in rows) for name in ("n_tokens", "n_embedded"))
    if len(rows) != len(shards):
        sys.exit(f"{len(rows)} of {len(shards)} files were embedded; run again.")
    seconds = time.perf_counter() - start
    print(
        f"Saved: {output}, {len(rows)} files, {n_tokens:,} tokens, {n_embedded:,} of them now, in "
        f"{seconds:.0f} s ({n_embedded / seconds:,.0f} tokens/s)"
    )


def parse_layers(text: str) -> Union[str, int, List[float]]:
    """The layers that a text names, as ``embed_corpus`` takes them."""
    if "," in text:
        return [float(weight) for weight in text.split(",")]
    return int(text) if text.isdigit() else text


if __name__ == "__main__":
    typer.run(main)
