"""Memory does not depend on the length of the text."""

import os
import resource

import pytest

from spacy_elmo.embedding import embed_corpus

from ..conftest import random_bilm
from .reading import NAMES

# Sentences of the shorter and of the longer text.
SIZES = (3000, 12_000)

WORDS = ["the", "river", "bank"]


def peak_of_a_process(bilm, n_sentences, path):
    """In kB, of a process of its own that embeds a text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = (WORDS for _ in range(n_sentences))
            embed_corpus(bilm, text, path, batch_tokens=256)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            os.write(write, str(peak).encode("ascii"))
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as file:
        return int(file.read())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_longer_text_takes_no_more_memory(tmp_path, name):
    """The vectors of the longer one are 41 MB more. The shorter one is long enough to fill the
    cache that HDF5 has for the structure of files."""
    bilm = random_bilm(projection_dim=64)
    peaks = [peak_of_a_process(bilm, n, tmp_path / f"{n}-{name}") for n in SIZES]
    sizes = [(tmp_path / f"{n}-{name}").stat().st_size for n in SIZES]
    assert sizes[1] - sizes[0] > 40e6
    assert peaks[1] - peaks[0] < 20_000, peaks
