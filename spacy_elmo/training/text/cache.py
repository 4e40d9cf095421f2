"""The directory in which tokenized text is kept for later runs."""

import errno
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, Callable, Union

from ..files import open_atomic
from .shards import VERSION, Shard, ShardWriter, open_shard

# What a killed run left half written is removed after this time; seconds.
MAX_AGE = 24 * 3600

_PIECE_BYTES = 1 << 20

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def default_directory() -> Path:
    """``$SPACY_ELMO_CACHE``, else ``spacy-elmo`` in the user's directory for caches."""
    directory = os.environ.get("SPACY_ELMO_CACHE")
    if directory:
        return Path(directory).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "spacy-elmo"


class ShardCache:
    """Shards by their keys. Any number of processes may use a directory at the same time.

    :param directory: made once it is needed.
    """

    def __init__(self, directory: Union[str, Path]) -> None:
        self.directory = Path(directory).expanduser()

    def get(self, key: str, fill: Callable[[ShardWriter], None], *, verify: bool = True) -> Shard:
        """The shard of a key; where it is missing or damaged, it is made.

        :param key: stands for the content.
        :param fill: writes the content. If it raises an error, nothing is kept.
        :param verify: whether to read a shard through to see if it is damaged, and not only
            compare its size.
        :raises OSError: the directory cannot be written to.
        """
        path = self.directory / f"{key}.shard"
        shard = open_shard(path, verify=verify)
        if shard is None:
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
                self._remove_leftovers()
                with open_atomic(path) as file:
                    writer = ShardWriter(file)
                    fill(writer)
                    writer.finish()
            except OSError as error:
                self._explain(error)
                raise
            shard = open_shard(path, verify=False)
            if shard is None:
                raise OSError(f"{path} was removed or changed while it was made; run again.")
        return shard

    def _explain(self, error: OSError) -> None:
        """Raise an error that names the setting, unless it was a text that could not be read."""
        names = [error.filename, error.filename2]
        is_here = any(name and Path(name).is_relative_to(self.directory) for name in names)
        if is_here or error.errno in _DISK_FULL or not self.directory.is_dir():
            raise OSError(
                f"cache is {str(self.directory)!r}, where tokenized text cannot be kept: {error}. "
                'Set cache to another directory, or to "" to keep the text in memory.'
            ) from error

    def _remove_leftovers(self) -> None:
        for path in self.directory.glob(".*.shard.*.tmp"):
            try:
                if time.time() - path.stat().st_mtime > MAX_AGE:
                    path.unlink()
            except FileNotFoundError:
                # Another process was faster.
                pass


def make_key(*parts: Any) -> str:
    """A key of JSON-serializable values, which changes with the format of shards, too."""
    return hash_bytes(json.dumps([VERSION, *parts], sort_keys=True).encode("ascii"))


def hash_bytes(data: bytes) -> str:
    """A hash of bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def hash_file(path: Path) -> str:
    """A hash of a file's bytes."""
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()
