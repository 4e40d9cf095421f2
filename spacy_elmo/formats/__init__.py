"""Published weights to and from the biLM: one way to load them all, detected by content."""

from .conversion import convert
from .description import describe, describe_bilm
from .format import Format
from .loading import formats, load, save, write
from .native import from_bytes, to_bytes

__all__ = [
    "Format",
    "convert",
    "describe",
    "describe_bilm",
    "formats",
    "from_bytes",
    "load",
    "save",
    "to_bytes",
    "write",
]
