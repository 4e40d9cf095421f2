"""Sentences with labelled words: the project's own format, and that of SemCor's sample."""

import json
from pathlib import Path
from typing import Any, Iterator, List, Optional, Tuple, Type

from spacy.language import Language

from spacy_elmo.training.text.decompression import (
    damage_errors,
    open_compressed,
    require_decompression,
)
from spacy_elmo.training.text.paths import JSONL, kind_of

from .contexts import Context

EXPECTED_JSON = '{"lemma": "bank", "sense": "...", "tokens": ["..."], "index": 0}'


def read_labelled(path: Path, nlp: Language) -> List[Context]:
    """The labelled contexts of a file, which may be compressed.

    :param path: ``.jsonl`` for an object such as ``EXPECTED_JSON`` a line; else text, in which
        ``# word: sense`` stands above sentences that have the word in this sense, one a line.
    :param nlp: tokenizes text.
    :raises SystemExit: the file is missing or says something else; the message names the line.
    :raises ImportError: a .zst file needs zstandard, which is missing.
    """
    if not path.is_file():
        raise SystemExit(f"There is no file {path}. Name one with --vars.labelled path/to/file")
    require_decompression(path)
    contexts: List[Context] = []
    errors: Tuple[Type[Exception], ...] = (UnicodeDecodeError, *damage_errors())
    try:
        if kind_of(path) == JSONL:
            for number, line in _lines(path):
                contexts.append(_parse_json(line, f"{path}, line {number}"))
        else:
            contexts = list(_parse_text(path, nlp))
    except errors as error:
        raise SystemExit(f"{path} cannot be read: {error}") from None
    return contexts


def find_word(word: str, tokens: List[str]) -> List[int]:
    """Where a word stands among tokens, in upper or lower case."""
    return [number for number, token in enumerate(tokens) if token.lower() == word.lower()]


def _lines(path: Path) -> Iterator[Tuple[int, str]]:
    with open_compressed(path) as (file, _):
        for number, line in enumerate(file, start=1):
            if text := line.decode("utf-8-sig" if number == 1 else "utf-8").strip():
                yield number, text


def _parse_json(line: str, where: str) -> Context:
    try:
        value: Any = json.loads(line)
        context = Context(value["lemma"], value["sense"], value["tokens"], value["index"])
        texts = [context.word, context.sense, *context.tokens]
        is_valid = isinstance(context.tokens, list) and all(isinstance(t, str) for t in texts)
        if not is_valid or not 0 <= context.index < len(context.tokens):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        raise SystemExit(f"{where}: {line!r:.80}; expected {EXPECTED_JSON}.") from None
    return context


def _parse_text(path: Path, nlp: Language) -> Iterator[Context]:
    heading: Optional[Tuple[str, str]] = None
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        if line.startswith("#"):
            word, colon, sense = (part.strip() for part in line[1:].partition(":"))
            if not (word and colon and sense):
                raise SystemExit(f"{where}: {line!r:.80}; expected '# word: sense'.")
            heading = word, sense
            continue
        if heading is None:
            raise SystemExit(f"{where}: expected a line '# word: sense' above the first sentence.")
        tokens = [token.text for token in nlp.make_doc(line) if not token.is_space]
        found = find_word(heading[0], tokens)
        if not found:
            raise SystemExit(f"{where}: {line!r:.80} has no word {heading[0]!r}.")
        for index in found:
            yield Context(*heading, tokens, index)
