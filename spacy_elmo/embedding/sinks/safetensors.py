"""safetensors: a tensor a sentence under its number as text."""

import json
from pathlib import Path
from typing import BinaryIO, Optional

from safetensors import safe_open

from ..blocks import Block
from .sink import SETTINGS_KEY, Contents, SequentialSink, State

# What readers of the format take at most.
MAX_HEADER_BYTES = 100_000_000

DTYPES = {"float32": "F32", "float16": "F16"}


class SafetensorsSink(SequentialSink):
    """See the module. The header comes first, as all sizes are known."""

    suffixes = (".safetensors",)

    def __init__(
        self,
        contents: Contents,
        directory: Path,
        state: Optional[State] = None,
        stream: Optional[BinaryIO] = None,
    ) -> None:
        header = _make_header(contents) if state is None else b""
        super().__init__(contents, directory, state, stream)
        self.append(header)

    def write(self, block: Block) -> None:
        for array in block.arrays:
            self.append(array.astype(array.dtype.newbyteorder("<")).tobytes())

    @staticmethod
    def stored_settings(path: Path) -> Optional[str]:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get(SETTINGS_KEY)


def _make_header(contents: Contents) -> bytes:
    parts = ['{"__metadata__":' + json.dumps({SETTINGS_KEY: contents.settings})]
    size = len(parts[0])
    begin = 0
    for number, sentence in enumerate(contents.spool):
        end = begin + contents.n_bytes(len(sentence.words))
        entry = {
            "dtype": DTYPES[contents.dtype.name],
            "shape": contents.shape(len(sentence.words)),
            "data_offsets": [begin, end],
        }
        parts.append(f'"{number}":{json.dumps(entry, separators=(",", ":"))}')
        size += len(parts[-1]) + 1
        if size > MAX_HEADER_BYTES - 16:
            raise ValueError(
                f"A safetensors file has no place for more than {number:,} such sentences, as its "
                f"header is limited to {MAX_HEADER_BYTES:,} bytes; the input has "
                f"{contents.spool.n_sentences:,}. Write .hdf5, .npz or .parquet, or cut the input."
            )
        begin = end
    text = ",".join(parts).encode("ascii") + b"}"
    # Padded, so that the values are aligned.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
