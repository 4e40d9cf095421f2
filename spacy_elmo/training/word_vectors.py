"""Vectors of words that others trained: text files of word2vec and fastText, spaCy pipelines."""

from pathlib import Path
from typing import Any, Collection, Dict, Iterator, List, Optional, Protocol, Tuple

import numpy
import spacy
from numpy.typing import NDArray
from spacy.util import is_package
from spacy.vocab import Vocab

from .text.decompression import damage_errors, open_compressed, require_decompression

Vector = NDArray[numpy.float32]


class WordVectors(Protocol):
    """A place of word vectors.

    ``source`` is where they are, ``dim`` the size of each.
    """

    source: str
    dim: int

    def find(self, words: Collection[str]) -> Dict[str, Vector]:
        """The vectors of those words that have one.

        :raises ValueError: the vectors are damaged.
        """

    def first(self, n: int) -> List[str]:
        """The first words, which in most files are the most frequent ones.

        :param n: how many, 0 for all.
        :raises ValueError: the vectors are damaged, or have no list of words.
        """


def open_vectors(source: str) -> WordVectors:
    """Vectors of a text file, or of a spaCy pipeline (a directory or the name of a package).

    :raises ValueError: there is nothing of that kind.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return TextVectors(path)
    if path.is_dir() or is_package(source):
        return PipelineVectors(source)
    raise ValueError(
        f"{source} is no file, no directory and no installed package; expected a text file of "
        "word2vec or fastText, or a spaCy pipeline with vectors."
    )


class TextVectors:
    """A text file with a word and its numbers a line, between blanks; the first line may give the
    numbers of words and of numbers a word instead. It may be compressed (.gz, .xz, .zst).

    :raises ValueError: the first lines are nothing of the kind.
    """

    def __init__(self, path: Path) -> None:
        require_decompression(path)
        self.source = str(path)
        self._path = path
        self._n_words: Optional[int] = None
        fields = next(self._iter_lines(), (0, b""))[1].split()
        if len(fields) == 2 and all(field.isdigit() for field in fields):
            self._n_words, self.dim = map(int, fields)
        else:
            self.dim = len(fields) - 1
        if self.dim < 1:
            raise ValueError(
                f"{path}, line 1: {b' '.join(fields)!r:.80}; expected a word and its vector, or "
                "the numbers of words and of numbers a vector."
            )
        # Of a binary file the first line may look right.
        next(self._iter_rows({}), None)

    def find(self, words: Collection[str]) -> Dict[str, Vector]:
        found: Dict[str, Vector] = {}
        for number, word, fields in self._iter_rows(words):
            if fields and word not in found:
                found[word] = self._parse(number, fields)
        return found

    def first(self, n: int) -> List[str]:
        words: Dict[str, None] = {}
        for _, word, _ in self._iter_rows({}):
            words[word] = None
            if len(words) == n:
                break
        return list(words)

    def _iter_rows(self, wanted: Collection[str]) -> Iterator[Tuple[int, str, List[bytes]]]:
        """Number, word and, where wanted, numbers of each line."""
        n_rows = 0
        for number, line in self._iter_lines():
            if number == 1 and self._n_words is not None:
                continue
            # Some words have blanks.
            name, *fields = line.rsplit(b" ", self.dim)
            is_row = len(fields) == self.dim and (number > 2 or _is_number(fields[0]))
            if not is_row:
                raise ValueError(
                    f"{self._path}, line {number}: {line!r:.80}; expected a word and {self.dim} "
                    "numbers. Binary files are not read: export the vectors as text."
                )
            n_rows += 1
            try:
                word = name.decode("utf-8")
            except UnicodeDecodeError:
                # Cut in the middle of a character, so no word of a text.
                continue
            yield number, word, fields if word in wanted else []
        if self._n_words is not None and n_rows != self._n_words:
            raise ValueError(
                f"{self._path} has {n_rows} vectors; expected {self._n_words}, as its first line "
                "says. It was cut short, or damaged."
            )

    def _iter_lines(self) -> Iterator[Tuple[int, bytes]]:
        try:
            with open_compressed(self._path) as (file, _):
                for number, line in enumerate(file, 1):
                    yield number, line.rstrip(b" \r\n")
        except damage_errors() as error:
            raise ValueError(f"{self._path} is damaged or cut short ({error}).") from None

    def _parse(self, number: int, fields: List[bytes]) -> Vector:
        try:
            vector = numpy.array([float(field) for field in fields], dtype=numpy.float32)
        except ValueError as error:
            raise ValueError(f"{self._path}, line {number}: {error}.") from None
        if not numpy.isfinite(vector).all():
            raise ValueError(f"{self._path}, line {number}: a number that is NaN or infinite.")
        return vector


class PipelineVectors:
    """The vectors of a spaCy pipeline.

    :raises ValueError: it has none, or is no pipeline.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        path = Path(source).expanduser()
        try:
            if (path / "vocab").is_dir():
                self._vocab: Any = Vocab().from_disk(path / "vocab")
            else:
                self._vocab = spacy.load(source).vocab
        except (OSError, ValueError) as error:
            raise ValueError(f"{source} is no spaCy pipeline ({error}).") from error
        self.dim: int = self._vocab.vectors_length
        if self.dim == 0:
            raise ValueError(f"{source} is a spaCy pipeline without vectors.")

    def find(self, words: Collection[str]) -> Dict[str, Vector]:
        return {
            word: numpy.asarray(self._vocab.get_vector(word), dtype=numpy.float32)
            for word in words
            if self._vocab.has_vector(word)
        }

    def first(self, n: int) -> List[str]:
        if self._vocab.vectors.mode == "floret":
            raise ValueError(
                f"{self.source} has vectors for any word and no list of words (floret); expected "
                "entries = 'text' or a path of words."
            )
        keys = (self._vocab.strings[key] for key in self._vocab.vectors.keys())
        return [word for _, word in zip(range(n or self._vocab.vectors.n_keys), keys)]


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
