"""Words to character ids, by the convention of bilm-tf and AllenNLP (UTF-8 bytes)."""

from typing import Dict, List, Sequence

import numpy
from numpy.typing import NDArray

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260

BOS, EOS, UNK = "<S>", "</S>", "<UNK>"

# A sentence mark is a word of one special character. Text that spells the mark gets the same
# ids, as AllenNLP does; "<UNK>" is ordinary text at the input.
_MARKS: Dict[str, int] = {BOS: BEGIN_SENTENCE, EOS: END_SENTENCE}


def encode_words(
    words: Sequence[str], max_characters: int, min_padding: int
) -> NDArray[numpy.int64]:
    """Character ids of words: begin mark, UTF-8 bytes, end mark, padding.

    A word is cut to ``max_characters - 2`` bytes, which may split a character. What UTF-8 cannot
    say (a lone surrogate) is left out. The padding inside a word takes part in the max-pool, so
    the character axis is cut only as far as that cannot change a result: each word keeps
    ``min_padding`` padding positions, or all it had.

    :param words: the words, ``<S>`` and ``</S>`` being the sentence marks.
    :param max_characters: positions of a word at full length.
    :param min_padding: width of the widest convolution.
    :returns: the ids. *Shape:* (n_words, n_characters), n_characters <= max_characters.
    """
    encoded: List[List[int]] = []
    for word in words:
        mark = _MARKS.get(word)
        text = word.encode("utf-8", "ignore")[: max_characters - 2]
        encoded.append(list(text) if mark is None else [mark])
    longest = max(map(len, encoded), default=0)
    n_characters = min(max_characters, longest + 2 + min_padding)
    ids = numpy.full((len(words), n_characters), PADDING, dtype=numpy.int64)
    ids[:, 0] = BEGIN_WORD
    for row, characters in enumerate(encoded):
        ids[row, 1 : len(characters) + 1] = characters
        ids[row, len(characters) + 1] = END_WORD
    return ids
