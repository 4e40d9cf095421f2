"""One ``load`` for all formats: what it takes, and what it says where there is nothing."""

import catalogue
import pytest
import torch

from spacy_elmo import BiLM, registry
from spacy_elmo.formats import Format, formats, load, save, write

from .test_native import assert_same


def test_entry_points():
    assert registry.persistence.get("load") is load
    assert registry.persistence.get("save") is save
    assert list(formats()) == ["allennlp", "bilm-tf", "manylangs", "native"]
    for name, form in formats().items():
        assert isinstance(form, Format)
        assert form.name == name


@pytest.mark.parametrize("form", ["native", "bilm-tf"])
@pytest.mark.parametrize("make_path", [str, lambda path: path])
def test_every_format_is_found(tmp_path, bilm, form, make_path):
    write(bilm, make_path(tmp_path / "model"), form)
    assert_same(BiLM.from_pretrained(make_path(tmp_path / "model")), bilm)


@pytest.mark.parametrize(
    "form, name", [("native", "model.safetensors"), ("bilm-tf", "weights.hdf5")]
)
def test_one_file_is_found_by_content(tmp_path, bilm, form, name):
    write(bilm, tmp_path, form)
    assert_same(load(tmp_path / name), bilm)
    (tmp_path / name).rename(tmp_path / "anything")
    assert_same(load(tmp_path / "anything"), bilm)


def test_format_of_another_package(tmp_path, bilm):
    def matches(path):
        return path.is_dir() and (path / "elsewhere").exists()

    form = Format(
        name="elsewhere",
        contents="elsewhere",
        patterns=("elsewhere",),
        matches=matches,
        read=lambda path: bilm,
        write=lambda bilm, path: (path / "elsewhere").write_text("x"),
    )
    registry.formats.register("elsewhere", func=form)
    try:
        write(bilm, tmp_path, "elsewhere")
        assert load(tmp_path) is bilm
    finally:
        catalogue._remove((*registry.formats.namespace, "elsewhere"))


def test_no_such_path(tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(
        FileNotFoundError,
        match=r"elmo_small does not exist. .*bilm-tf \(options.json .*\); native \(config.json and "
        r"model.safetensors\). .* holds: other\.$",
    ):
        load(tmp_path / "elmo_small")


def test_no_such_path_in_no_such_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a/b/c does not exist. .*\)\.$"):
        load(tmp_path / "a" / "b" / "c")


def test_an_empty_path_is_not_the_working_directory(tmp_path, bilm, monkeypatch):
    save(bilm, tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="path of the weights is ''; expected a path"):
        load("")


def test_empty_directory(tmp_path):
    with pytest.raises(ValueError, match=r"No biLM found in .* Looked for .* It holds: nothing\.$"):
        load(tmp_path)


def test_directory_with_other_files(tmp_path):
    for name in ("config.cfg", "weights.hdf5", "vocab"):
        (tmp_path / name).write_text("x")
    with pytest.raises(ValueError, match=r"It holds: config.cfg, vocab, weights.hdf5\.$"):
        load(tmp_path)


def test_directory_with_many_files(tmp_path):
    for number in range(30):
        (tmp_path / f"{number:02}").write_text("x")
    with pytest.raises(ValueError, match=r"It holds: 00, .*, 09 and 20 more\.$"):
        load(tmp_path)


def test_the_folder_around_models(tmp_path, bilm):
    save(bilm, tmp_path / "model-best")
    with pytest.raises(ValueError, match=r"Did you mean .*model-best\?"):
        load(tmp_path)


def test_the_folder_of_a_pipeline(tmp_path):
    for name in ("config.cfg", "meta.json"):
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match="It is a pipeline of spaCy, for spacy.load"):
        load(tmp_path)


def test_saving_beside_another_format(tmp_path, bilm):
    write(bilm, tmp_path, "bilm-tf")
    with pytest.raises(ValueError, match=r"holds weights in another format \(bilm-tf\)"):
        bilm.save_pretrained(tmp_path)
    assert_same(load(tmp_path), bilm)


@pytest.mark.parametrize("data", [b"", b"x", b"<S>\n</S>\n<UNK>\n", bytes(1000)])
def test_file_of_another_kind(tmp_path, data):
    (tmp_path / "vocab.txt").write_bytes(data)
    with pytest.raises(ValueError, match=r"No biLM found in .*vocab.txt. .* file of another kind"):
        load(tmp_path / "vocab.txt")


def test_two_formats_in_one_directory(tmp_path, make_bilm):
    # Which one is meant cannot be known, and they may differ.
    write(make_bilm(seed=1), tmp_path, "native")
    write(make_bilm(seed=2), tmp_path, "bilm-tf")
    with pytest.raises(
        ValueError, match=r"more than one format \(bilm-tf and native\).*one file of weights"
    ):
        load(tmp_path)
    assert_same(load(tmp_path / "model.safetensors"), make_bilm(seed=1))
    assert_same(load(tmp_path / "weights.hdf5"), make_bilm(seed=2))


def test_unknown_format(tmp_path, bilm):
    with pytest.raises(
        ValueError,
        match=r"Unknown format of weights 'tf'; expected one of allennlp, bilm-tf, manylangs, nat",
    ):
        write(bilm, tmp_path / "out", "tf")
    with pytest.raises(ValueError, match="out was not written: a model of AllenNLP is more than"):
        write(bilm, tmp_path / "out", "allennlp")
    assert not (tmp_path / "out").exists()


def test_conversion_keeps_vectors(tmp_path, bilm):
    write(bilm, tmp_path / "a", "bilm-tf")
    write(load(tmp_path / "a"), tmp_path / "b", "native")
    again = load(tmp_path / "b")
    for (name, found), expected in zip(again.named_parameters(), bilm.parameters()):
        assert torch.equal(found, expected), name
