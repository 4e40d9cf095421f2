"""Damaged checkpoints are named, and a full disk leaves the one before whole."""

import errno
import os
import re
import resource
import shutil

import pytest
import torch

from spacy_elmo.training import train
from spacy_elmo.training.checkpoints import read_checkpoint, write_checkpoint

from .configs import Recorder
from .configs import make_quick_config as make_config
from .resuming import EVALUATIONS, assert_same_end

pytestmark = pytest.mark.usefixtures("no_flush")


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "version", "empty"])
def test_a_damaged_checkpoint_is_named(tmp_path, never_stopped, damage):
    path = tmp_path / "checkpoint.pt"
    data = (never_stopped / "checkpoint.pt").read_bytes()
    if damage == "missing":
        write_checkpoint(path, {"settings": {}, "model": {}})
        message = "checkpoint.pt is no checkpoint, or a damaged one .no fingerprints, optimizer, s"
    elif damage == "version":
        write_checkpoint(path, {"version": 99})
        message = r"checkpoint.pt is a checkpoint of version 99; this spacy-elmo reads 1"
    else:
        path.write_bytes({"cut": data[:-100], "text": b"no checkpoint", "empty": b""}[damage])
        message = "checkpoint.pt is no checkpoint, or a damaged one"
    with pytest.raises(ValueError, match=message) as caught:
        read_checkpoint(path)
    assert ("Start anew with --overwrite." in str(caught.value)) == (damage != "version")


def test_the_way_out_of_a_damaged_checkpoint(tmp_path, never_stopped):
    out = tmp_path / "out"
    shutil.copytree(never_stopped, out)
    (out / "checkpoint.pt").write_bytes(b"")
    config = make_config(tmp_path, EVALUATIONS)
    with pytest.raises(ValueError, match="--overwrite, or with another --output .* --init .*out"):
        train(config, out, resume=True)
    config["training"]["init"] = str(out / "model-last")
    assert train(config, tmp_path / "other").first_step == 0
    assert train(make_config(tmp_path, EVALUATIONS), out, overwrite=True).first_step == 0


def test_no_code_of_a_checkpoint_is_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    torch.save({"version": 1, "model": Evil()}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="is no checkpoint"):
        read_checkpoint(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["checkpoint.pt", "model-last", "model-best", "log.jsonl"])
def test_a_full_disk_leaves_the_checkpoint_before_whole(tmp_path, never_stopped, monkeypatch, name):
    config = make_config(tmp_path, EVALUATIONS)
    recorder = Recorder()

    def full(descriptor):
        """What a file system may say only when it is to write down what it has promised to."""
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        if name in place and len(recorder.steps) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    saved = 0 if name == "checkpoint.pt" else 5
    message = rf"No space left .*The checkpoint of step {saved} is whole \(.*out.checkpoint\.pt\)"
    with pytest.raises(OSError, match=message):
        train(config, tmp_path / "out", reporter=recorder)
    assert not list(tmp_path.rglob("*.tmp"))
    assert read_checkpoint(tmp_path / "out" / "checkpoint.pt")["progress"]["step"] == saved
    recorder.steps.append(None)
    train(config, tmp_path / "out", resume=True)
    assert_same_end(tmp_path / "out", never_stopped)


def test_files_that_may_not_grow_leave_the_checkpoint_before_whole(tmp_path, never_stopped):
    """A limit of the system, as a full disk is, in the middle of writing a checkpoint."""
    config = make_config(tmp_path, EVALUATIONS)
    train({**config, "training": {**config["training"], "max_steps": 5}}, tmp_path / "out")
    size = (tmp_path / "out" / "checkpoint.pt").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, limits[1]))
        with pytest.raises(OSError, match="(?i)too large.*The checkpoint of step 5 is whole"):
            train(config, tmp_path / "out", resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.rglob("*.tmp"))
    train(config, tmp_path / "out", resume=True)
    assert_same_end(tmp_path / "out", never_stopped)


def test_a_first_checkpoint_that_cannot_be_written_ends_the_run_at_once(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(torch, "save", full)
    recorder = Recorder()
    with pytest.raises(OSError, match=re.escape("What was there before is whole")):
        train(make_config(tmp_path), tmp_path / "out", reporter=recorder)
    assert not recorder.steps
    assert not list((tmp_path / "out").iterdir())
