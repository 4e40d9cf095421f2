"""The ``elmo`` component."""

from .elmo import Elmo
from .hooks import set_vector_hooks

__all__ = ["Elmo", "set_vector_hooks"]
