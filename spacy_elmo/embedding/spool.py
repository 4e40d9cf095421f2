"""Sentences that were read once, kept on disk: counted, checked, and read again at any time."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Iterable, Iterator

from .sentences import Sentence


@dataclass(frozen=True)
class Spool:
    """A file of sentences, and what is known of them.

    :param path: the file, a JSON array of text and words a line.
    :param digest: equal for equal sentences, wherever they were read.
    """

    path: Path
    n_sentences: int
    n_tokens: int
    digest: str

    def __iter__(self) -> Iterator[Sentence]:
        with self.path.open("rb") as file:
            yield from _iter_sentences(file)

    def skip(self, n_sentences: int) -> Iterator[Sentence]:
        """The sentences after so many."""
        with self.path.open("rb") as file:
            for _ in range(n_sentences):
                file.readline()
            yield from _iter_sentences(file)

    def count_tokens(self, n_sentences: int) -> int:
        """The tokens of the first so many sentences."""
        return sum(len(sentence.words) for sentence, _ in zip(self, range(n_sentences)))


def make_spool(sentences: Iterable[Sentence], path: Path, name: str = "The input") -> Spool:
    """Keep sentences in a file.

    :param name: what they are of, for the message.

    :raises ValueError: there is no sentence, or as its reader says.
    """
    digest = hashlib.blake2b(digest_size=16)
    n_sentences = n_tokens = 0
    with path.open("wb") as file:
        for text, words in sentences:
            line = json.dumps([text, *words], ensure_ascii=True).encode("ascii") + b"\n"
            file.write(line)
            digest.update(line)
            n_sentences += 1
            n_tokens += len(words)
    if n_sentences == 0:
        raise ValueError(f"{name} has no sentence; expected one or more, each on a line.")
    return Spool(path, n_sentences, n_tokens, digest.hexdigest())


def _iter_sentences(file: BinaryIO) -> Iterator[Sentence]:
    for line in file:
        text, *words = json.loads(line)
        yield Sentence(text, words)
