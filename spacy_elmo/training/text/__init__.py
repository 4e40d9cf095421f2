"""Text files to streams of distinct words: read, tokenized once, kept as memory-mapped shards."""

from .corpus import TextCorpus
from .stream import WordStream

__all__ = ["TextCorpus", "WordStream"]
