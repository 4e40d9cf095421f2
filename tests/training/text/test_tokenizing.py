"""Several tokenizing processes: the same result, no hang, no process left behind."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import spacy

from spacy_elmo.training.text import tokenizing
from spacy_elmo.training.text.corpus import build_text_corpus_v1
from spacy_elmo.training.text.splitters import Sentencizer

from ..conftest import make_sentences
from .texts import write


def write_text(directory):
    """Text of several chunks, one of them so long that it is tokenized after all others."""
    lines = [" ".join(words) + "." for words in make_sentences(3000)]
    lines[0] += " Slow one." * 2000
    write(directory / "a.txt", "\n".join(lines))
    write(directory / "b.jsonl", '{"tokens": ["ready"]}\n{"text": "Not ready. At all."}\n' * 3)
    return directory


def worker_processes():
    # Python keeps one process that tracks what the others share.
    children = psutil.Process().children()
    return [child for child in children if "resource_tracker" not in " ".join(child.cmdline())]


def split_at_dots(nlp):
    # A function of a test module is sent to other processes by name, a closure by value.
    Sentencizer(punct_chars=["."])(nlp)


def test_processes_change_no_result(tmp_path):
    write_text(tmp_path)
    punct_chars = ["."]

    def splitter(nlp):
        Sentencizer(punct_chars=punct_chars)(nlp)

    streams = [
        build_text_corpus_v1(path=str(tmp_path), n_process=n, splitter=s, cache="").read_stream()
        for n, s in ((1, split_at_dots), (2, splitter))
    ]
    for stream in streams[1:]:
        assert list(stream.words) == list(streams[0].words)
        assert stream.types.tolist() == streams[0].types.tolist()
        assert stream.lengths.tolist() == streams[0].lengths.tolist()
    assert streams[0].n_sentences == 3000 + 2000 + 9
    assert worker_processes() == []


def die_in_others(nlp):
    nlp.add_pipe("sentencizer")
    if os.getpid() != int(os.environ["TEST_MAIN_PROCESS"]):
        nlp.add_pipe("test_dies")


@spacy.Language.component("test_dies")
def dies(doc):
    os.kill(os.getpid(), signal.SIGKILL)
    return doc


def test_a_killed_process_is_an_error_and_not_a_hang(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_MAIN_PROCESS", str(os.getpid()))
    # More than a pipe holds, so that text is being written when its reader dies.
    write(tmp_path / "long.txt", "\n".join([20000 * "Long text. "] * 20))
    corpus = build_text_corpus_v1(path=str(tmp_path), n_process=2, splitter=die_in_others)
    with pytest.raises(
        ChildProcessError, match="One of n_process = 2 tokenizing processes ended by"
    ):
        corpus.read_stream()
    assert worker_processes() == []


SCRIPT = """
import os, sys
from spacy_elmo.training.text.corpus import build_text_corpus_v1
corpus = build_text_corpus_v1(path=sys.argv[1], n_process=2, cache="")
{guard}print(len(list(corpus)), flush=True)
"""


@pytest.mark.slow
def test_a_script_that_cannot_be_imported_is_told_why(tmp_path):
    write_text(tmp_path / "texts")
    write(tmp_path / "script.py", SCRIPT.format(guard=""))
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "texts")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode != 0
    assert 'needs the line if __name__ == "__main__"' in result.stderr
    write(tmp_path / "script.py", SCRIPT.format(guard='if __name__ == "__main__": '))
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stdout.split() == ["5009"]


@pytest.mark.slow
def test_processes_end_with_the_one_that_started_them(tmp_path):
    lines = [" ".join(words) + "." for words in make_sentences(300_000)]
    write(tmp_path / "texts" / "a.txt", "\n".join(lines))
    write(tmp_path / "script.py", SCRIPT.format(guard='if __name__ == "__main__": '))
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "texts")]
    )
    children = []
    deadline = time.time() + 60
    while len(children) < 3 and time.time() < deadline:
        time.sleep(0.2)
        children = psutil.Process(process.pid).children(recursive=True)
    time.sleep(6)
    assert process.poll() is None
    process.kill()
    process.wait()
    gone, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


def test_a_pipeline_that_knows_many_words_is_made_anew(tmp_path, monkeypatch):
    n_strings = len(spacy.blank("en").vocab.strings)
    monkeypatch.setattr(tokenizing, "MAX_STRINGS", n_strings + 2000)
    made = []

    def splitter(nlp):
        made.append(nlp)
        Sentencizer()(nlp)

    lines = [f"word{number} and {number}." for number in range(4000)]
    write(tmp_path / "a.txt", "\n".join(lines))
    corpus = build_text_corpus_v1(path=str(tmp_path), splitter=splitter, cache="")
    assert [words[0] for words in corpus] == [f"word{number}" for number in range(4000)]
    assert 3 < len(made) < 20
    assert max(len(nlp.vocab.strings) for nlp in made) < n_strings + 3000
