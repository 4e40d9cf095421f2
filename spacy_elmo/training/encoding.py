"""Encoded text: what the biLM reads and the softmax predicts for each distinct word."""

from itertools import islice
from typing import List

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm import BiLMConfig
from ..bilm.characters import PADDING, encode_words
from .text.stream import BOS_TYPE, EOS_TYPE, WordStream
from .vocabulary import BOS_ID, EOS_ID, UNK_ID, Vocabulary

# Words whose characters are encoded, or convolved, in one go.
WORDS_A_CHUNK = 256


class EncodedText:
    """A stream with what the biLM reads for each distinct word and what the softmax predicts.

    :param stream: the text.
    :param vocabulary: the words that can be predicted.
    :param config: the biLM's sizes.
    """

    def __init__(self, stream: WordStream, vocabulary: Vocabulary, config: BiLMConfig) -> None:
        self.stream = stream
        n_distinct = len(stream.words)
        #: Vocabulary id of each distinct word. *Shape:* (n_distinct,)
        self.targets = numpy.fromiter(
            map(vocabulary.id_of, stream.words), dtype=numpy.int32, count=n_distinct
        )
        self.targets[[BOS_TYPE, EOS_TYPE]] = BOS_ID, EOS_ID
        self._widest = max(width for width, _ in config.filters)
        self._max_characters = config.max_characters_per_token

        # The characters of all words stand one after the other, without padding.
        pieces: List[NDArray[numpy.int16]] = []
        n_used = numpy.empty(n_distinct, dtype=numpy.int32)
        words = iter(stream.words)
        for begin in range(0, n_distinct, WORDS_A_CHUNK):
            chunk = list(islice(words, WORDS_A_CHUNK))
            ids = encode_words(chunk, self._max_characters, self._widest).astype(numpy.int16)
            is_used = ids != PADDING
            n_used[begin : begin + len(chunk)] = is_used.sum(axis=1)
            pieces.append(ids[is_used])
        self._characters = numpy.concatenate(pieces)
        begins = numpy.cumsum(n_used, dtype=numpy.int64) - n_used

        # Rows stand by length, so that the words of a batch do too and short ones can be
        # convolved without the padding that long ones need.
        order = numpy.argsort(n_used, kind="stable")
        self._begins = begins[order]
        self._n_used = n_used[order]
        #: Row of each distinct word in the table of characters. *Shape:* (n_distinct,)
        self.rows = numpy.empty(n_distinct, dtype=numpy.int32)
        self.rows[order] = numpy.arange(n_distinct, dtype=numpy.int32)

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

    def gather_characters(self, rows: NDArray[numpy.integer]) -> List[Tensor]:
        """Character ids of words in groups of like length, each as narrow as it can be without
        changing a result.

        :param rows: rising rows of the table of characters.
        :returns: the groups in order. *Shape:* (n_words, n_characters), int64
        """
        groups: List[Tensor] = []
        for begin in range(0, len(rows), WORDS_A_CHUNK):
            group = rows[begin : begin + WORDS_A_CHUNK]
            n_used = self._n_used[group]
            # As in encode_words, a word keeps as much padding as the widest convolution needs.
            n_characters = min(self._max_characters, int(n_used[-1]) + self._widest)
            ids = numpy.full((len(group), n_characters), PADDING, dtype=numpy.int64)
            is_used = numpy.arange(n_characters) < n_used[:, None]
            places = self._begins[group][:, None] + numpy.arange(n_characters)
            ids[is_used] = self._characters[places[is_used]]
            groups.append(torch.from_numpy(ids))
        return groups
