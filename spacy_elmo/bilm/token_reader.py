"""Words to what the token layer reads of them: characters, a row of the word table, or both."""

from dataclasses import replace
from typing import List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from .characters import BOS, EOS, UNK, UTF8_BYTES, Inventory, encode_words
from .code_points import CodePoints
from .config import BiLMConfig
from .dictionary import number


class TokenIds(NamedTuple):
    """What a token layer reads of some words, each part only where the layer has it.

    *Shapes:* characters (n_words, n_characters), words (n_words,)
    """

    characters: Optional[Tensor]
    words: Optional[Tensor]

    @property
    def n_words(self) -> int:
        """How many words these are."""
        part = self.characters if self.characters is not None else self.words
        assert part is not None
        return len(part)

    def to(self, device: torch.device) -> "TokenIds":
        """The same on a device."""
        return TokenIds(*(None if part is None else part.to(device) for part in self))


class TokenReader:
    """Turns words into :class:`TokenIds`.

    :param config: the biLM's settings.
    :param words: entries of the word table in the order of their rows, ``<UNK>`` among them; for
        a biLM that has such a table.
    :param code_points: entries of the table of characters, for a biLM of code points.
    :raises ValueError: a dictionary is missing, is one too many, or does not fit the settings.
    """

    def __init__(
        self,
        config: BiLMConfig,
        words: Optional[Sequence[str]] = None,
        code_points: Optional[Sequence[str]] = None,
    ) -> None:
        _require_dictionary("words", words, config.words is not None)
        _require_dictionary("code_points", code_points, config.code_points is not None)
        #: Entries of the word table.
        self.words: Optional[List[str]] = None
        #: Entries of the table of code points.
        self.code_points: Optional[List[str]] = None
        #: The characters; none where words come from a table alone.
        self.inventory: Optional[Inventory] = None if config.char_encoder is None else UTF8_BYTES
        if words is not None:
            assert config.words is not None
            self.words = list(words)
            _require_size("words.n_words", config.words.n_words, len(self.words))
            config = replace(config, words=replace(config.words, n_words=len(self.words)))
            self._rows = number(self.words, "words", (UNK,))
        if code_points is not None:
            self.code_points = list(code_points)
            _require_size("code_points", config.code_points, len(self.code_points))
            self.inventory = CodePoints(self.code_points)
        #: The settings, the sizes of the dictionaries filled in.
        self.config = config

    def read(self, words: Sequence[str]) -> TokenIds:
        """What the token layer reads of words, ``<S>`` and ``</S>`` being the sentence marks."""
        return TokenIds(self._read_characters(words), self.find_rows(words))

    def find_rows(self, words: Sequence[str]) -> Optional[Tensor]:
        """Rows of the word table, if there is one; that of ``<UNK>`` for words it does not have.

        :returns: *Shape:* (n_words,), int64
        """
        if self.words is None:
            return None
        unknown = self._rows[UNK]
        keys = map(self._key_of, words)
        return torch.tensor([self._rows.get(key, unknown) for key in keys], dtype=torch.int64)

    def _key_of(self, word: str) -> str:
        # ELMoForManyLangs cuts words first, so that its dictionary holds what is left of them.
        is_cut = self.code_points is not None and word not in (BOS, EOS)
        return word[: self.config.max_characters_per_token - 2] if is_cut else word

    def _read_characters(self, words: Sequence[str]) -> Optional[Tensor]:
        if self.inventory is None:
            return None
        config = self.config
        return torch.from_numpy(
            encode_words(
                words, config.max_characters_per_token, config.widest_filter, self.inventory
            )
        )


def _require_dictionary(name: str, entries: Optional[Sequence[str]], is_needed: bool) -> None:
    if is_needed and entries is None:
        raise ValueError(
            f"The biLM setting {name!r} stands for a dictionary, which was not given. Weights that "
            "are loaded bring theirs; spacy elmo train makes one of the words of a text."
        )
    if entries is not None and not is_needed:
        raise ValueError(f"A dictionary was given, but the biLM setting {name!r} is none.")


def _require_size(name: str, expected: Optional[int], n_entries: int) -> None:
    if expected is not None and n_entries != expected:
        raise ValueError(
            f"A dictionary of {n_entries} entries was given, but the biLM setting {name!r} is "
            f"{expected}."
        )
