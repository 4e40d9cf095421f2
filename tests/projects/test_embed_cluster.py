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

from projects.embed_cluster.scripts import check, shard
from spacy_elmo import BiLM
from spacy_elmo.embedding import embed_corpus

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


def write_vectors(folder):
    """Files of the corpus and their Parquet files, made without Ray."""
    shard.main(folder / "text.txt", folder / "corpus", lines=700)
    bilm = BiLM.from_pretrained(folder / "model")
    for path in sorted((folder / "corpus").iterdir()):
        path.write_text("".join(path.read_text(encoding="utf-8").splitlines(True)[:20]))
        place = folder / "vectors" / f"{path.name}.parquet"
        embed_corpus(bilm, path, place, layers="top", precision="float16")


def test_the_check_finds_what_is_lost_or_doubled(project):
    write_vectors(project)
    places = project / "corpus", project / "vectors", project / "metrics" / "report.json"
    check.main(*places)
    counts = json.loads((project / "metrics" / "report.json").read_text())
    assert counts["files"] == 3 and counts["sentences"] == 60
    assert counts["tokens"] == counts["rows"] > 100

    path = project / "vectors" / "000001.txt.parquet"
    table = pq.read_table(path)
    n = table.num_rows
    order = list(range(n))
    faults = {
        "000001.txt.parquet has the row None": order[:-1],
        "000001.txt.parquet has 1 more rows": [*order, n - 1],
        "000001.txt.parquet has the row \\(0, 0,": [0, *order],
        "; expected \\(": [*order[:5], order[6], order[5], *order[7:]],
    }
    for message, rows in faults.items():
        pq.write_table(table.take(rows), path)
        with pytest.raises(SystemExit, match=message):
            check.main(*places)
    path.unlink()
    with pytest.raises(SystemExit, match="000001.txt.parquet is missing"):
        check.main(*places)
    pq.write_table(table, path)
    (project / "corpus" / "000002.txt").unlink()
    with pytest.raises(SystemExit, match="000002.txt.parquet is of no file of the corpus"):
        check.main(*places)


def test_a_text_is_cut_and_what_was_there_before_is_not_left(project):
    for lines, n_files in ((300, 7), (700, 3)):
        shard.main(project / "text.txt", project / "corpus", lines=lines)
        parts = sorted((project / "corpus").iterdir())
        assert len(parts) == n_files
        assert b"".join(part.read_bytes() for part in parts) == (
            (project / "text.txt").read_bytes()
        )


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_doubles_nothing(project):
    pytest.importorskip("ray", reason="needs ray: make test-ray")
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
