"""Encoded text: what the biLM reads and the softmax predicts for each distinct word."""

from itertools import islice
from typing import List, Optional, Tuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.characters import encode_words
from ..bilm.token_reader import TokenIds, TokenReader
from .text.stream import BOS_TYPE, EOS_TYPE, WordStream
from .vocabulary import BOS_ID, EOS_ID, UNK_ID, Vocabulary

# Words that are encoded, or go through the token layer, in one go.
WORDS_A_CHUNK = 256


class EncodedText:
    """A stream with what the biLM reads for each distinct word and what the softmax predicts.

    :param stream: the text.
    :param vocabulary: the words that can be predicted.
    :param reader: what the biLM's token layer reads of words.
    """

    def __init__(self, stream: WordStream, vocabulary: Vocabulary, reader: TokenReader) -> None:
        self.stream = stream
        n_distinct = len(stream.words)
        #: Vocabulary id of each distinct word. *Shape:* (n_distinct,)
        self.targets = numpy.fromiter(
            map(vocabulary.id_of, stream.words), dtype=numpy.int32, count=n_distinct
        )
        self.targets[[BOS_TYPE, EOS_TYPE]] = BOS_ID, EOS_ID
        self._reader = reader
        self._characters, n_used = self._encode_characters()
        begins = numpy.cumsum(n_used, dtype=numpy.int64) - n_used

        # Rows stand by length, so that the words of a batch do too and short ones can be
        # convolved without the padding that long ones need.
        order = numpy.argsort(n_used, kind="stable")
        self._begins = begins[order]
        self._n_used = n_used[order]
        #: Place of each distinct word in that order. *Shape:* (n_distinct,)
        self.rows = numpy.empty(n_distinct, dtype=numpy.int32)
        self.rows[order] = numpy.arange(n_distinct, dtype=numpy.int32)
        # Row of the word table, in that order.
        in_table = reader.find_rows(stream.words)
        self._in_table = None if in_table is None else in_table.numpy()[order].astype(numpy.int32)

    def _encode_characters(self) -> Tuple[NDArray[numpy.integer], NDArray[numpy.int32]]:
        """The characters of all words one after the other, without padding, and the number of
        them that each word has."""
        config, inventory = self._reader.config, self._reader.inventory
        n_used = numpy.zeros(len(self.stream.words), dtype=numpy.int32)
        if inventory is None:
            return numpy.empty(0, dtype=numpy.int16), n_used
        dtype = numpy.min_scalar_type(-config.n_char_embeddings)
        pieces: List[NDArray[numpy.integer]] = []
        words = iter(self.stream.words)
        for begin in range(0, len(n_used), WORDS_A_CHUNK):
            chunk = list(islice(words, WORDS_A_CHUNK))
            ids = encode_words(
                chunk, config.max_characters_per_token, config.widest_filter, inventory
            )
            is_used = ids != inventory.padding
            n_used[begin : begin + len(chunk)] = is_used.sum(axis=1)
            pieces.append(ids[is_used].astype(dtype))
        return numpy.concatenate(pieces), n_used

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

    def gather(self, rows: NDArray[numpy.integer]) -> List[TokenIds]:
        """What the token layer reads of words, in groups of like length, each as narrow as it can
        be without changing a result.

        :param rows: rising places of words, see :attr:`rows`.
        :returns: the groups in order.
        """
        groups: List[TokenIds] = []
        for begin in range(0, len(rows), WORDS_A_CHUNK):
            group = rows[begin : begin + WORDS_A_CHUNK]
            in_table = None
            if self._in_table is not None:
                in_table = torch.from_numpy(self._in_table[group].astype(numpy.int64))
            groups.append(TokenIds(self._gather_characters(group), in_table))
        return groups

    def _gather_characters(self, group: NDArray[numpy.integer]) -> Optional[Tensor]:
        config, inventory = self._reader.config, self._reader.inventory
        if inventory is None:
            return None
        n_used = self._n_used[group]
        # As in encode_words, a word keeps as much padding as the widest convolution needs.
        n_needed = int(n_used[-1]) + config.widest_filter
        n_characters = min(config.max_characters_per_token, n_needed)
        ids = numpy.full((len(group), n_characters), inventory.padding, dtype=numpy.int64)
        is_used = numpy.arange(n_characters) < n_used[:, None]
        places = self._begins[group][:, None] + numpy.arange(n_characters)
        ids[is_used] = self._characters[places[is_used]]
        return torch.from_numpy(ids)
