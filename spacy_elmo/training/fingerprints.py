"""Fingerprints of texts: equal for equal content, wherever it was read."""

import hashlib
from typing import Iterable

from .text.stream import WordStream
from .vocabulary import Vocabulary

# 128 bits, as two texts are never the same by chance.
DIGEST_SIZE = 16


def fingerprint_stream(stream: WordStream) -> str:
    """The same for the same sentences in the same order."""
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for part in (stream.types, stream.lengths):
        digest.update(part.data)
    for word in stream.words:
        digest.update(_with_length(word))
    return digest.hexdigest()


def fingerprint_words(words: Iterable[str]) -> str:
    """The same for the same words in the same order."""
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for word in words:
        digest.update(_with_length(word))
    return digest.hexdigest()


def fingerprint_vocabulary(vocabulary: Vocabulary) -> str:
    """The same for the same words in the same order."""
    return hashlib.blake2b(vocabulary.to_bytes(), digest_size=DIGEST_SIZE).hexdigest()


def _with_length(word: str) -> bytes:
    # With its length before it, no word runs into the next.
    encoded = word.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(4, "little") + encoded
