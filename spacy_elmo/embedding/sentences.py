"""The sentences of a file, of lines that come through a pipe, or of any iterable.

A line, blank or not, is a sentence, so that the number of a sentence is that of its line, counted
from 0. Nothing is left out: as many tokens as a sentence has, so many rows it gets.
"""

import json
import re
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Iterator, List, NamedTuple, Optional, Union

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..bilm.bilm import as_sentences
from ..training.text.decompression import damage_errors, open_compressed, require_decompression
from ..training.text.lines import Fault, iter_lines
from ..training.text.paths import DOCBIN, JSONL, TXT, kind_of

MAX_LINE_BYTES = 10_000_000

# spaCy forgets no string that it has seen. A tokenizer that knows this many is made anew.
MAX_STRINGS = 300_000

#: A path, an open binary file of lines of text, or lists of words.
Source = Union[str, Path, BinaryIO, Iterable[Iterable[str]]]

#: Called with bytes of the file that are read, and all of them.
Meter = Callable[[int, int], None]


class Sentence(NamedTuple):
    """A sentence.

    text (str): As it was given, or its words joined by blanks.
    words (List[str]): Its tokens, none in a blank line.
    """

    text: str
    words: List[str]


class Reader:
    """Reads sentences.

    lang (Optional[str]): Code of the spaCy language whose tokenizer splits raw text; None where
        words stand between blanks.
    meter (Optional[Callable[[int, int], None]]): Told how far a file is read.
    RAISES ValueError: There is no such language.
    """

    def __init__(self, lang: Optional[str] = None, meter: Optional[Meter] = None) -> None:
        self.lang = lang
        self._meter = meter
        self._nlp: Optional[Language] = None
        self._split("")

    def read(self, source: Source) -> Iterator[Sentence]:
        """The sentences of a source, in their order.

        YIELDS (Sentence): A sentence.
        RAISES ValueError: Something cannot be read; the message names file and line.
        RAISES OSError: There is no such file.
        """
        if isinstance(source, (str, Path)):
            yield from self._read_file(Path(source))
        elif hasattr(source, "readline"):
            yield from self._read_lines(source, TXT, "The input")
        else:
            for number, words in enumerate(source):
                (sentence,) = _named(number, words)
                yield Sentence(" ".join(sentence), sentence)

    def _read_file(self, path: Path) -> Iterator[Sentence]:
        if path.is_dir():
            raise ValueError(f"{path} is a directory; expected a .txt, .jsonl or .spacy file.")
        require_decompression(path)
        n_bytes = path.stat().st_size
        with open_compressed(path) as (file, tell):
            if kind_of(path) == DOCBIN:
                sentences = self._read_docbin(file, path)
            else:
                sentences = self._read_lines(file, kind_of(path), str(path))
            for sentence in sentences:
                yield sentence
                if self._meter is not None:
                    self._meter(tell(), n_bytes)

    def _read_lines(self, file: Any, kind: str, name: str) -> Iterator[Sentence]:
        number = 0
        parse = self._parse_json if kind == JSONL else self._parse_line
        try:
            for number, line in iter_lines(file, MAX_LINE_BYTES):
                sentence = line if isinstance(line, Fault) else parse(line, number)
                if isinstance(sentence, Fault):
                    raise ValueError(f"{name}, {sentence.text}")
                yield sentence
        except damage_errors() as error:
            raise ValueError(
                f"{name}, after line {number}: the compressed file is damaged ({error})."
            ) from error

    def _parse_line(self, line: str, number: int) -> Union[Sentence, Fault]:
        return Sentence(line.strip(), self._split(line))

    def _parse_json(self, line: str, number: int) -> Union[Sentence, Fault]:
        if not line.strip():
            return Sentence("", [])
        expected = 'expected a line such as {"text": "..."} or {"tokens": ["..."]}'
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            return Fault(f"line {number}: {line!r:.80} is not JSON ({error}); {expected}.")
        text, tokens = (
            value.get(key) if isinstance(value, dict) else None for key in ("text", "tokens")
        )
        if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
            sentence = Sentence(" ".join(tokens), tokens)
        elif isinstance(text, str) and tokens is None:
            sentence = Sentence(text.strip(), self._split(text))
        else:
            return Fault(f"line {number}: {line!r:.80}; {expected}.")
        try:
            sentence.text.encode("utf-8")
        except UnicodeEncodeError:
            return Fault(f"line {number}: {line!r:.80} has half of a surrogate pair; {expected}.")
        return sentence

    def _read_docbin(self, file: BinaryIO, path: Path) -> Iterator[Sentence]:
        number = 0
        try:
            for doc in DocBin().from_bytes(file.read()).get_docs(spacy.blank("xx").vocab):
                yield from _sentences_of(doc)
                number += 1
        # What a stranger's bytes make the reader raise can be anything.
        except Exception as error:
            raise ValueError(
                f"{path}, after Doc {number}: not a DocBin that spaCy can read "
                f"({type(error).__name__}: {error})."
            ) from error

    def _split(self, text: str) -> List[str]:
        if self.lang is None:
            return [word for word in re.split(r"[ \t\r\n]+", text) if word]
        if self._nlp is None or len(self._nlp.vocab.strings) > MAX_STRINGS:
            try:
                self._nlp = spacy.blank(self.lang)
            except ImportError as error:
                raise ValueError(f"lang is {self.lang!r}: {error}") from error
            # The limit is meant for components that need much more memory than a tokenizer.
            self._nlp.max_length = MAX_LINE_BYTES
        return [token.text for token in self._nlp.make_doc(text.strip())]


def _named(number: int, words: Iterable[str]) -> List[List[str]]:
    try:
        return as_sentences([words])
    except ValueError as error:
        raise ValueError(str(error).replace("Sentence 0 ", f"Sentence {number} ")) from None


def _sentences_of(doc: Doc) -> Iterator[Sentence]:
    """The sentences of a Doc; one where it has no sentence boundaries."""
    for span in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
        yield Sentence(span.text.strip(), [token.text for token in span])
