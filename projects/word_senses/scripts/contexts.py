"""Contexts: words in their sentences, and the file that keeps them."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Iterable, List, Tuple

from spacy_elmo.training.files import write_files

_QUOTES = {"``": "“", "''": "”"}
_CLOSING = re.compile(r"[.,;:!?%)\]}”…]|n[’']t$|[’']\w")
# Tokens that are shown where an ellipsis would be as long.
ROOM = 2
_OPENING = ("(", "[", "{", "“", "$", "£")


@dataclass(frozen=True)
class Context:
    """One occurrence of a word.

    :param word: the word that was looked for.
    :param sense: the label, or an empty string.
    :param tokens: the sentence.
    :param index: where the word stands in it, counted from 0.
    """

    word: str
    sense: str
    tokens: List[str]
    index: int


def split_context(context: Context, n_around: int = 0) -> Tuple[str, str, str]:
    """The sentence as text: before the word, the word, and after it.

    :param n_around: tokens to keep on either side; 0 for the whole sentence.
    """
    begin, end = context.index - n_around, context.index + 1 + n_around
    if n_around == 0 or begin <= ROOM:
        begin = 0
    if n_around == 0 or end >= len(context.tokens) - ROOM:
        end = len(context.tokens)
    tokens = [_QUOTES.get(token, token) for token in context.tokens]
    pieces = [
        token if number == 0 or _adjoins(tokens[number - 1], token) else " " + token
        for number, token in enumerate(tokens)
    ]
    before = "".join(pieces[begin : context.index])
    word = pieces[context.index]
    after = "".join(pieces[context.index + 1 : end])
    if word.startswith(" "):
        before += " "
    left = "… " if begin > 0 else ""
    right = " …" if end < len(tokens) else ""
    return left + before.lstrip(" "), word.lstrip(" "), after + right


def as_text(context: Context, n_around: int = 0) -> str:
    return "".join(split_context(context, n_around))


def _adjoins(left: str, right: str) -> bool:
    """Whether no blank stands between two tokens."""
    return bool(_CLOSING.match(right)) or left in _OPENING


def write_contexts(path: Path, contexts: Iterable[Context]) -> None:
    """One JSON object a line."""
    lines = (json.dumps(asdict(context), ensure_ascii=False) + "\n" for context in contexts)
    write_files(path.parent, {path.name: "".join(lines).encode("utf-8")})


def read_contexts(path: Path) -> List[Context]:
    """What :func:`write_contexts` wrote."""
    with path.open(encoding="utf-8") as file:
        return [Context(**json.loads(line)) for line in file]
