"""How a Doc is cut into segments, the pieces that the biLM reads between ``<S>`` and ``</S>``."""

from functools import partial
from typing import List, NamedTuple, Sequence, Union, cast

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc, Span

from .types import SegmenterT

WINDOW = 128


def build_sentences_v1(*, window: int = WINDOW) -> SegmenterT:
    """Registered as ``spacy-elmo.sentences.v1``: a segment a sentence, where the Doc has sentence
    boundaries, else windows. A sentence longer than a window is cut into windows too, so that no
    text can make a segment of unbounded length.

    window (int): Most tokens of a segment, whitespace not counted.
    RETURNS (Callable[[Sequence[Doc]], List[List[Span]]]): The segmenter.
    """
    return partial(_segment, window=_validate_window(window), use_sentences=True)


def build_windows_v1(*, window: int = WINDOW) -> SegmenterT:
    """Registered as ``spacy-elmo.windows.v1``: segments of a fixed number of tokens, the last one
    of a Doc shorter, whatever its sentences.

    window (int): Tokens of a segment, whitespace not counted.
    RETURNS (Callable[[Sequence[Doc]], List[List[Span]]]): The segmenter.
    """
    return partial(_segment, window=_validate_window(window), use_sentences=False)


class Segment(NamedTuple):
    """What the biLM reads in one go.

    number (int): Number of the Doc.
    doc (Doc): The Doc.
    rows (Union[slice, List[int]]): Numbers of its tokens; a slice where no whitespace is between.
    word_hashes (numpy.ndarray): spaCy's hashes of the words.
    """

    number: int
    doc: Doc
    rows: Union[slice, List[int]]
    word_hashes: NDArray[numpy.uint64]

    @property
    def words(self) -> List[str]:
        """RETURNS (List[str]): The words."""
        strings = self.doc.vocab.strings
        return [strings[word] for word in self.word_hashes.tolist()]


def find_segments(segments: SegmenterT, docs: Sequence[Doc]) -> List[Segment]:
    """What the biLM reads, and where the rows belong. Whitespace tokens are left out: biLMs are
    trained on words, and a run of newlines would come between a word and its context.

    segments (SegmenterT): The segmenter.
    docs (Sequence[Doc]): The Docs to cut.
    RETURNS (List[Segment]): The segments in order. Those without a word are left out.
    RAISES (ValueError): The segmenter did not give each token of a Doc once and in order.
    """
    found: List[Segment] = []
    spans_of_docs = segments(docs)
    is_list = isinstance(spans_of_docs, (list, tuple))
    if not is_list or len(spans_of_docs) != len(docs):
        gave = f"{len(spans_of_docs)} lists of spans" if is_list else repr(spans_of_docs)
        raise ValueError(
            f"The segments function gave {gave} for {len(docs)} docs; expected a list with a list "
            "of spans a doc. Change the 'segments' setting of the elmo model."
        )
    for number, (doc, spans) in enumerate(zip(docs, spans_of_docs)):
        # spaCy's stubs call these numbers floats.
        table = cast(NDArray[numpy.uint64], doc.to_array(["ORTH", "IS_SPACE"]))
        hashes, is_space = table[:, 0], table[:, 1].astype(bool)
        has_space = bool(is_space.any())
        end = 0
        for span in spans:
            start = span.start
            if start != end or span.end > len(doc):
                raise _not_covered(number, doc, min(start, end))
            end = span.end
            if not has_space:
                if end > start:
                    found.append(Segment(number, doc, slice(start, end), hashes[start:end]))
                continue
            rows = start + numpy.flatnonzero(~is_space[start:end])
            if len(rows):
                found.append(Segment(number, doc, rows.tolist(), hashes[rows]))
        if end != len(doc):
            raise _not_covered(number, doc, end)
    return found


def _not_covered(number: int, doc: Doc, token: int) -> ValueError:
    return ValueError(
        f"The segments function does not cover doc {number} ({len(doc)} tokens): token {token} is "
        "left out or comes twice. Expected spans in order that hold each token once. Change the "
        "'segments' setting of the elmo model."
    )


def _segment(docs: Sequence[Doc], *, window: int, use_sentences: bool) -> List[List[Span]]:
    segments: List[List[Span]] = []
    for doc in docs:
        if use_sentences and doc.has_annotation("SENT_START"):
            spans = list(doc.sents)
        else:
            spans = [doc[:]]
        segments.append([part for span in spans for part in _cut(span, window)])
    return segments


def _cut(span: Span, window: int) -> List[Span]:
    if len(span) <= window:
        return [span] if len(span) else []
    parts: List[Span] = []
    start, n_words = span.start, 0
    for token in span:
        if n_words == window and not token.is_space:
            parts.append(span.doc[start : token.i])
            start, n_words = token.i, 0
        n_words += not token.is_space
    parts.append(span.doc[start : span.end])
    return parts


def _validate_window(window: int) -> int:
    if window < 1:
        raise ValueError(f"The 'window' of the segments is {window}; expected 1 or more.")
    return window
