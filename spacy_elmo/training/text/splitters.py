"""What splits text into sentences: functions that add a component to a blank pipeline."""

from dataclasses import dataclass
from typing import Callable, List, Optional

from spacy.language import Language
from spacy.tokens import Doc

#: Adds what sets the sentences of a Doc to a pipeline that has nothing but a tokenizer.
Splitter = Callable[[Language], None]

LINES = "elmo_lines"


@dataclass(frozen=True)
class Sentencizer:
    """Adds spaCy's ``sentencizer``.

    punct_chars (Optional[List[str]]): What ends a sentence, spaCy's own choice if None.
    """

    punct_chars: Optional[List[str]] = None

    def __call__(self, nlp: Language) -> None:
        nlp.add_pipe("sentencizer", config={"punct_chars": self.punct_chars})


@dataclass(frozen=True)
class Lines:
    """Adds a component for which each line is a sentence."""

    def __call__(self, nlp: Language) -> None:
        nlp.add_pipe(LINES)


@Language.component(LINES, assigns=["token.is_sent_start"])
def split_lines(doc: Doc) -> Doc:
    """Start a sentence after each whitespace token that has a line break in it."""
    is_start = True
    for token in doc:
        token.is_sent_start = is_start
        is_start = token.is_space and "\n" in token.text
    return doc


def build_sentencizer_v1(*, punct_chars: Optional[List[str]] = None) -> Splitter:
    """Construct a splitter that ends sentences at punctuation, without a model.

    punct_chars (Optional[List[str]]): Characters that end a sentence; None for those of spaCy's
        sentencizer, which know many scripts.
    RETURNS (Splitter): The splitter.
    """
    return Sentencizer(punct_chars)


def build_lines_v1() -> Splitter:
    """Construct a splitter for text that has one sentence a line, yet to be tokenized.

    RETURNS (Splitter): The splitter.
    """
    return Lines()
