"""A save that fails or is killed never leaves half of the old and half of the new."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from spacy_elmo.formats import load, save, write
from spacy_elmo.formats.atomic import write_together

from .test_native import assert_same

FORMATS = ["native", "bilm-tf"]
FILES = {
    "native": ["config.json", "model.safetensors"],
    "bilm-tf": ["options.json", "weights.hdf5"],
}
CHANGES = {
    "other sizes": {"cell_size": 21},
    "other clip": {"cell_clip": 1.0},
    "other weights": {},
}
# A replacement that fails: the format, the file, and what differs. Settings that stay the same
# are not replaced, so they cannot fail.
CASES = [
    (form, file, change)
    for form, files in FILES.items()
    for file in files
    for change in CHANGES
    if CHANGES[change] or not file.endswith(".json")
]


@pytest.fixture
def old(make_bilm):
    return make_bilm(seed=1)


@pytest.fixture(params=CHANGES)
def new(request, make_bilm):
    return make_bilm(seed=2, **CHANGES[request.param])


@pytest.mark.parametrize("form, failing, change", CASES)
def test_failed_replacement_leaves_the_old_bilm(
    tmp_path, monkeypatch, old, make_bilm, form, failing, change
):
    new = make_bilm(seed=2, **CHANGES[change])
    write(old, tmp_path, form)
    real, failed = os.replace, []

    def replace(source, target):
        if Path(target).name == failing and not failed:
            failed.append(target)
            raise OSError("no space left")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="no space left"):
        write(new, tmp_path, form)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES[form]
    assert_same(load(tmp_path), old)


@pytest.mark.parametrize("form", FORMATS)
def test_first_save_that_fails_leaves_nothing(tmp_path, monkeypatch, old, form):
    real, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError("no space left")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="no space left"):
        write(old, tmp_path, form)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMATS)
def test_failed_writing_leaves_the_old_bilm(tmp_path, monkeypatch, old, new, form):
    write(old, tmp_path, form)
    real, calls = os.fsync, []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError("no space left")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="no space left"):
        write(new, tmp_path, form)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES[form]
    assert_same(load(tmp_path), old)


@pytest.mark.parametrize("form", FORMATS)
def test_killed_at_any_point_there_is_no_mix(tmp_path, monkeypatch, old, new, form):
    folder = tmp_path / "model"
    write(old, folder, form)
    real, copies = os.replace, []

    def replace(source, target):
        copies.append(tmp_path / f"copy{len(copies)}")
        shutil.copytree(folder, copies[-1])
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        write(new, folder, form)
    assert_same(load(folder), new)
    assert copies
    for copy in copies:
        try:
            found = load(copy)
        except ValueError:
            continue
        bias = "forward_lstm.layers.0.bias"
        is_old = torch.equal(found.get_parameter(bias), old.get_parameter(bias))
        assert_same(found, old if is_old else new)


def test_files_that_do_not_change_are_left_alone(tmp_path, old, make_bilm):
    save(old, tmp_path)
    before = (tmp_path / "config.json").stat()
    save(make_bilm(seed=3), tmp_path)
    after = (tmp_path / "config.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_directory_is_made_and_other_files_stay(tmp_path, old):
    path = tmp_path / "a" / "b"
    save(old, path)
    (path / "notes.txt").write_text("mine")
    save(old, path)
    assert sorted(file.name for file in path.iterdir()) == [
        "config.json",
        "model.safetensors",
        "notes.txt",
    ]


def test_files_are_as_readable_as_any(tmp_path, old):
    (tmp_path / "plain").write_text("")
    save(old, tmp_path)
    for file in tmp_path.iterdir():
        assert file.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("form", FORMATS)
def test_path_of_a_file(tmp_path, old, form):
    (tmp_path / "model.zip").write_text("mine")
    with pytest.raises(ValueError, match=r"model.zip is a file; expected the path of a directory"):
        write(old, tmp_path / "model.zip", form)
    assert (tmp_path / "model.zip").read_text() == "mine"


FULL_DISK = """
import resource, signal, sys
from spacy_elmo.formats import load, write
bilm = load(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
try:
    write(bilm, sys.argv[2], sys.argv[3])
except OSError as error:
    print(error.filename)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")
@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, old, form):
    save(old, tmp_path / "bilm")
    command = [sys.executable, "-c", FULL_DISK, tmp_path / "bilm", tmp_path / "new", form]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(tmp_path / "new" / FILES[form][1])
    assert list((tmp_path / "new").iterdir()) == []


def test_interrupt_leaves_the_old_files(tmp_path, monkeypatch):
    write_together(tmp_path, {name: lambda file: _write(file, "old") for name in "ab"})
    real = os.replace

    def replace(source, target):
        if Path(target).name == "b" and Path(source).read_text() == "new":
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        write_together(tmp_path, {name: lambda file: _write(file, "new") for name in "ab"})
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "old", "b": "old"}


def _write(file, text):
    file.write_text(text)
