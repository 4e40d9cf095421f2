"""Files of text, piece by piece: raw text to tokenize, ready sentences, and what is faulty."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Callable, Generator, Iterable, Iterator, List, NamedTuple, Tuple, Union

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from .decompression import damage_errors, open_compressed
from .lines import Fault, iter_lines
from .paths import DOCBIN, JSONL, TXT, kind_of

# Longer paragraphs are tokenized piece by piece, which bounds the memory that spaCy's Docs take.
MAX_PARAGRAPH_CHARACTERS = 20_000

# Characters, and pieces of text, that are tokenized in one go.
CHUNK_CHARACTERS = 100_000
CHUNK_ITEMS = 1000


@dataclass(frozen=True)
class ReadSettings:
    """How text files are read.

    tokenized (bool): Whether a line is a sentence whose words are separated by blanks.
    max_line_bytes (int): Longest line that is taken.
    """

    tokenized: bool
    max_line_bytes: int


#: Raw text, the words of a sentence, or what is wrong here.
Item = Union[str, List[str], Fault]


class Chunk(NamedTuple):
    """What is tokenized in one go.

    items (List[Union[str, List[str]]]): Raw texts and sentences.
    fault (str): What is wrong after them, or an empty string.
    n_bytes (int): Bytes of the file that are read so far.
    """

    items: List[Union[str, List[str]]]
    fault: str
    n_bytes: int


def read_chunks(
    path: Path, settings: ReadSettings, get_nlp: Callable[[], Language]
) -> Generator[Chunk, None, None]:
    """A file in pieces that are the same in every run.

    path (Path): A UTF-8 text file, a .jsonl file or a DocBin; any of them may be compressed.
    settings (ReadSettings): How to read it.
    get_nlp (Callable[[], Language]): Gives a pipeline that splits Docs that have no sentences.
    YIELDS (Chunk): The pieces. After a fault follows the rest of the file, if it can be read.
    """
    items: List[Union[str, List[str]]] = []
    n_characters = 0
    with open_compressed(path) as (file, tell):
        for item in _read_items(file, kind_of(path), settings, get_nlp):
            if isinstance(item, Fault):
                yield Chunk(items, item.text, tell())
                items, n_characters = [], 0
                continue
            items.append(item)
            n_characters += len(item) if isinstance(item, str) else sum(map(len, item))
            if n_characters >= CHUNK_CHARACTERS or len(items) >= CHUNK_ITEMS:
                yield Chunk(items, "", tell())
                items, n_characters = [], 0
        yield Chunk(items, "", tell())


def split_paragraph(text: str, max_characters: int = MAX_PARAGRAPH_CHARACTERS) -> Iterator[str]:
    """Cut a paragraph into pieces that spaCy can take, at a line break or else a blank where
    there is one.

    text (str): The paragraph.
    max_characters (int): Length of a piece at most.
    YIELDS (str): A piece.
    """
    begin = 0
    while len(text) - begin > max_characters:
        within = begin + 1, begin + max_characters
        end = max(text.rfind("\n", *within), 0) or max(text.rfind(" ", *within), 0)
        end = end or begin + max_characters
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _read_items(
    file: BinaryIO, kind: str, settings: ReadSettings, get_nlp: Callable[[], Language]
) -> Iterator[Item]:
    """As many items as the file has, each fault in its place."""
    is_empty = True
    number = 0
    parts: Iterable[Tuple[int, Iterable[Item]]]
    if kind == DOCBIN:
        parts = [(0, _docbin_items(file, get_nlp()))]
    else:
        parts = _parse_lines(file, settings, _jsonl_items if kind == JSONL else _txt_items)
    try:
        for number, items in parts:  # noqa: B007
            for item in items:
                is_empty = False
                yield item
    except damage_errors() as error:
        is_empty = False
        yield Fault(f"after line {number}: the compressed file is damaged ({error}).")
    if is_empty:
        where = "" if kind == DOCBIN else f" in {number} lines"
        yield Fault(f"no text{where}; expected {_EXPECTED[kind]}.")


_EXPECTED = {
    TXT: "one paragraph a line",
    JSONL: 'a line such as {"text": "..."} or {"tokens": ["..."]}',
    DOCBIN: "Docs with tokens",
}


def _parse_lines(
    file: BinaryIO, settings: ReadSettings, parse: Callable[..., Iterator[Item]]
) -> Iterator[Tuple[int, Iterable[Item]]]:
    """The number of each line and its items."""
    for number, line in iter_lines(file, settings.max_line_bytes):
        yield number, [line] if isinstance(line, Fault) else parse(line, number, settings)


def _txt_items(line: str, number: int, settings: ReadSettings) -> Iterator[Item]:
    if settings.tokenized:
        yield from _ready_sentence(re.split("[ \t]+", line))
    elif line := line.strip():
        yield from split_paragraph(line)


def _jsonl_items(line: str, number: int, settings: ReadSettings) -> Iterator[Item]:
    if not line.strip():
        return
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        yield Fault(f"line {number}: {line!r:.80} is not JSON ({error}).")
        return
    text, tokens = (value.get(key) if isinstance(value, dict) else None for key in _KEYS)
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        words = tokens
    elif isinstance(text, str) and tokens is None:
        words = [text]
    else:
        yield Fault(f"line {number}: {line!r:.80}; expected {_EXPECTED[JSONL]}.")
        return
    try:
        "".join(words).encode("utf-8")
    except UnicodeEncodeError:
        yield Fault(f"line {number}: {line!r:.80} has half of a surrogate pair; expected text.")
        return
    if tokens is not None:
        yield from _ready_sentence(words)
    elif settings.tokenized:
        for part in words[0].split("\n"):
            yield from _ready_sentence(re.split("[ \t\r]+", part))
    elif words[0].strip():
        yield from split_paragraph(words[0])


_KEYS = ("text", "tokens")


def _docbin_items(file: BinaryIO, nlp: Language) -> Iterator[Item]:
    data = file.read()
    try:
        docs = DocBin().from_bytes(data).get_docs(nlp.vocab)
    except Exception as error:
        # What a stranger's bytes make the reader raise can be anything.
        yield Fault(f"not a DocBin that spaCy can read ({type(error).__name__}: {error}).")
        return
    number = 0
    while True:
        try:
            doc = next(docs, None)
        except Exception as error:
            yield Fault(f"after Doc {number}: not readable ({type(error).__name__}: {error}).")
            return
        if doc is None:
            return
        number += 1
        yield from sentences_of(doc, nlp)


def sentences_of(doc: Doc, nlp: Language) -> Iterator[List[str]]:
    """The words of each sentence of a Doc. Where it has no sentences, the pipeline splits it."""
    if not doc.has_annotation("SENT_START"):
        for _, pipe in nlp.pipeline:
            doc = pipe(doc)
        if not doc.has_annotation("SENT_START"):
            raise ValueError(
                f"splitter set no sentence of {doc.text!r:.80}; expected a function that adds a "
                "component which does to the pipeline it is given."
            )
    for span in doc.sents:
        yield from _ready_sentence([token.text for token in span])


def _ready_sentence(words: List[str]) -> Iterator[List[str]]:
    words = [word for word in words if word and not word.isspace()]
    if words:
        yield words
