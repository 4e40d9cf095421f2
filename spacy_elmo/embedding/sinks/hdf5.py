"""HDF5 in the layout of ``allennlp elmo``: a dataset a sentence under its number as text, and the
JSON text ``sentence_to_index``.

The library makes all datasets first, each with its place in the file; then values are written to
these places as bytes. So the structure of the file is complete, whenever the process is killed.
"""

import json
from pathlib import Path
from typing import Any, BinaryIO, Dict, Optional

import numpy

from ..blocks import Block
from .sink import OUTPUT_FILE, SETTINGS_KEY, Contents, Sink, State, open_at, sync

SENTENCES = "sentence_to_index"

# A value of variable length is counted with 32 bits.
MAX_SENTENCES_BYTES = 2**32 - 1


class HDF5Sink(Sink):
    """See the module."""

    suffixes = (".hdf5", ".h5")
    package = ("h5py", "hdf5")
    can_stream = False

    def __init__(
        self,
        contents: Contents,
        directory: Path,
        state: Optional[State] = None,
        stream: Optional[BinaryIO] = None,
    ) -> None:
        self.path = directory / OUTPUT_FILE
        places = directory / "places"
        if state is None:
            with places.open("wb") as file:
                _make_datasets(contents, self.path, file)
        self._places = places.open("rb")
        self._file = open_at(self.path, state["size"] if state else self.path.stat().st_size)

    def write(self, block: Block) -> None:
        self._places.seek(8 * block.first)
        places = numpy.frombuffer(self._places.read(8 * len(block.arrays)), dtype="<i8")
        for place, array in zip(places.tolist(), block.arrays):
            if array.size:
                self._file.seek(place)
                self._file.write(array.astype(array.dtype.newbyteorder("<")).tobytes())

    def flush(self) -> State:
        sync(self._file)
        return {"size": self.path.stat().st_size}

    def finish(self) -> Path:
        sync(self._file)
        return self.path

    def close(self) -> None:
        self._file.close()
        self._places.close()

    @staticmethod
    def stored_settings(path: Path) -> Optional[str]:
        import h5py

        with h5py.File(path, "r") as file:
            return file.attrs.get(SETTINGS_KEY)


def _make_datasets(contents: Contents, path: Path, places: BinaryIO) -> None:
    """Make the file with all its datasets, and tell the place of each, 8 bytes a dataset."""
    import h5py

    sentences: Dict[str, str] = {}
    with h5py.File(path, "w") as file:
        file.attrs[SETTINGS_KEY] = contents.settings
        for number, sentence in enumerate(contents.spool):
            shape = contents.shape(len(sentence.words))
            place = _make_dataset(file, str(number), shape, contents.dtype)
            places.write(place.to_bytes(8, "little", signed=True))
            if contents.keep_sentences:
                # Of equal sentences the last one stays, as AllenNLP has it.
                sentences[sentence.text] = str(number)
        if contents.keep_sentences:
            text = json.dumps(sentences)
            if len(text) > MAX_SENTENCES_BYTES:
                raise ValueError(
                    f"The sentences take {len(text):,} bytes; {SENTENCES!r} in an HDF5 file can "
                    f"have {MAX_SENTENCES_BYTES:,}. Leave them out (--forget-sentences)."
                )
            dataset = file.create_dataset(SENTENCES, (1,), dtype=h5py.string_dtype())
            dataset[0] = text


def _make_dataset(file: Any, name: str, shape: Any, dtype: "numpy.dtype[Any]") -> int:
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    # The place is given now, and the values that stand there are never written by the library.
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    # Equal contents give equal files, whenever they are written.
    properties.set_obj_track_times(False)
    dataset = h5py.h5d.create(
        file.id,
        name.encode("ascii"),
        h5py.h5t.py_create(dtype.newbyteorder("<")),
        h5py.h5s.create_simple(shape),
        dcpl=properties,
    )
    place: Optional[int] = dataset.get_offset()
    # A dataset without values has no place.
    return -1 if place is None else place
