"""The words that a biLM's word table has, and their first vectors."""

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import numpy
import torch

from ..bilm import BiLM
from .settings import WordsSettings
from .text.stream import WordStream
from .vocabulary import SPECIAL, UNK_ID, Vocabulary
from .word_vectors import Vector, WordVectors


@dataclass(frozen=True)
class FirstVectors:
    """Vectors to start from.

    :param source: where they come from.
    :param vectors: those of the words that have one.
    """

    source: str
    vectors: Dict[str, Vector]

    def fill(self, bilm: BiLM) -> str:
        """Write the vectors into a biLM's word table. Words without one get random numbers of the
        same spread, ``<UNK>`` the mean of all.

        :returns: how many words have one, in words.
        """
        table, words = bilm.token_layer.word_embedding, bilm.token_layer.reader.words
        assert table is not None and words is not None
        known = numpy.stack(list(self.vectors.values()))
        with torch.no_grad():
            table.weight.normal_(std=float(known.std()) or 1.0)
            table.weight[UNK_ID] = torch.from_numpy(known.mean(axis=0))
            for row, word in enumerate(words):
                if word in self.vectors:
                    table.weight[row] = torch.from_numpy(self.vectors[word])
        return (
            f"First vectors from {self.source}: {len(self.vectors)} of {len(words)} entries of "
            "the word table"
        )


def make_word_table(
    settings: WordsSettings, vectors: Optional[WordVectors], stream: WordStream, frozen: bool
) -> Tuple[List[str], Optional[FirstVectors]]:
    """Choose the words and find their first vectors.

    :param vectors: first vectors, if there are any.
    :param stream: the training text.
    :param frozen: whether the vectors stay as they are: words without one are then unknown.
    :returns: the entries of the table, ``<S>``, ``</S>`` and ``<UNK>`` first.
    :raises ValueError: a file is faulty, or no word is left.
    """
    if settings.path is not None:
        vocabulary = Vocabulary.from_disk(settings.path)
    elif settings.entries == "vectors":
        assert vectors is not None
        # By falling rank, which keeps the order of the file.
        n = settings.max_size
        ranked = vectors.first(n + len(SPECIAL) if n else 0)
        counts = {word: len(ranked) - rank for rank, word in enumerate(ranked)}
        vocabulary = Vocabulary.from_counts(counts, max_size=n)
    else:
        try:
            vocabulary = Vocabulary.from_counts(
                stream.count_words(), max_size=settings.max_size, min_count=settings.min_count
            )
        except ValueError as error:
            raise ValueError(f"min_count is {settings.min_count}: {error}") from None
    if vectors is None:
        return vocabulary.words, None
    found = vectors.find(dict.fromkeys(vocabulary.words[len(SPECIAL) :]))
    if not found:
        raise ValueError(
            f"vectors: {vectors.source} has no vector of any of the {len(vocabulary)} words."
        )
    words = vocabulary.words
    if frozen:
        words = [*SPECIAL, *(word for word in words[len(SPECIAL) :] if word in found)]
    return words, FirstVectors(vectors.source, found)
