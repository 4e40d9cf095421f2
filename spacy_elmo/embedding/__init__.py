"""Corpora to files of vectors."""

from .corpus import EmbeddedCorpus, embed_corpus
from .layers import Layers

__all__ = ["EmbeddedCorpus", "Layers", "embed_corpus"]
