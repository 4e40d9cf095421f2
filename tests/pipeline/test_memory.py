"""Memory is bounded by a budget of tokens, not by the longest Doc times the number of Docs
(pitfalls 13, 14). Each measurement runs in a process of its own."""

import subprocess
import sys

import pytest

MEASURE = """
import resource, sys
import spacy, torch
from spacy.tokens import Doc
torch.set_num_threads(1)
sizes = {"filters": [[1, 8], [2, 8], [3, 16]], "projection_dim": 64, "cell_size": 256}
nlp = spacy.blank("en")
nlp.add_pipe("elmo", config={"model": {"source": sizes}})
nlp.initialize()

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def doc(n):
    return Doc(nlp.vocab, words=[f"w{i % 500}" for i in range(n)])

list(nlp.pipe([doc(500), doc(3)]))
"""

LONG_BESIDE_SHORT = (
    MEASURE
    + """
docs = [doc(20_000), *(doc(5) for _ in range(63))]
before = peak()
out = list(nlp.pipe(docs, batch_size=64))
print(peak() - before)
assert [len(d.tensor) for d in out] == [len(d) for d in docs]
"""
)

VERY_LONG_DOC = (
    MEASURE.replace("[[1, 8], [2, 8], [3, 16]]", "[[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]]")
    .replace('"projection_dim": 64', '"projection_dim": 128')
    .replace('"cell_size": 256', '"cell_size": 1024')
    + """
nlp(doc(5_000))
long = doc(100_000)
before = peak()
nlp(long)
print(peak() - before)
"""
)

MANY_CALLS = (
    MEASURE
    + """
for _ in range(30):
    nlp(doc(40))
before = peak()
for _ in range(300):
    nlp(doc(40))
print(peak() - before)
"""
)


def measure(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return float(result.stdout)


def test_pitfall_13_a_long_doc_beside_short_ones():
    # Padding all 64 Docs to the longest one would take 20,000 x 64 x 1,024 x 4 bytes = 5.2 GB for
    # the gates of one layer alone; the vectors themselves are 10 MB.
    assert measure(LONG_BESIDE_SHORT) < 200


def test_pitfall_14_many_calls():
    assert measure(MANY_CALLS) < 20


@pytest.mark.slow
def test_a_very_long_doc_takes_little_more_than_its_vectors():
    # At the size sm the vectors of 100,000 tokens are 102 MB.
    assert measure(VERY_LONG_DOC) < 250
