"""Parquet: a row a token, with the numbers of its sentence and of itself in it.

The end of a Parquet file tells where everything is, so one that was stopped is worth nothing.
Therefore each block is a small file of its own, and they are joined in the end.
"""

import io
from pathlib import Path
from typing import Any, BinaryIO, Dict, List, Optional

import numpy

from ..blocks import Block
from .sink import OUTPUT_FILE, SETTINGS_KEY, Contents, Sink, State, sync


class ParquetSink(Sink):
    """See the module."""

    suffixes = (".parquet",)
    package = ("pyarrow", "parquet")
    can_stream = True

    def __init__(
        self,
        contents: Contents,
        directory: Path,
        state: Optional[State] = None,
        stream: Optional[BinaryIO] = None,
    ) -> None:
        self.contents = contents
        self.directory = directory
        self._n_parts = state["n_parts"] if state else 0
        self._schema = _make_schema(contents)
        self._output = _Output(stream) if stream is not None else None
        self._stream = self._open(self._output) if self._output is not None else None

    def write(self, block: Block) -> None:
        table = self._make_table(block)
        if self._stream is not None:
            self._stream.write_table(table, row_group_size=max(table.num_rows, 1))
            return
        with self._part(self._n_parts).open("wb") as file:
            with self._open(file) as writer:
                writer.write_table(table, row_group_size=max(table.num_rows, 1))
            sync(file)
        self._n_parts += 1

    def flush(self) -> State:
        return {"n_parts": self._n_parts}

    def finish(self) -> Path:
        import pyarrow.parquet as pq

        path = self.directory / OUTPUT_FILE
        if self._stream is not None:
            self._stream.close()
            return path
        with path.open("wb") as file:
            with self._open(file) as writer:
                for number in range(self._n_parts):
                    table = pq.read_table(self._part(number), partitioning=None)
                    writer.write_table(table, row_group_size=max(table.num_rows, 1))
            sync(file)
        return path

    def close(self) -> None:
        if self._output is not None:
            self._output.is_open = False

    @staticmethod
    def stored_settings(path: Path) -> Optional[str]:
        import pyarrow.parquet as pq

        metadata = pq.read_schema(path).metadata or {}
        return metadata[SETTINGS_KEY.encode("ascii")].decode("utf-8")

    def _part(self, number: int) -> Path:
        return self.directory / f"part-{number:07}"

    def _open(self, file: Any) -> Any:
        import pyarrow.parquet as pq

        plain = [name for name in self._schema.names if name in ("sentence", "token", "text")]
        vectors = [f"{name}.list.element" for name in self._schema.names if name not in plain]
        # Vectors hardly get smaller by compression, and no two of their values are equal.
        return pq.ParquetWriter(
            file,
            self._schema,
            compression={**dict.fromkeys(plain, "zstd"), **dict.fromkeys(vectors, "none")},
            use_dictionary=plain,
            write_statistics=plain,
        )

    def _make_table(self, block: Block) -> Any:
        import pyarrow as pa

        lengths = [len(sentence.words) for sentence in block.sentences]
        numbers = numpy.arange(block.first, block.first + len(lengths))
        columns: Dict[str, Any] = {
            "sentence": pa.array(numpy.repeat(numbers, lengths)),
            "token": pa.array(
                numpy.concatenate([numpy.arange(n, dtype=numpy.int32) for n in lengths])
            ),
        }
        if self.contents.keep_sentences:
            words = [word for sentence in block.sentences for word in sentence.words]
            columns["text"] = pa.array(words, pa.string())
        names = [name for name in self._schema.names if name not in columns]
        rows = numpy.concatenate(block.arrays, axis=-2)
        for name, values in zip(names, [rows] if self.contents.n_layers is None else rows):
            flat = pa.array(numpy.ascontiguousarray(values).reshape(-1))
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, self.contents.width)
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)


class _Output(io.RawIOBase):
    """A stream that can be left: pyarrow would write the end of a file that is not complete."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_open = True

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.is_open:
            self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        if self.is_open:
            self._stream.flush()


def _make_schema(contents: Contents) -> Any:
    import pyarrow as pa

    n_layers = contents.n_layers
    names = ["vector"] if n_layers is None else [f"layer_{number}" for number in range(n_layers)]
    vector = pa.list_(pa.from_numpy_dtype(contents.dtype), contents.width)
    fields: List[Any] = [pa.field("sentence", pa.int64()), pa.field("token", pa.int32())]
    if contents.keep_sentences:
        fields.append(pa.field("text", pa.string()))
    fields += [pa.field(name, vector) for name in names]
    return pa.schema(fields, metadata={SETTINGS_KEY: contents.settings})
