"""Files that are written whole or not at all."""

import errno
import os
import sys
from pathlib import Path

import pytest

from spacy_elmo.training.files import open_atomic, write_file


def write_open(path, data):
    with open_atomic(path) as file:
        file.write(data)


@pytest.fixture(params=[write_file, write_open])
def write(request):
    return request.param


def test_the_target_of_a_link_is_written(tmp_path, write):
    (tmp_path / "link").symlink_to(tmp_path / "there" / "target")
    for data in (b"old", b"new"):
        write(tmp_path / "link", data)
        assert (tmp_path / "there" / "target").read_bytes() == data
    assert (tmp_path / "link").is_symlink() and len(list(tmp_path.rglob("*"))) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with a path")
def test_what_is_no_file_stays(tmp_path, write):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.rglob("*"))
    messages = {
        "directory": "is a directory; expected the path of a file",
        "pipe": "is a pipe or a device; expected the path of a file",
        "loop": "is a symbolic link that leads back to itself",
    }
    for name, message in messages.items():
        with pytest.raises(ValueError, match=f"{name} {message}"):
            write(tmp_path / name, b"data")
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "loop").is_symlink()


def test_an_error_names_the_path_that_was_given(tmp_path, monkeypatch, write):
    def fail(path, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(PermissionError) as caught:
        write(tmp_path / "out", b"data")
    assert str(caught.value).endswith(f"Permission denied: {str(tmp_path / 'out')!r}")
