"""Text files as a corpus: tokenized with spaCy once, kept for later runs."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Generator, Iterator, List, NamedTuple, Optional, Sequence, Union

import spacy
from spacy.language import Language

from .cache import ShardCache, default_directory, hash_bytes, hash_file, make_key
from .decompression import require_decompression
from .faults import MAX_WARNINGS, ON_ERROR, FaultReport
from .paths import compression_of, find_files, kind_of
from .shards import ShardWriter
from .splitters import Sentencizer, Splitter
from .stream import Progress, WordStream, merge_streams
from .text_files import ReadSettings, read_chunks
from .tokenizing import Pipeline, Tokenizer

Sentence = List[str]

MAX_LINE_BYTES = 10_000_000


class TextCorpus:
    """The sentences of text files, read as often as needed.

    paths (Sequence[Path]): The files, in the order they are read.
    lang (str): Code of the spaCy language whose tokenizer is used.
    limit (int): Sentences to read at most, 0 for all.
    tokenized (bool): Whether a line of a text file, or of a text in a .jsonl file, is a sentence
        whose words are separated by blanks.
    splitter (Optional[Splitter]): Adds what splits raw text into sentences to a blank pipeline.
        spaCy's sentencizer if None.
    n_process (int): Processes that tokenize. They change no result.
    on_error (str): "stop" or "skip" at what cannot be read. Warnings tell what is skipped.
    max_line_bytes (int): Longest line that is taken.
    cache (Optional[Union[str, Path, bool]]): Directory for tokenized text. None for
        ``$SPACY_ELMO_CACHE`` or else ``spacy-elmo`` in the user's directory for caches; an empty
        string or False to keep it in memory.
    RAISES ValueError: There is no such language.
    RAISES ImportError: A file needs zstandard, which is missing.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        lang: str = "en",
        limit: int = 0,
        tokenized: bool = False,
        splitter: Optional[Splitter] = None,
        n_process: int = 1,
        on_error: str = "stop",
        max_line_bytes: int = MAX_LINE_BYTES,
        cache: Optional[Union[str, Path, bool]] = None,
    ) -> None:
        self.paths = list(paths)
        self.lang = lang
        self.limit = limit
        self.n_process = n_process
        self.on_error = on_error
        self.settings = ReadSettings(tokenized=tokenized, max_line_bytes=max_line_bytes)
        self.cache: Optional[ShardCache] = None
        if cache is None or cache is True:
            self.cache = ShardCache(default_directory())
        elif cache:
            self.cache = ShardCache(cache)
        for path in self.paths:
            require_decompression(path)
        self._pipeline = Pipeline(lang, splitter or Sentencizer())
        self._settings_key = _make_settings_key(self._pipeline.get(), self.settings)

    def __iter__(self) -> Iterator[Sentence]:
        """Read the files, whatever is in the cache.

        YIELDS (List[str]): The words of a sentence, one or more.
        RAISES ValueError: on_error is "stop" and something cannot be read; the message names the
            file and the line.
        """
        for stream in self._iter_streams(None):
            yield from stream.iter_sentences()

    def read_stream(self, progress: Optional[Progress] = None) -> WordStream:
        """All words as numbers: from the cache, where the files are in it as they are now, else
        tokenized and kept there.

        progress (Optional[Callable[[int, int], None]]): Called with the number of bytes read so
            far and in all.
        RETURNS (WordStream): The text, which may be empty.
        RAISES ValueError: As where sentences are read.
        RAISES OSError: The cache cannot be written to, or a tokenizing process ended by itself.
        """
        if self.cache is None:
            return merge_streams(self._iter_streams(progress))
        return self._read_cached(self.cache, progress)

    def _iter_streams(self, progress: Optional[Progress]) -> Iterator[WordStream]:
        report = FaultReport(self.on_error)
        meter = _Meter(self.paths, progress)
        n_sentences = 0
        with Tokenizer(self._pipeline, self.n_process) as tokenizer:
            for path in self.paths:
                limit = self._remaining(n_sentences)
                if limit is None:
                    break
                pieces = self._iter_file(path, limit, tokenizer)
                with closing(pieces):
                    for piece in pieces:
                        n_sentences += piece.stream.n_sentences
                        meter.read(piece.n_bytes)
                        yield piece.stream
                        if piece.fault:
                            report.found(path, [piece.fault])
                meter.finished(path)
        report.close()
        meter.close()

    def _read_cached(self, cache: ShardCache, progress: Optional[Progress]) -> WordStream:
        report = FaultReport(self.on_error)
        meter = _Meter(self.paths, progress)
        files: List[_File] = []
        n_sentences = 0
        with Tokenizer(self._pipeline, self.n_process) as tokenizer:
            fill = partial(self._fill, tokenizer, report, meter)
            for path in self.paths:
                limit = self._remaining(n_sentences)
                if limit is None:
                    break
                file = self._identify(path, limit)
                files.append(file)
                # Of several files another shard is made, or was, which is verified then.
                may_be_all = len(self.paths) == 1 or self.limit > 0
                shard = cache.get(file.key, partial(fill, file), verify=may_be_all)
                report.found(path, shard.faults, shard.n_faults)
                n_sentences += shard.stream.n_sentences
                meter.finished(path)
            if len(files) > 1:

                def merge(writer: ShardWriter) -> None:
                    for file in files:
                        writer.append(cache.get(file.key, partial(fill, file)).stream)

                shard = cache.get(make_key("files", [file.key for file in files]), merge)
        report.close()
        meter.close()
        return shard.stream

    def _remaining(self, n_sentences: int) -> Optional[int]:
        """Sentences to read at most after so many, 0 for all; none if those were all."""
        if self.limit == 0:
            return 0
        return self.limit - n_sentences if n_sentences < self.limit else None

    def _identify(self, path: Path, limit: int) -> "_File":
        kind = kind_of(path), compression_of(path)
        return _File(
            path, limit, make_key("file", hash_file(path), kind, limit, self._settings_key)
        )

    def _fill(
        self,
        tokenizer: Tokenizer,
        report: FaultReport,
        meter: "_Meter",
        file: "_File",
        writer: ShardWriter,
    ) -> None:
        pieces = self._iter_file(file.path, file.limit, tokenizer)
        with closing(pieces):
            for piece in pieces:
                writer.append(piece.stream)
                meter.read(piece.n_bytes)
                if piece.fault:
                    if self.on_error == "stop":
                        report.found(file.path, [piece.fault])
                    writer.add_fault(piece.fault, MAX_WARNINGS)

    def _iter_file(self, path: Path, limit: int, tokenizer: Tokenizer) -> "_Pieces":
        n_sentences = 0
        chunks = read_chunks(path, self.settings, self._pipeline.get)
        tokenized = tokenizer.tokenize(chunks)
        with closing(chunks), closing(tokenized):
            for stream, chunk in tokenized:
                if 0 < limit <= n_sentences + stream.n_sentences:
                    yield _Piece(stream.head(limit - n_sentences), "", chunk.n_bytes)
                    return
                n_sentences += stream.n_sentences
                yield _Piece(stream, chunk.fault, chunk.n_bytes)


class _Piece(NamedTuple):
    stream: WordStream
    fault: str
    n_bytes: int


_Pieces = Generator[_Piece, None, None]


class _File(NamedTuple):
    """A file, how many of its sentences are read (0 for all), and the key of its shard."""

    path: Path
    limit: int
    key: str


class _Meter:
    """Bytes that are read of all files."""

    def __init__(self, paths: Sequence[Path], progress: Optional[Progress]) -> None:
        self._progress = progress
        self._total = sum(path.stat().st_size for path in paths)
        self._finished = 0

    def read(self, n_bytes: int) -> None:
        if self._progress is not None:
            self._progress(min(self._finished + n_bytes, self._total), self._total)

    def finished(self, path: Path) -> None:
        self._finished += path.stat().st_size
        self.read(0)

    def close(self) -> None:
        self._finished = self._total
        self.read(0)


def build_text_corpus_v1(
    *,
    path: Optional[Union[str, Path, List[str]]],
    lang: str = "en",
    limit: int = 0,
    tokenized: bool = False,
    splitter: Optional[Splitter] = None,
    n_process: int = 1,
    on_error: str = "stop",
    max_line_bytes: int = MAX_LINE_BYTES,
    cache: Optional[Union[str, Path, bool]] = None,
) -> TextCorpus:
    """Construct a corpus of text files; they are looked for now and read later.

    path (Union[str, Path, List[str]]): A file, a directory, whose files are taken at any depth,
        a pattern such as ``data/**/*.txt.gz``, or a list of them. Files end in .txt (one
        paragraph a line), .jsonl (``{"text": "..."}``, or ``{"tokens": [...]}`` for a tokenized
        sentence, a line) or .spacy (a DocBin), and may be compressed: .gz, .xz or .zst.
    lang (str): Code of the spaCy language whose tokenizer is used.
    limit (int): Sentences to read at most, 0 for all.
    tokenized (bool): Whether a line of text is a sentence whose words are separated by blanks.
    splitter (Optional[Splitter]): Splits raw text, and Docs without sentences, into sentences.
        If None, spaCy's sentencizer.
    n_process (int): Processes that tokenize. They change no result.
    on_error (str): At bytes that are not UTF-8, binary data, a damaged or empty file, a line
        that is too long or no JSON: "stop", or "skip" that line or the rest of the file.
    max_line_bytes (int): Longest line that is taken.
    cache (Optional[Union[str, Path, bool]]): Directory in which tokenized text is kept for later
        runs; None for that of the user, an empty string for none.
    RETURNS (TextCorpus): The corpus.
    """
    if not path:
        raise ValueError(f"path is {path!r}; expected a text file, a directory or a list of them.")
    if limit < 0:
        raise ValueError(f"limit is {limit}; expected a number of sentences, or 0 for all.")
    if n_process < 1:
        raise ValueError(f"n_process is {n_process}; expected a number of processes, 1 or more.")
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error is {on_error!r}; expected {' or '.join(map(repr, ON_ERROR))}.")
    if max_line_bytes < 1:
        raise ValueError(f"max_line_bytes is {max_line_bytes}; expected 1 or more.")
    return TextCorpus(
        find_files(path),
        lang=lang,
        limit=limit,
        tokenized=tokenized,
        splitter=splitter,
        n_process=n_process,
        on_error=on_error,
        max_line_bytes=max_line_bytes,
        cache=cache,
    )


def _make_settings_key(nlp: Language, settings: ReadSettings) -> str:
    """Of everything beside a file that decides what its sentences are."""
    # The config says how each component was made; trained ones have weights, too.
    states = [
        (name, hash_bytes(pipe.model.to_bytes()))
        for name, pipe in nlp.pipeline
        if hasattr(pipe, "model")
    ]
    config = nlp.config.to_str()
    return make_key(spacy.__version__, config, states, settings.tokenized, settings.max_line_bytes)
