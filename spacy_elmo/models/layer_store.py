"""A bounded store of a frozen biLM's layers: computed in the first epoch, read in all others.

Layers of a segment are written once, one behind the other, into chunks of memory or of a
memory-mapped file, and are read in place. What is in stays in: an epoch reads every segment once,
so a store that made room for the newest would drop each one just before it is wanted again, and
never be hit, while one that keeps the first saves the share that fits.
"""

import mmap
import os
import tempfile
import warnings
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Callable, Dict, Literal, Optional, Protocol, Set, Tuple, Union

import numpy
from numpy.typing import NDArray

DTypeT = Literal["float32", "float16"]
DTYPES: Tuple[DTypeT, ...] = ("float32", "float16")

#: Memory and files grow by chunks of this size.
CHUNK_BYTES = 1 << 23

#: What an entry takes beside its layers: key, array object and place in the dict.
ENTRY_BYTES = 384

#: Keys of text that was predicted once. More than these are forgotten.
MAX_PREDICTED = 1 << 16


class Space(Protocol):
    """Where chunks come from.

    name (str): What it is called in messages.
    granularity (int): Sizes of chunks are multiples of it.
    """

    name: str
    granularity: int

    def allocate(self, n_bytes: int) -> NDArray[numpy.uint8]:
        """RAISES (OSError): There is no room."""
        ...


class Memory:
    """Chunks of the process's own memory."""

    name = "memory"
    granularity = 1

    def allocate(self, n_bytes: int) -> NDArray[numpy.uint8]:
        return numpy.empty(n_bytes, dtype=numpy.uint8)


class TemporaryFile:
    """Chunks of a file that belongs to this process alone and goes with it: on POSIX it has no
    name, so nothing is left even by a killed process, and no other process can write to it.

    folder (Path): Where the file lies, made if it is not there.
    RAISES (ValueError): No file can be made there.
    """

    granularity = mmap.ALLOCATIONGRANULARITY

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
        except OSError as error:
            raise ValueError(
                f"The layer store's folder {folder} cannot be used: {error}. Set folder in "
                "[components.elmo.model.layer_store] to a folder that can be written to."
            ) from error
        self._size = 0

    def allocate(self, n_bytes: int) -> NDArray[numpy.uint8]:
        # A page of a mapped file that the disk has no room for kills the process when it is
        # written to. Bytes that were written in the ordinary way have their room.
        zeros = memoryview(bytes(1 << 20))
        self._file.seek(self._size)
        left = n_bytes
        try:
            while left:
                left -= self._file.write(zeros[:left])
        except OSError:
            self._file.truncate(self._size)
            raise
        chunk = mmap.mmap(self._file.fileno(), n_bytes, offset=self._size)
        self._size += n_bytes
        return numpy.frombuffer(chunk, dtype=numpy.uint8)


class LayerStore:
    """Layers of segments by key. It is closed, holds nothing and takes nothing until a training
    pass opens it. It belongs to the process that opened it, and is never saved or sent anywhere:
    a copy or an unpickled one is closed.

    make_space (Callable[[], Space]): Opens what the chunks come from.
    max_bytes (int): Bound on all that is kept, with keys and bookkeeping.
    dtype (str): What layers are kept in, "float32" or "float16".
    RAISES (ValueError): A value is out of its range.
    """

    def __init__(
        self, make_space: Callable[[], Space], max_bytes: int, dtype: DTypeT = "float32"
    ) -> None:
        if max_bytes < 1:
            raise ValueError(
                f"[components.elmo.model.layer_store] max_bytes is {max_bytes}; expected 1 or "
                "more. layer_store = null keeps no layers."
            )
        if dtype not in DTYPES:
            raise ValueError(
                f"[components.elmo.model.layer_store] dtype is {dtype!r}; expected one of "
                f"{', '.join(DTYPES)}."
            )
        self.make_space = make_space
        self.max_bytes = max_bytes
        self.dtype: DTypeT = dtype
        self._lock = Lock()
        self._process: Optional[int] = None
        self._origin: Any = None
        self._clear()

    def __reduce__(self) -> Tuple[Any, ...]:
        # Also what copies are made by. Neither files nor layers go along.
        return LayerStore, (self.make_space, self.max_bytes, self.dtype)

    def _clear(self) -> None:
        # Arrays that were handed out keep their chunks alive.
        self._space: Optional[Space] = None
        self._entries: Dict[bytes, NDArray] = {}
        self._predicted: Set[bytes] = set()
        self._chunk: NDArray[numpy.uint8] = numpy.empty(0, dtype=numpy.uint8)
        self._chunk_used = 0
        self._chunk_bytes = 0
        self._is_annotated = False
        self._warned = False
        self._broken = False

    def __len__(self) -> int:
        return len(self._entries) if self.is_open else 0

    @property
    def n_bytes(self) -> int:
        """What the store takes, with keys and bookkeeping."""
        return self._chunk_bytes + ENTRY_BYTES * (len(self._entries) + len(self._predicted))

    @property
    def is_open(self) -> bool:
        """Is it in use? After a fork, the child's copy is not."""
        return self._process is not None and self._process == os.getpid()

    def begin_training_pass(self, is_annotated: bool = False) -> None:
        """Open the store, if it is closed.

        is_annotated (bool): The layers were predicted before, by an annotating component.
        RAISES (ValueError): There is no place for its file.
        """
        if not self.is_open:
            # The lock of a forked process may be held by a thread that is not there.
            self._lock = Lock()
            self._clear()
            self._space = self.make_space()
            self._process = os.getpid()
        self._is_annotated = is_annotated

    def close(self) -> None:
        """Give back memory and file; the next training pass starts anew."""
        self._process, self._origin = None, None
        self._clear()

    def expect(self, origin: Any) -> None:
        """Empty the store unless its layers have this origin.

        origin (Any): All that layers depend on beside the words; compared by equality.
        """
        if origin == self._origin:
            return
        if self._entries:
            with self._lock:
                is_annotated = self._is_annotated
                self._clear()
                self._space, self._is_annotated = self.make_space(), is_annotated
        self._origin = origin

    def begin_prediction(self) -> bool:
        """RETURNS (bool): The prediction is for training: the first one since a training pass on
        what an annotating component predicted."""
        is_annotated, self._is_annotated = self._is_annotated, False
        return is_annotated

    def get(self, key: bytes) -> Optional[NDArray]:
        """Layers as they are kept, in the store's dtype, not to be written to."""
        return self._entries.get(key)

    def add(self, key: bytes, layers: NDArray[numpy.float32], is_training: bool) -> None:
        """Keep layers, if there is room. What training passes over is kept at once. Text that is
        only predicted is kept when it comes for the second time, as that of evaluations does, so
        that reading new text without end does not fill the store.

        key (bytes): What :func:`key_of` gives.
        layers (numpy.ndarray): (n_layers + 1, n_tokens, width)
        is_training (bool): The layers are for training.
        """
        with self._lock:
            if self._broken or key in self._entries:
                return
            if not is_training and key not in self._predicted:
                if len(self._predicted) >= min(MAX_PREDICTED, self.max_bytes // ENTRY_BYTES // 16):
                    self._predicted.clear()
                if self.n_bytes + ENTRY_BYTES <= self.max_bytes:
                    self._predicted.add(key)
                return
            self._predicted.discard(key)
            # A value beyond float16 becomes infinite, so that it is left out.
            with numpy.errstate(over="ignore"):
                kept = layers.astype(self.dtype, copy=False)
            if self.dtype == "float16" and not numpy.isfinite(kept).all():
                return
            place = self._place(kept.nbytes)
            if place is None:
                return
            entry = place.view(self.dtype).reshape(kept.shape)
            entry[:] = kept
            entry.flags.writeable = False
            self._entries[key] = entry

    def _place(self, n_bytes: int) -> Optional[NDArray[numpy.uint8]]:
        room = self.max_bytes - self.n_bytes - ENTRY_BYTES
        if self._chunk_used + n_bytes > len(self._chunk):
            assert self._space is not None
            unit = self._space.granularity
            size = -(-max(n_bytes, CHUNK_BYTES) // unit) * unit
            # Further segments of this size need room for their keys as well.
            size = min(size, room * n_bytes // (n_bytes + ENTRY_BYTES) // unit * unit)
            if size < n_bytes:
                self._warn_once(f"has reached its limit, max_bytes = {self.max_bytes:,}")
                return None
            try:
                self._chunk = self._space.allocate(size)
            except (OSError, MemoryError) as error:
                self._broken = True
                self._warn_once(f"cannot grow in {self._space.name} ({error})")
                return None
            self._chunk_used = 0
            self._chunk_bytes += size
        elif room < 0:
            self._warn_once(f"has reached its limit, max_bytes = {self.max_bytes:,}")
            return None
        place = self._chunk[self._chunk_used : self._chunk_used + n_bytes]
        self._chunk_used += n_bytes
        return place

    def _warn_once(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"The layer store {what}. It holds the layers of {len(self._entries):,} segments "
                f"({self.n_bytes / 1e6:,.1f} MB); those of others are computed in every epoch. To "
                "hold more, see [components.elmo.model.layer_store]: a larger max_bytes, dtype = "
                '"float16", or @misc = "spacy-elmo.DiskStore.v1" with a folder that has room.',
                UserWarning,
                stacklevel=2,
            )


def key_of(words: NDArray[numpy.uint64], is_training: bool) -> bytes:
    """The key of a segment, the same in every Doc and process.

    words (numpy.ndarray): spaCy's 64-bit hashes of the words.
    is_training (bool): The layers are for training. Layers differ by rounding with what else the
        biLM read at the time, and a pipeline is to predict the same after it was loaded as before
        it was saved. So predictions do not read what training kept.
    RETURNS (bytes): A digest of 128 bits, which never collides in practice.
    """
    purpose = b"training" if is_training else b"prediction"
    return blake2b(words.tobytes(), digest_size=16, person=purpose).digest()


def build_memory_store_v1(*, max_bytes: int = 1 << 30, dtype: DTypeT = "float32") -> LayerStore:
    """Registered as ``spacy-elmo.MemoryStore.v1``: keeps the layers of a frozen biLM in memory
    while components train on them.

    max_bytes (int): Bound on all that is kept. A token takes 4 x (n_layers + 1) x width bytes.
    dtype (str): "float32", or "float16" to take half the room: what is read back is then rounded
        to 11 bits.
    RETURNS (LayerStore): The store, closed until training begins.
    RAISES (ValueError): A value is out of its range.
    """
    return LayerStore(Memory, max_bytes, dtype)


def build_disk_store_v1(
    *, folder: Union[str, Path], max_bytes: int = 1 << 34, dtype: DTypeT = "float32"
) -> LayerStore:
    """Registered as ``spacy-elmo.DiskStore.v1``: keeps the layers of a frozen biLM in a temporary
    memory-mapped file while components train on them, for corpora that memory cannot hold.

    folder (Union[str, Path]): Where the file lies, such as the output folder; on a real disk (many
        systems keep /tmp in memory). Each process has a file of its own, which has no name and
        goes with the process.
    max_bytes (int): Bound on all that is kept. A token takes 4 x (n_layers + 1) x width bytes.
    dtype (str): "float32", or "float16" to take half the room: what is read back is then rounded
        to 11 bits.
    RETURNS (LayerStore): The store, closed until training begins.
    RAISES (ValueError): A value is out of its range.
    """
    if not str(folder):
        raise ValueError(
            "[components.elmo.model.layer_store] folder is ''; expected the path of a folder."
        )
    return LayerStore(partial(TemporaryFile, Path(folder).expanduser()), max_bytes, dtype)
