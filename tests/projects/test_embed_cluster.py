"""The project that embeds a corpus on Ray, with a toy biLM on this machine."""

import json
import os
import shutil
import subprocess
import sys
import time

import numpy
import psutil
import pyarrow.parquet as pq
import pytest

from ..conftest import ROOT, random_bilm
from ..training.conftest import make_sentences

PROJECT = ROOT / "projects" / "embed_cluster"


@pytest.fixture
def project(tmp_path):
    """A copy of the project, a model, and a text that takes a while."""
    folder = tmp_path / "embed_cluster"
    made = ("corpus", "vectors", "metrics", "project.lock", "__pycache__")
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*made))
    random_bilm(projection_dim=64, cell_size=512).save_pretrained(folder / "model")
    lines = [" ".join(words) for words in make_sentences(2000)]
    lines[7] = ""
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def run_script(folder, name, *arguments):
    command = [sys.executable, "-m", f"scripts.{name}", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def write_vectors(folder, lines=700):
    """Files of the corpus and their Parquet files, made without Ray."""
    from spacy_elmo import BiLM
    from spacy_elmo.embedding import embed_corpus

    assert run_script(folder, "shard", "text.txt", "corpus", "--lines", lines).returncode == 0
    bilm = BiLM.from_pretrained(folder / "model")
    for path in sorted((folder / "corpus").iterdir()):
        path.write_text("".join(path.read_text(encoding="utf-8").splitlines(True)[:20]))
        place = folder / "vectors" / f"{path.name}.parquet"
        embed_corpus(bilm, path, place, layers="top", precision="float16")


def test_the_check_finds_what_is_lost_or_doubled(project):
    write_vectors(project)
    arguments = ["corpus", "vectors", "--report", "metrics/report.json"]
    done = run_script(project, "check", *arguments)
    assert done.returncode == 0, done.stderr
    counts = json.loads((project / "metrics" / "report.json").read_text())
    assert counts["files"] == 3 and counts["sentences"] == 60
    assert counts["tokens"] == counts["rows"] > 100

    path = project / "vectors" / "000001.txt.parquet"
    table = pq.read_table(path)
    n = table.num_rows
    order = list(range(n))
    faults = {
        "has the row None": order[:-1],
        "has 1 more rows": [*order, n - 1],
        "has the row (0, 0,": [0, *order],
        "expected (": [*order[:5], order[6], order[5], *order[7:]],
    }
    for message, rows in faults.items():
        pq.write_table(table.take(rows), path)
        done = run_script(project, "check", *arguments)
        assert done.returncode == 1 and message in done.stderr and "000001" in done.stderr
    path.unlink()
    assert "is missing" in run_script(project, "check", *arguments).stderr
    pq.write_table(table, path)
    (project / "corpus" / "000002.txt").unlink()
    assert "is of no file of the corpus" in run_script(project, "check", *arguments).stderr


def test_a_text_is_cut_and_what_was_there_before_is_not_left(project):
    for lines, n_files in ((300, 7), (700, 3)):
        done = run_script(project, "shard", "text.txt", "corpus", "--lines", lines)
        assert done.returncode == 0 and f"{n_files} files" in done.stdout, done.stderr
        parts = sorted((project / "corpus").iterdir())
        assert len(parts) == n_files
        assert b"".join(part.read_bytes() for part in parts) == (
            (project / "text.txt").read_bytes()
        )


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_doubles_nothing(project):
    pytest.importorskip("ray", reason="needs ray: pip install '.[ray]'")
    values = {"text": "text.txt", "lines": 500, "model": "model", "layers": "0.2,0.3,0.5"}
    given = [part for name, value in values.items() for part in (f"--vars.{name}", str(value))]
    command = [sys.executable, "-m", "spacy", "project", "run", "all", ".", *given]
    with (project / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, cwd=project, stdout=log, stderr=subprocess.STDOUT, env=os.environ
        )
        killed = kill_a_worker(process, project / "vectors")
        assert process.wait() == 0, (project / "log.txt").read_text()
    assert killed, "the job ended before a worker could be killed"
    counts = json.loads((project / "metrics" / "report.json").read_text())
    n_tokens = len((project / "text.txt").read_text().split())
    assert counts == {"files": 4, "sentences": 2000, "tokens": n_tokens, "rows": n_tokens}
    table = pq.read_table(project / "vectors" / "000000.txt.parquet")
    vectors = numpy.stack(table["vector"].to_numpy())
    assert vectors.dtype == numpy.float16 and vectors.shape[1] == 128
    names = {path.name for path in (project / "vectors").iterdir()}
    assert names == {f"00000{number}.txt.parquet" for number in range(4)}


def kill_a_worker(process, output):
    """End a worker of this job by force while it has a file in work; whether there was one."""
    while process.poll() is None:
        if any(output.glob("*.partial")):
            for child in psutil.Process(process.pid).children(recursive=True):
                try:
                    if "Worker" in " ".join(child.cmdline()) and "ray::" in child.cmdline()[0]:
                        child.kill()
                        return process.poll() is None
                except (psutil.NoSuchProcess, IndexError):
                    pass
        time.sleep(0.01)
    return False
