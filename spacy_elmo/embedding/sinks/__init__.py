"""Output formats of embedded corpora, one a file."""

from typing import Dict, Type

from .hdf5 import HDF5Sink
from .npz import NpzSink
from .parquet import ParquetSink
from .safetensors import SafetensorsSink
from .sink import Contents, Sink, State

#: The formats by name.
SINKS: Dict[str, Type[Sink]] = {
    "hdf5": HDF5Sink,
    "npz": NpzSink,
    "safetensors": SafetensorsSink,
    "parquet": ParquetSink,
}

__all__ = ["SINKS", "Contents", "Sink", "State"]
