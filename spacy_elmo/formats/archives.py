"""Archives of weights (``.zip``, ``.tar``, ``.tar.gz``), unpacked with care into a directory that
is gone afterwards."""

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import IO, Any, Callable, Collection, Iterator, List, NamedTuple

from .checks import listed

# The largest published biLM has less than 400 MB of weights; bytes.
MAX_UNPACKED = 4 << 30

# What a tar archive may say of one entry beyond its header, such as a long name; bytes. It is read
# into memory whole.
MAX_TAR_RECORD = 1 << 20
_TAR_RECORDS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

_ZIP_MAGIC = b"PK"
_COMPRESSED_MAGICS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_COPY_SIZE = 1 << 20

_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    # An encrypted member of a zip file.
    RuntimeError,
)


class Member(NamedTuple):
    """A file of an archive: its path, whether it is a link or another special file, its size in
    bytes, and a function that opens it."""

    path: PurePosixPath
    is_special: bool
    size: int
    open: Callable[[], IO[bytes]]


def is_archive(path: Path) -> bool:
    """Is a file an archive, by its first bytes?"""
    with path.open("rb") as file:
        start = file.read(_TAR_MAGIC_AT + len(_TAR_MAGIC))
    is_tar = start[_TAR_MAGIC_AT:] == _TAR_MAGIC
    return is_tar or start.startswith((_ZIP_MAGIC, *_COMPRESSED_MAGICS))


@contextmanager
def unpacked(path: Path, patterns: Collection[str]) -> Iterator[Path]:
    """A temporary directory with the files of an archive whose names match, without the folder
    that may enclose all of them.

    :param path: an archive, of which only regular files are taken.
    :param patterns: names of files, with ``*`` for any text.
    :raises ValueError: the archive is damaged or encrypted, has none of the files, a path that
        leads out of it, or a link among the files to take, or would take more than
        :data:`MAX_UNPACKED` bytes.
    """
    with TemporaryDirectory(prefix="spacy-elmo-") as temporary:
        root = Path(temporary)
        try:
            with _open_members(path) as members:
                for member in _choose(path, members, patterns):
                    _copy(member, root)
        except _DAMAGED as error:
            raise ValueError(
                f"{path} is no complete, unencrypted zip or tar archive ({error})."
            ) from error
        children = list(root.iterdir())
        while len(children) == 1 and children[0].is_dir():
            root = children[0]
            children = list(root.iterdir())
        yield root


@contextmanager
def _open_members(path: Path) -> Iterator[List[Member]]:
    with path.open("rb") as file:
        is_zip = file.read(2) == _ZIP_MAGIC
    if is_zip:
        with zipfile.ZipFile(path) as archive:
            yield [_zip_member(archive, info) for info in archive.infolist() if not info.is_dir()]
    else:
        with tarfile.open(path, tarinfo=_BoundedTarInfo) as archive:
            yield [_tar_member(archive, info) for info in archive if not info.isdir()]


class _BoundedTarInfo(tarfile.TarInfo):
    """Stops where a record would take more than :data:`MAX_TAR_RECORD` bytes of memory."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> "_BoundedTarInfo":
        info = super().frombuf(buf, encoding, errors)
        if info.type in _TAR_RECORDS and info.size > MAX_TAR_RECORD:
            raise tarfile.ReadError(
                f"a record on an entry has {info.size} bytes; expected {MAX_TAR_RECORD} at most"
            )
        return info


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    # The upper half is the Unix mode, or 0 from systems without one.
    kind = stat.S_IFMT(info.external_attr >> 16)
    is_special = kind not in (0, stat.S_IFREG)
    return Member(
        PurePosixPath(info.filename), is_special, info.file_size, lambda: archive.open(info)
    )


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    def open_member() -> IO[bytes]:
        file = archive.extractfile(info)
        assert file is not None
        return file

    return Member(PurePosixPath(info.name), not info.isreg(), info.size, open_member)


def _choose(path: Path, members: List[Member], patterns: Collection[str]) -> List[Member]:
    chosen: List[Member] = []
    for member in members:
        name = str(member.path)
        # A backslash or a drive means a path of its own on Windows.
        windows = PureWindowsPath(name)
        if "\0" in name:
            raise ValueError(
                f"{path}: the name of the archive's entry {name!r} has a null character. Do not "
                "trust this file."
            )
        if member.path.is_absolute() or windows.anchor or ".." in windows.parts:
            raise ValueError(
                f"{path}: the archive's entry {name!r} leads out of the archive; expected paths "
                "below its top. Do not trust this file."
            )
        # macOS adds "._x" for every file x.
        is_wanted = any(fnmatch(member.path.name, pattern) for pattern in patterns)
        if not is_wanted or member.path.name.startswith("._"):
            continue
        if member.is_special:
            raise ValueError(
                f"{path}: the archive's entry {name!r} is a link or a special file; expected a "
                "regular file."
            )
        chosen.append(member)
    if not chosen:
        names = listed(str(member.path) for member in members) or "nothing"
        raise ValueError(
            f"{path}: the archive has no file named {', '.join(sorted(patterns))}; "
            f"it holds: {names}."
        )
    size = sum(member.size for member in chosen)
    if size > MAX_UNPACKED:
        raise ValueError(
            f"{path}: its weights take {size} bytes unpacked; expected {MAX_UNPACKED} at most. "
            "If you trust the file, unpack it yourself and give the directory."
        )
    return chosen


def _copy(member: Member, root: Path) -> None:
    target = root / member.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as source, target.open("wb") as file:
        shutil.copyfileobj(source, file, _COPY_SIZE)
