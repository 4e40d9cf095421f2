"""Weights in an archive: found by content, taken out with care, and gone afterwards."""

import io
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from spacy_elmo import BiLM
from spacy_elmo.formats import archives, load, save, write

from .test_native import assert_same

FORMATS = ["native", "bilm-tf"]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


@pytest.fixture
def model(tmp_path, bilm):
    save(bilm, tmp_path / "model")
    return tmp_path / "model"


def make_zip(path, folder, prefix="", compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for file in folder.iterdir():
            archive.write(file, prefix + file.name)
    return path


def make_tar(path, folder, prefix="", mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for file in folder.iterdir():
            archive.add(file, prefix + file.name)
    return path


MAKERS = {
    "zip": make_zip,
    "stored zip": lambda path, folder, prefix: make_zip(path, folder, prefix, zipfile.ZIP_STORED),
    "tar.gz": make_tar,
    "tar": lambda path, folder, prefix: make_tar(path, folder, prefix, "w:"),
    "tar.xz": lambda path, folder, prefix: make_tar(path, folder, prefix, "w:xz"),
    "tar.bz2": lambda path, folder, prefix: make_tar(path, folder, prefix, "w:bz2"),
}


@pytest.mark.parametrize("prefix", ["", "./", "elmo/", "a/b/"])
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("form", FORMATS)
def test_archive_is_found_by_content(tmp_path, bilm, form, kind, prefix):
    write(bilm, tmp_path / "model", form)
    # The name says nothing, or the wrong thing.
    for name in ("193", "model.zip", "model.tar.gz"):
        path = MAKERS[kind](tmp_path / name, tmp_path / "model", prefix)
        assert_same(BiLM.from_pretrained(str(path)), bilm)


def test_only_files_of_formats_are_taken(tmp_path, monkeypatch, model):
    path = make_zip(tmp_path / "model.zip", model, "elmo/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("elmo/vocab.txt", "x" * 1000)
        archive.writestr("README.md", "read me")
        archive.writestr("__MACOSX/elmo/._config.json", "resource fork")
        archive.writestr("elmo/._model.safetensors", "resource fork")
        archive.writestr("elmo/empty/", "")
    taken = []
    real = archives._copy
    monkeypatch.setattr(
        archives, "_copy", lambda member, root: (taken.append(str(member.path)), real(member, root))
    )
    load(path)
    assert sorted(taken) == ["elmo/config.json", "elmo/model.safetensors"]


def test_archive_without_a_bilm(tmp_path):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README.md", "read me")
    with pytest.raises(
        ValueError, match=r"other.zip: .* no file named .*model.safetensors.*; it holds: README.md"
    ):
        load(path)


def test_archive_with_half_a_bilm(tmp_path, model):
    (model / "config.json").unlink()
    path = make_zip(tmp_path / "half.zip", model, "elmo/")
    with pytest.raises(
        ValueError, match=r"^No biLM found in .*half.zip. .* It holds: model.safetensors\.$"
    ):
        load(path)


def test_message_names_the_archive(tmp_path, model):
    (model / "model.safetensors").write_bytes(b"cut")
    path = make_tar(tmp_path / "model.tar.gz", model, "elmo/")
    with pytest.raises(ValueError, match=r"^\S*/model.tar.gz:model.safetensors is no complete"):
        load(path)


@pytest.mark.parametrize(
    "name",
    [
        "../model.safetensors",
        "elmo/../../config.json",
        "/tmp/config.json",
        "C:\\config.json",
        "..\\x",
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_path_that_leads_out(tmp_path, model, kind, name):
    path = tmp_path / "model"
    path = MAKERS[kind](tmp_path / "archive", model, "")
    if kind == "zip":
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, "x")
    else:
        with tarfile.open(path, "a") as archive:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    before = sorted(Path(tmp_path).rglob("*"))
    with pytest.raises(ValueError, match=r"archive: the archive's entry .* leads out of the arch"):
        load(path)
    assert sorted(Path(tmp_path).rglob("*")) == before


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_link_in_a_tar(tmp_path, model, kind):
    (model / "model.safetensors").unlink()
    path = make_tar(tmp_path / "model.tar.gz", model, mode="w:gz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(model / "config.json", "config.json")
        link = tarfile.TarInfo("model.safetensors")
        link.type, link.linkname = kind, "config.json"
        archive.addfile(link)
    with pytest.raises(ValueError, match=r"'model.safetensors' is a link or a special file"):
        load(path)


def test_link_in_a_zip(tmp_path, model):
    path = make_zip(tmp_path / "model.zip", model)
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("options.json")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match=r"'options.json' is a link or a special file"):
        load(path)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_too_large(tmp_path, monkeypatch, model, kind):
    path = MAKERS[kind](tmp_path / "archive", model, "")
    size = sum(file.stat().st_size for file in model.iterdir())
    monkeypatch.setattr(archives, "MAX_UNPACKED", size)
    load(path)
    monkeypatch.setattr(archives, "MAX_UNPACKED", size - 1)
    with pytest.raises(ValueError, match=rf"take {size} bytes unpacked; expected {size - 1} at mo"):
        load(path)


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.xz", "tar"])
def test_archive_cut_short(tmp_path, model, kind):
    data = MAKERS[kind](tmp_path / "archive", model, "").read_bytes()
    path = tmp_path / "cut"
    for size in range(100, len(data) * 9 // 10, len(data) // 12):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"cut( is no complete|. Looked for|:|\. )"):
            load(path)


def test_damaged_content(tmp_path, model):
    path = make_zip(tmp_path / "model.zip", model, compression=zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"model.zip is no complete, .*\(Bad CRC-32"):
        load(path)


def test_null_character_in_a_name(tmp_path):
    path = tmp_path / "archive"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("config.json")
        member.pax_headers = {"path": "a\0b/config.json"}
        archive.addfile(member)
    with pytest.raises(ValueError, match=r"entry 'a.x00b/config.json' has a null character"):
        load(path)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_record_that_would_fill_the_memory(tmp_path, form):
    """A compressed file of 2 KB can hold one of 2 MB, and one of 2 MB one of 2 GB."""
    path = tmp_path / "archive"
    with tarfile.open(path, "w:gz", format=form) as archive:
        archive.addfile(tarfile.TarInfo("d/" * (1 << 20) + "config.json"))
    with pytest.raises(ValueError, match=r"a record on an entry has \d+ bytes; expected 1048576"):
        load(path)


def test_encrypted_zip(tmp_path, model):
    path = make_zip(tmp_path / "model.zip", model)
    data = bytearray(path.read_bytes())
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        begin = data.find(magic)
        while begin >= 0:
            data[begin + flags] |= 1
            begin = data.find(magic, begin + 1)
    path.write_bytes(data)
    with pytest.raises(
        ValueError, match=r"no complete, unencrypted zip or tar archive .*encrypted"
    ):
        load(path)


def test_compressed_file_that_is_no_archive(tmp_path, model):
    import gzip

    path = tmp_path / "model.gz"
    path.write_bytes(gzip.compress((model / "model.safetensors").read_bytes()))
    with pytest.raises(
        ValueError, match=r"model.gz is no complete, unencrypted zip or tar archive"
    ):
        load(path)
