"""Words to character ids, by the convention of bilm-tf and AllenNLP (UTF-8 bytes)."""

from typing import Dict, List, Protocol, Sequence

import numpy
from numpy.typing import NDArray

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260

BOS, EOS, UNK = "<S>", "</S>", "<UNK>"

# A sentence mark is a word of one special character. Text that spells the mark gets the same
# ids, as AllenNLP does; "<UNK>" is ordinary text at the input.
_MARKS: Dict[str, int] = {BOS: BEGIN_SENTENCE, EOS: END_SENTENCE}


class Inventory(Protocol):
    """A set of characters and the ids that frame them."""

    begin_word: int
    end_word: int
    padding: int

    def encode(self, word: str, limit: int) -> List[int]:
        """Ids of a word without its frame, ``limit`` of them at most. ``<S>`` and ``</S>`` are
        the sentence marks, one id each."""


class Utf8Bytes:
    """The inventory of bilm-tf. What UTF-8 cannot say (a lone surrogate) is left out; a cut may
    split a character."""

    begin_word, end_word, padding = BEGIN_WORD, END_WORD, PADDING

    def encode(self, word: str, limit: int) -> List[int]:
        mark = _MARKS.get(word)
        return list(word.encode("utf-8", "ignore")[:limit]) if mark is None else [mark]


UTF8_BYTES = Utf8Bytes()


def encode_words(
    words: Sequence[str],
    max_characters: int,
    min_padding: int,
    inventory: Inventory = UTF8_BYTES,
) -> NDArray[numpy.int64]:
    """Character ids of words: begin mark, characters, end mark, padding.

    A word is cut to ``max_characters - 2`` characters. The padding inside a word takes part in the
    max-pool, so the character axis is cut only as far as that cannot change a result: each word
    keeps ``min_padding`` padding positions, or all it had.

    :param words: the words, ``<S>`` and ``</S>`` being the sentence marks.
    :param max_characters: positions of a word at full length.
    :param min_padding: width of the widest convolution.
    :param inventory: the characters.
    :returns: the ids. *Shape:* (n_words, n_characters), n_characters <= max_characters.
    """
    encoded = [inventory.encode(word, max_characters - 2) for word in words]
    longest = max(map(len, encoded), default=0)
    n_characters = min(max_characters, longest + 2 + min_padding)
    ids = numpy.full((len(words), n_characters), inventory.padding, dtype=numpy.int64)
    ids[:, 0] = inventory.begin_word
    for row, characters in enumerate(encoded):
        ids[row, 1 : len(characters) + 1] = characters
        ids[row, len(characters) + 1] = inventory.end_word
    return ids
