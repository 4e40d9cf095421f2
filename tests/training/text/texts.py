"""Text files to read."""

import gzip
import lzma

TEXT = """The bank is old. It lies by the river.
I deposited it.

A second document: fünf Boote.
"""
SENTENCES = [
    ["The", "bank", "is", "old", "."],
    ["It", "lies", "by", "the", "river", "."],
    ["I", "deposited", "it", "."],
    ["A", "second", "document", ":", "fünf", "Boote", "."],
]


def zstd_compress(data):
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd_compress}


def write(path, data):
    """Write text or bytes, compressed as the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = data if isinstance(data, bytes) else data.encode("utf-8")
    path.write_bytes(COMPRESSORS.get(path.suffix, bytes)(data))
    return path
