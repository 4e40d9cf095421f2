"""Characters that are code points of a dictionary, as in ELMoForManyLangs."""

from typing import Dict, List, Sequence

from .characters import BOS, EOS
from .dictionary import number

# The entries that are no code points, by what they do.
BEGIN_SENTENCE, END_SENTENCE = "<bos>", "<eos>"
BEGIN_WORD, END_WORD = "<bow>", "<eow>"
UNKNOWN, PADDING = "<oov>", "<pad>"
SPECIAL = (BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, UNKNOWN, PADDING)


class CodePoints:
    """The inventory of a dictionary. Code points that it does not have are ``<oov>``.

    :param entries: single code points and the special entries, in the order of their ids.
    :raises ValueError: a special entry is missing, or one stands there twice.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        ids = number(entries, "code points", SPECIAL)
        self.begin_word, self.end_word = ids[BEGIN_WORD], ids[END_WORD]
        self.padding = ids[PADDING]
        self._unknown = ids[UNKNOWN]
        self._marks: Dict[str, int] = {BOS: ids[BEGIN_SENTENCE], EOS: ids[END_SENTENCE]}
        self._ids = ids

    def encode(self, word: str, limit: int) -> List[int]:
        """Ids of a word's first code points; those of a sentence mark are one id."""
        mark = self._marks.get(word)
        if mark is not None:
            return [mark]
        return [self._ids.get(character, self._unknown) for character in word[:limit]]
