"""Sentences of raw text files, tokenized with spaCy."""

import gzip
import lzma
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, Union

import spacy
from spacy.language import Language

Sentence = List[str]

SUFFIXES = (".txt", ".txt.gz", ".txt.xz")

# Longer paragraphs are tokenized piece by piece, and this many paragraphs or pieces at a time,
# which bounds the memory that spaCy's Docs take.
MAX_PARAGRAPH_CHARACTERS = 20_000
PARAGRAPHS_A_BATCH = 100


class TextCorpus:
    """The sentences of text files: one paragraph a line, a blank line between documents.

    Can be read any number of times. Sentences are split by spaCy's ``sentencizer``;
    whitespace-only tokens are left out.

    paths (Sequence[Path]): The files, in the order they are read.
    lang (str): Code of the spaCy language whose tokenizer is used.
    limit (int): Sentences to read at most, 0 for all.
    """

    def __init__(self, paths: Sequence[Path], *, lang: str = "en", limit: int = 0) -> None:
        self.paths = list(paths)
        self.lang = lang
        self.limit = limit
        self._nlp = _blank_pipeline(lang)

    def __iter__(self) -> Iterator[Sentence]:
        """YIELDS (List[str]): The words of a sentence, one or more.
        RAISES ValueError: A file is empty, binary, damaged or not UTF-8; the message names the
            file and the line.
        """
        n_sentences = 0
        for sentence in self._iter_all():
            yield sentence
            n_sentences += 1
            if n_sentences == self.limit:
                return

    def _iter_all(self) -> Iterator[Sentence]:
        for path in self.paths:
            pieces = (piece for text in iter_paragraphs(path) for piece in split_paragraph(text))
            for doc in self._nlp.pipe(pieces, batch_size=PARAGRAPHS_A_BATCH):
                for span in doc.sents:
                    sentence = [token.text for token in span if not token.is_space]
                    if sentence:
                        yield sentence


def iter_paragraphs(path: Path) -> Iterator[str]:
    """The lines of a text file that are not blank, without the blanks around them.

    path (Path): A UTF-8 file, compressed if its name ends in .gz or .xz.
    YIELDS (str): A paragraph.
    RAISES ValueError: The file has no text, is binary, damaged or not UTF-8.
    """
    is_empty = True
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                # A byte order mark is no part of the text.
                text = _decode(line, path, number).lstrip("\ufeff").strip()
                if text:
                    is_empty = False
                    yield text
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(
            f"{path}, after line {number}: the compressed file is damaged ({error})."
        ) from None
    if is_empty:
        raise ValueError(f"{path}: no text in {number} lines; expected one paragraph a line.")


def split_paragraph(text: str, max_characters: int = MAX_PARAGRAPH_CHARACTERS) -> Iterator[str]:
    """Cut a paragraph into pieces that spaCy can take, at a blank where there is one.

    text (str): The paragraph.
    max_characters (int): Length of a piece at most.
    YIELDS (str): A piece.
    """
    begin = 0
    while len(text) - begin > max_characters:
        blank = text.rfind(" ", begin + 1, begin + max_characters)
        end = blank if blank > 0 else begin + max_characters
        yield text[begin:end]
        begin = end
    yield text[begin:]


def find_files(path: Union[str, Path, Sequence[Union[str, Path]]]) -> List[Path]:
    """The text files that a path, or each of a list of paths, stands for.

    path (Union[str, Path, Sequence]): A file, or a directory, whose files ending in .txt,
        .txt.gz and .txt.xz are taken at any depth, sorted by name.
    RETURNS (List[Path]): The files.
    RAISES ValueError: A path is not there, or a directory has no such file.
    """
    if not isinstance(path, (str, Path)):
        return [file for part in path for file in find_files(part)]
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES))
        if not files:
            raise ValueError(f"path is {str(path)!r}, a directory without {_SUFFIX_LIST} files.")
        return files
    if not path.exists():
        raise ValueError(f"path is {str(path)!r}, which does not exist.")
    return [path]


_SUFFIX_LIST = ", ".join(SUFFIXES)


def build_text_corpus_v1(
    *,
    path: Optional[Union[str, Path, List[str]]],
    lang: str = "en",
    limit: int = 0,
) -> TextCorpus:
    """Construct a corpus of text files; they are looked for now and read later.

    path (Union[str, Path, List[str]]): A .txt, .txt.gz or .txt.xz file, a directory of such
        files, or a list of both.
    lang (str): Code of the spaCy language whose tokenizer is used.
    limit (int): Sentences to read at most, 0 for all.
    RETURNS (TextCorpus): The corpus.
    """
    if not path:
        raise ValueError(f"path is {path!r}; expected a text file, a directory or a list of them.")
    if limit < 0:
        raise ValueError(f"limit is {limit}; expected a number of sentences, or 0 for all.")
    return TextCorpus(find_files(path), lang=lang, limit=limit)


def _open(path: Path) -> BinaryIO:
    openers: Dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    return openers.get(path.suffix, open)(path, "rb")


def _decode(line: bytes, path: Path, number: int) -> str:
    if b"\0" in line:
        raise ValueError(f"{path}, line {number}: binary data; expected UTF-8 text.")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: byte {error.start + 1} of the line "
            f"({line[error.start]:#04x}) is not UTF-8; expected UTF-8 text."
        ) from None


def _blank_pipeline(lang: str) -> Language:
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise ValueError(f"lang is {lang!r}: {error}") from error
    nlp.add_pipe("sentencizer")
    return nlp
