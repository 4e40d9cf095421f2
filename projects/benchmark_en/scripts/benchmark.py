"""Run all tasks with all systems, several at a time, and leave out what is finished."""

import argparse
import hashlib
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import torch
from spacy import blank
from spacy.tokens import DocBin
from thinc.api import Config

from spacy_elmo import BiLM
from spacy_elmo.about import __version__
from spacy_elmo.training.processes import end_with_parent

from .configs import fill_in, make_config
from .files import is_result_of
from .readers import SPLITS
from .run import run
from .settings import Settings, read_settings, run_name
from .source import digest_bilm, find_source


class Job(NamedTuple):
    """A run.

    :param name: its name, also that of its files.
    :param config: its training config.
    :param score: spaCy's name of its score.
    :param facts: what its result file says beside what it measures. Among them the fingerprint:
        a result with another one is of other settings, data or weights, and does not count.
    """

    name: str
    config: Config
    score: str
    facts: Dict[str, Any]


def plan(settings: Settings, corpus: Path, source: str) -> List[Job]:
    """All runs, task by task in the order of the settings.

    :param corpus: what ``prepare`` wrote.
    :param source: path or name of the biLM.
    """
    bilm = BiLM.from_pretrained(source)
    weights = digest_bilm(bilm)
    jobs: List[Job] = []
    for task in settings.tasks:
        files = {split: corpus / task.name / f"{split}.spacy" for split in SPLITS}
        n_words = count_words(files["train"])
        data = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files.values()]
        for system, seed in settings.runs_of(task):
            config = make_config(
                settings, task, system, seed=seed, width=bilm.width, n_words=n_words
            )
            uses_bilm = "elmo" in config["components"]
            fixed = [config.to_str(), data, weights if uses_bilm else None]
            fingerprint = hashlib.sha256(json.dumps(fixed).encode("utf-8")).hexdigest()[:16]
            fill_in(config, files["train"], files["dev"], source)
            facts = {
                "fingerprint": fingerprint,
                "task": task.name,
                "system": system,
                "seed": seed,
                "source": source if uses_bilm else None,
                "version": __version__,
                "n_words": n_words,
            }
            jobs.append(Job(run_name(task, system, seed), config, task.score, facts))
    return jobs


def count_words(path: Path) -> int:
    """The number of tokens of a DocBin."""
    return sum(map(len, DocBin().from_disk(path).get_docs(blank("en").vocab)))


def prepare_worker(n_threads: int) -> None:
    """Begin a worker process. It ends with the one that began it: its run would otherwise go on
    beside the same run of the next call."""
    torch.set_num_threads(n_threads)
    end_with_parent()


def execute(job: Job, training: Path, results: Path) -> str:
    """Make a run, in a worker process."""
    start = time.perf_counter()
    run(job.config, job.score, training / job.name, results / f"{job.name}.json", job.facts)
    return f"{time.perf_counter() - start:7.1f} s  {job.name}"


def execute_all(
    jobs: List[Job], training: Path, results: Path, *, n_jobs: int, n_threads: int
) -> None:
    """Make the runs that are not finished.

    :param training: folder for configs and logs.
    :param results: folder for a result file a run.
    :param n_jobs: runs side by side.
    :param n_threads: threads of each.
    :raises RuntimeError: runs failed; the others are finished.
    """
    todo = [
        job
        for job in jobs
        if not is_result_of(results / f"{job.name}.json", job.facts["fingerprint"])
    ]
    print(f"{len(jobs)} runs, {len(jobs) - len(todo)} of them finished.", flush=True)
    # Of the libraries below, some read it when they are imported, in the worker.
    os.environ["OMP_NUM_THREADS"] = str(n_threads)
    context = multiprocessing.get_context("spawn")
    failed: List[str] = []
    pool = ProcessPoolExecutor(n_jobs, context, prepare_worker, (n_threads,))
    try:
        futures = {pool.submit(execute, job, training, results): job.name for job in todo}
        for number, future in enumerate(as_completed(futures), 1):
            error = future.exception()
            if error is not None:
                failed.append(f"{futures[future]}: {error}")
            print(f"{number}/{len(todo)} {failed[-1] if error else future.result()}", flush=True)
    finally:
        # After Ctrl-C nothing new is to begin.
        pool.shutdown(cancel_futures=True)
    if failed:
        raise RuntimeError(
            f"{len(failed)} runs failed, the first: {failed[0]}. Logs are in {training}; the same "
            "command makes what is missing."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", type=Path, help="Settings of the benchmark (.cfg)")
    parser.add_argument("--corpus", type=Path, required=True, help="Folder of `prepare`")
    parser.add_argument("--source", required=True, help="The biLM, or auto")
    parser.add_argument("--training", type=Path, required=True, help="Folder for configs and logs")
    parser.add_argument("--results", type=Path, required=True, help="Folder for result files")
    parser.add_argument("--n-jobs", type=int, default=1, help="Runs side by side")
    parser.add_argument("--n-threads", type=int, default=1, help="Threads of a run")
    args = parser.parse_args()
    jobs = plan(read_settings(args.settings), args.corpus, find_source(args.source))
    execute_all(jobs, args.training, args.results, n_jobs=args.n_jobs, n_threads=args.n_threads)


if __name__ == "__main__":
    main()
