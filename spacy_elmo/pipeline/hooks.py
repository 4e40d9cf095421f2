"""Vectors and similarity by context, where spaCy would look at the vocabulary instead.

``Token.vector`` and its like give the rows of a static vector table where one is loaded, and
``similarity`` calls equal texts 1.0 before it looks at any vector. spaCy's hooks put ``doc.tensor``
first in both. They are functions on the Doc object: they do not survive ``Doc.to_bytes``.
"""

from typing import Any, Union

from spacy.tokens import Doc, Span, Token
from thinc.api import get_array_module
from thinc.types import Floats1d


def set_vector_hooks(doc: Doc) -> Doc:
    """Have ``vector``, ``vector_norm``, ``has_vector`` and ``similarity`` of a Doc, its tokens and
    spans follow ``doc.tensor``. The ``elmo`` component does it with ``vector_hooks = true``; call
    it on Docs that were read back from bytes.

    doc (Doc): The Doc, with vectors of its tokens in ``doc.tensor``.
    RETURNS (Doc): The same Doc.
    """
    doc.user_token_hooks.update(
        vector=token_vector, vector_norm=vector_norm, has_vector=has_vector, similarity=similarity
    )
    # Span.vector_norm would give what a "vector" hook returns; without a hook of its own it is
    # computed from the vector.
    doc.user_span_hooks.update(vector=mean_vector, has_vector=has_vector, similarity=similarity)
    doc.user_hooks.update(
        vector=mean_vector, vector_norm=vector_norm, has_vector=has_vector, similarity=similarity
    )
    return doc


def token_vector(token: Token) -> Floats1d:
    return token.doc.tensor[token.i]


def mean_vector(tokens: Union[Doc, Span]) -> Floats1d:
    rows: Any = tokens.tensor
    if not len(rows):
        return get_array_module(rows).zeros((rows.shape[1],), dtype="f")
    return rows.mean(axis=0)


def vector_norm(text: Any) -> float:
    return float(_norm(text.vector))


def has_vector(text: Any) -> bool:
    return bool(text.tensor.size)


def similarity(left: Any, right: Any) -> float:
    """Cosine of two vectors, 0.0 where one is zero.

    RAISES (ValueError): The other text has vectors of another width, for instance static ones.
    """
    a, b = left.vector, right.vector
    if a.shape != b.shape:
        raise ValueError(
            f"similarity() compares a vector of width {a.shape[0]} with one of width "
            f"{b.shape[0]}: only one of them comes from the elmo component. Compare texts that "
            "the same pipeline has read."
        )
    norms = _norm(a) * _norm(b)
    return float((a * b).sum() / norms) if norms else 0.0


def _norm(vector: Floats1d) -> Any:
    return get_array_module(vector).linalg.norm(vector)
