"""The ``elmo`` component."""

from .elmo import Elmo

__all__ = ["Elmo"]
