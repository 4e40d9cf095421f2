"""What a user reads back of each format, with the format's own library."""

import zipfile

import h5py
import numpy
import pyarrow.parquet as pq
from safetensors import safe_open

#: A file name of each format.
NAMES = ["out.hdf5", "out.npz", "out.safetensors", "out.parquet"]

#: Slashes, dots, equal lines, blank lines, bytes beyond ASCII, and a long line.
LINES = [
    "a / b",
    "a / b",
    "",
    "x . y",
    "Über den Fluß .",
    ".",
    "/",
    "..",
    " \t",
    "the bank of the river " * 9,
    *(f"line {number} of the text" for number in range(40)),
    "a",
    "",
]

SENTENCES = [line.split() for line in LINES]


def read_arrays(path):
    """The arrays by number; for Parquet without those of sentences that have no token."""
    if path.suffix == ".hdf5":
        with h5py.File(path, "r") as file:
            return {int(key): file[key][()] for key in file if key != "sentence_to_index"}
    if path.suffix == ".npz":
        assert zipfile.ZipFile(path).testzip() is None
        with numpy.load(path, allow_pickle=False) as file:
            return {int(key): file[key] for key in file.files}
    if path.suffix == ".safetensors":
        with safe_open(path, framework="numpy") as file:
            return {int(key): file.get_tensor(key) for key in file.keys()}
    table = pq.read_table(path)
    numbers = table["sentence"].to_numpy()
    found = {}
    for number in sorted(set(numbers.tolist())):
        rows = table.filter(numbers == number)
        assert rows["token"].to_pylist() == list(range(rows.num_rows))
        names = [name for name in rows.column_names if name[:5] in ("layer", "vecto")]
        layers = [numpy.stack(rows[name].to_numpy()) for name in names]
        found[number] = layers[0] if names == ["vector"] else numpy.stack(layers)
    return found
