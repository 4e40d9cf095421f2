"""The words that the softmax can predict. The biLM's input needs no vocabulary."""

from codecs import BOM_UTF8
from os import PathLike
from pathlib import Path
from typing import Dict, Iterable, List, Mapping, Sequence, Union

from ..bilm import BOS, EOS, UNK
from .files import write_file

SPECIAL = (BOS, EOS, UNK)
BOS_ID, EOS_ID, UNK_ID = range(3)

# bilm-tf's reader skips this entry, which vocabularies of its first publisher contain.
_SKIPPED = "!!!MAXTERMID"


class Vocabulary:
    """Words and their ids; ``<S>``, ``</S>`` and ``<UNK>`` are ids 0, 1 and 2.

    :param words: all entries in the order of their ids, the three special ones first.
    :raises ValueError: an entry is blank, has blanks around it, stands there twice, or a special
        one is missing; the message gives the entry's number, counted from 1.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words: List[str] = list(words)
        places = (f"vocabulary entry {number}" for number in range(1, len(words) + 1))
        self._ids = _number_entries(self.words, places, "the vocabulary")

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], *, max_size: int = 0, min_count: int = 1
    ) -> "Vocabulary":
        """The most frequent words, by falling count, equal counts by word. Words that a file of
        this format cannot hold are left out, and so are unknown: those with blanks around them or
        with a line break, which a corpus of ready tokens can have.

        :param counts: how often each word is in the text.
        :param max_size: words kept, the three special entries not counted; 0 for all.
        :param min_count: occurrences that a word needs.
        """
        kept = [
            word
            for word, n in counts.items()
            if n >= min_count and word not in SPECIAL and _is_entry(word)
        ]
        kept.sort(key=lambda word: (-counts[word], word))
        return cls([*SPECIAL, *(kept[:max_size] if max_size else kept)])

    @classmethod
    def from_disk(cls, path: Union[str, "PathLike[str]"]) -> "Vocabulary":
        """Read bilm-tf's format: UTF-8, an entry a line, the special ones first.

        :raises ValueError: a faulty line; the message names the file and the line.
        """
        path = Path(path)
        lines = path.read_bytes().removeprefix(BOM_UTF8).split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        words: List[str] = []
        places: List[str] = []
        for number, line in enumerate(lines, 1):
            place = f"{path}, line {number}"
            try:
                word = line.removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"{place}: {line!r:.80} is not UTF-8 text.") from None
            if word != _SKIPPED:
                words.append(word)
                places.append(place)
        _number_entries(words, places, str(path))
        return cls(words)

    def to_disk(self, path: Union[str, "PathLike[str]"]) -> None:
        """Write bilm-tf's format, atomically."""
        write_file(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What :meth:`to_disk` writes."""
        return "".join(f"{word}\n" for word in self.words).encode("utf-8")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def id_of(self, word: str) -> int:
        """The id of a word of text. A word that is not here has that of ``<UNK>``, and so has
        one that spells a special entry, which text is not."""
        return max(self._ids.get(word, UNK_ID), UNK_ID)


def _is_entry(word: str) -> bool:
    """Whether a file can hold the word."""
    is_text = not any("\ud800" <= character <= "\udfff" for character in word)
    return is_text and word != "" and word == word.strip() and "\n" not in word


def _number_entries(words: Sequence[str], places: Iterable[str], whole: str) -> Dict[str, int]:
    ids: Dict[str, int] = {}
    for number, (word, place) in enumerate(zip(words, places)):
        if number < len(SPECIAL) and word != SPECIAL[number]:
            raise ValueError(
                f"{place}: {word!r}; expected {SPECIAL[number]!r}. A vocabulary starts with "
                f"{', '.join(SPECIAL)}, one a line."
            )
        if not word.strip():
            raise ValueError(f"{place}: a blank entry; expected a word.")
        if not _is_entry(word):
            raise ValueError(
                f"{place}: {word!r} has blanks around it, a line break or half of a surrogate pair."
            )
        if word in ids:
            raise ValueError(f"{place}: {word!r} stands there twice, first as id {ids[word]}.")
        ids[word] = number
    if len(ids) <= len(SPECIAL):
        raise ValueError(
            f"{whole} has {len(ids)} entries; expected {', '.join(SPECIAL)} and one word or more."
        )
    return ids
