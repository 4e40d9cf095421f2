"""Text as numbers: once read and encoded, training touches no string."""

from array import array
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm import BOS, EOS, BiLMConfig
from ..bilm.characters import PADDING, encode_words
from .vocabulary import BOS_ID, EOS_ID, UNK_ID, Vocabulary

# Numbers of the sentence marks among the distinct words.
BOS_TYPE, EOS_TYPE = 0, 1

# Words whose characters are encoded, or convolved, in one go.
WORDS_A_CHUNK = 256


@dataclass(frozen=True)
class WordStream:
    """Sentences one after the other, each between its marks, as numbers of distinct words.

    :param words: the distinct words; the first two are the marks ``<S>`` and ``</S>``.
    :param types: number of each position's word. *Shape:* (n_positions,), int32
    :param lengths: positions of each sentence, its marks included. *Shape:* (n_sentences,)
    """

    words: List[str]
    types: NDArray[numpy.int32]
    lengths: NDArray[numpy.int32]

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[str]]) -> "WordStream":
        """Number the words of sentences; those without a word are left out.

        :raises ValueError: a sentence is a string and no list of words, or none has a word.
        """
        numbers: Dict[str, int] = {}
        types = array("i")
        lengths = array("i")
        for sentence in sentences:
            if isinstance(sentence, str):
                raise ValueError(
                    f"The corpus gave the string {sentence!r:.80}; expected sentences as lists of "
                    "words."
                )
            if len(sentence) == 0:
                continue
            types.append(BOS_TYPE)
            # A word that spells a mark is a word of its own, so that it ends no sentence.
            types.extend([numbers.setdefault(word, len(numbers) + 2) for word in sentence])
            types.append(EOS_TYPE)
            lengths.append(len(sentence) + 2)
        if len(lengths) == 0:
            raise ValueError("The corpus has no words; expected one sentence or more.")
        return cls(
            words=[BOS, EOS, *numbers],
            types=numpy.frombuffer(types, dtype=numpy.int32),
            lengths=numpy.frombuffer(lengths, dtype=numpy.int32),
        )

    @property
    def n_sentences(self) -> int:
        return len(self.lengths)

    @property
    def n_positions(self) -> int:
        """Tokens and sentence marks."""
        return len(self.types)

    @property
    def n_tokens(self) -> int:
        return self.n_positions - 2 * self.n_sentences

    @property
    def n_predictions(self) -> int:
        """What one direction predicts: every token, and one mark a sentence."""
        return self.n_tokens + self.n_sentences

    def count_types(self) -> NDArray[numpy.int64]:
        """How often each distinct word is in the text. *Shape:* (n_distinct,)"""
        return numpy.bincount(self.types, minlength=len(self.words))

    def count_words(self) -> Dict[str, int]:
        """How often each word, the marks not counted, is in the text."""
        return dict(zip(self.words[2:], self.count_types()[2:].tolist()))

    def iter_sentences(self) -> Iterator[List[str]]:
        """The words of each sentence."""
        begin = 0
        for length in self.lengths.tolist():
            yield [self.words[n] for n in self.types[begin + 1 : begin + length - 1]]
            begin += length

    def shuffled_types(self, seed: Tuple[int, ...]) -> NDArray[numpy.int32]:
        """The positions with whole sentences in random order.

        :param seed: the same seed gives the same order.
        :returns: *Shape:* (n_positions,)
        """
        order = numpy.random.default_rng(seed).permutation(self.n_sentences)
        begins = numpy.cumsum(self.lengths, dtype=numpy.int64) - self.lengths
        lengths = self.lengths[order]
        # Where a sentence comes from minus where it goes is the same for all its positions.
        shift = begins[order] - (numpy.cumsum(lengths, dtype=numpy.int64) - lengths)
        return self.types[numpy.repeat(shift, lengths) + numpy.arange(self.n_positions)]


class EncodedText:
    """A stream with what the biLM reads for each distinct word and what the softmax predicts.

    :param stream: the text.
    :param vocabulary: the words that can be predicted.
    :param config: the biLM's sizes.
    """

    def __init__(self, stream: WordStream, vocabulary: Vocabulary, config: BiLMConfig) -> None:
        self.stream = stream
        targets = [BOS_ID, EOS_ID, *map(vocabulary.id_of, stream.words[2:])]
        #: Vocabulary id of each distinct word. *Shape:* (n_distinct,)
        self.targets = numpy.array(targets, dtype=numpy.int64)
        self._widest = max(width for width, _ in config.filters)
        # Rows of the table stand by length, so that the words of a batch do too and short ones
        # can be convolved without the padding that long ones need.
        n_bytes = numpy.array([len(word.encode("utf-8", "ignore")) for word in stream.words])
        order = numpy.argsort(n_bytes, kind="stable")
        #: Row of each distinct word in the table of characters. *Shape:* (n_distinct,)
        self.rows = numpy.empty(len(order), dtype=numpy.int64)
        self.rows[order] = numpy.arange(len(order))
        self._n_used = numpy.minimum(n_bytes[order] + 2, config.max_characters_per_token)
        # [n_distinct, max_characters_per_token]
        self._characters = numpy.full(
            (len(order), config.max_characters_per_token), PADDING, dtype=numpy.int16
        )
        for begin in range(0, len(order), WORDS_A_CHUNK):
            words = [stream.words[n] for n in order[begin : begin + WORDS_A_CHUNK]]
            ids = encode_words(words, config.max_characters_per_token, self._widest)
            self._characters[begin : begin + len(words), : ids.shape[1]] = ids

    def count_targets(self, n_words: int) -> Tensor:
        """How often each word of the vocabulary is predicted by one direction, the marks by
        one direction each.

        :param n_words: size of the vocabulary.
        :returns: *Shape:* (n_words,)
        """
        counts = numpy.bincount(self.targets, weights=self.stream.count_types(), minlength=n_words)
        return torch.from_numpy(counts.astype(numpy.int64))

    @property
    def unknown_rate(self) -> float:
        """Part of the tokens that are not in the vocabulary."""
        n_unknown = self.stream.count_types()[self.targets == UNK_ID].sum()
        return int(n_unknown) / self.stream.n_tokens

    def gather_characters(self, rows: NDArray[numpy.int64]) -> List[Tensor]:
        """Character ids of words in groups of like length, each as narrow as it can be without
        changing a result.

        :param rows: rising rows of the table of characters.
        :returns: the groups in order. *Shape:* (n_words, n_characters), int64
        """
        groups: List[Tensor] = []
        for begin in range(0, len(rows), WORDS_A_CHUNK):
            group = rows[begin : begin + WORDS_A_CHUNK]
            # As in encode_words, a word keeps as much padding as the widest convolution needs.
            n_characters = int(self._n_used[group[-1]]) + self._widest
            ids = self._characters[group, :n_characters].astype(numpy.int64)
            groups.append(torch.from_numpy(ids))
        return groups
