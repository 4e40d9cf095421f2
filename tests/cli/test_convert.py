"""``spacy elmo convert``: what both formats can say stays, and nothing is half written."""

import gzip
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from spacy_elmo.formats import load, save, write

from .. import oracle
from ..formats.allennlp_files import make_state_dict, write_archive, write_model
from ..formats.test_bilm_tf_files import assert_same_arrays, read_datasets
from .commands import invoke, one_line

VOCABULARY = "<S>\n</S>\n<UNK>\nbank\n".encode("utf-8")
COMPANIONS = {"vocab.txt": VOCABULARY, "softmax.safetensors": b"not looked at"}


@pytest.fixture
def model(tmp_path, bilm):
    """A native model with everything that one can have."""
    bilm.warm_up([["A", "text", "of", "its", "own"]])
    bilm.metadata = {"perplexity": 12.5, "language": "én"}
    save(bilm, tmp_path / "model")
    for name, data in COMPANIONS.items():
        (tmp_path / "model" / name).write_bytes(data)
    return tmp_path / "model"


def contents(directory):
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def convert(*args):
    """What the command said; it must not fail."""
    done = invoke("convert", *args)
    assert done.exit_code == 0, done.output
    return one_line(done.output)


def assert_fails(message, *args):
    done = invoke("convert", *args)
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit), done.output
    assert message in one_line(done.output), done.output


def test_native_to_hdf5_and_back(tmp_path, bilm, model):
    said = convert(model, tmp_path / "hdf5", "--to", "hdf5")
    assert "no place for the warm state" in said and "no place for the softmax" in said
    assert sorted(contents(tmp_path / "hdf5")) == ["options.json", "vocab.txt", "weights.hdf5"]
    said = convert(tmp_path / "hdf5", tmp_path / "native", "--to", "native")
    assert "Saved" in said and "warm" not in said
    again = load(tmp_path / "native")
    assert again.config == bilm.config and again.metadata == bilm.metadata
    assert again.warm_hidden is None
    for (name, found), expected in zip(again.named_parameters(), bilm.parameters()):
        assert found.detach().numpy().tobytes() == expected.detach().numpy().tobytes(), name
    assert (tmp_path / "native" / "vocab.txt").read_bytes() == VOCABULARY


def test_hdf5_to_native_and_back(tmp_path):
    options = oracle.make_options(n_layers=3, cell_clip=0.5)
    datasets = oracle.make_datasets(options)
    oracle.write_files(tmp_path / "a", options, datasets, "model.hdf5")
    convert(tmp_path / "a", tmp_path / "b", "--to", "native")
    assert "Saved" in convert(tmp_path / "b", tmp_path / "c", "--to", "hdf5")
    assert_same_arrays(read_datasets(tmp_path / "c" / "weights.hdf5"), datasets)


def test_native_to_native_keeps_everything(tmp_path, model):
    convert(model, tmp_path / "copy", "--to", "native")
    assert contents(tmp_path / "copy") == contents(model)


def test_half_precision(tmp_path, bilm, model):
    said = convert(model, tmp_path / "half", "--to", "native", "--precision", "float16")
    assert "The weights were rounded, by " in said
    stored = load_file(tmp_path / "half" / "model.safetensors")
    for name, values in bilm.state_dict().items():
        assert torch.equal(stored[name], values.half()), name
    assert COMPANIONS.items() <= contents(tmp_path / "half").items()
    assert load(tmp_path / "half").metadata == bilm.metadata
    # The other way and back loses nothing more.
    convert(tmp_path / "half", tmp_path / "full", "--to", "native")
    said = convert(tmp_path / "full", tmp_path / "again", "--to", "native", "-p", "float16")
    assert "rounded" not in said
    assert contents(tmp_path / "again") == contents(tmp_path / "half")


def test_tables_of_words_and_code_points(tmp_path, make_bilm):
    bilm = make_bilm(words={"dim": 7}, code_points=9)
    save(bilm, tmp_path / "a")
    convert(tmp_path / "a", tmp_path / "b", "--to", "native", "--precision", "float16")
    again = load(tmp_path / "b")
    assert again.config == bilm.config
    for name, values in bilm.state_dict().items():
        expected = values.half().float() if values.is_floating_point() else values
        assert torch.equal(again.state_dict()[name], expected), name
    assert_fails("UTF-8 characters", tmp_path / "b", tmp_path / "c", "--to", "hdf5")
    assert not (tmp_path / "c").exists()


def test_in_place(tmp_path, bilm, model):
    before = contents(model)
    (model / "notes.txt").write_text("mine")
    convert(model, model, "--to", "native", "--precision", "float16", "--force")
    after = contents(model)
    assert after.pop("notes.txt") == b"mine"
    assert after.keys() == before.keys()
    assert COMPANIONS.items() <= after.items()
    assert len(after["model.safetensors"]) < len(before["model.safetensors"])


def test_archive_of_nlpl(tmp_path):
    options = oracle.make_options()
    datasets = oracle.make_datasets(options)
    oracle.write_files(tmp_path / "files", options, datasets, "model.hdf5")
    (tmp_path / "files" / "vocab.txt.gz").write_bytes(gzip.compress(VOCABULARY))
    (tmp_path / "files" / "meta.json").write_text("{}")
    with zipfile.ZipFile(tmp_path / "193.zip", "w") as archive:
        for file in (tmp_path / "files").iterdir():
            archive.write(file, file.name)
    convert(tmp_path / "193.zip", tmp_path / "native", "--to", "native")
    assert gzip.decompress((tmp_path / "native" / "vocab.txt.gz").read_bytes()) == VOCABULARY
    write(load(tmp_path / "native"), tmp_path / "b", "bilm-tf")
    assert_same_arrays(read_datasets(tmp_path / "b" / "weights.hdf5"), datasets)


def test_model_of_allennlp(tmp_path):
    options = oracle.make_options()
    datasets = oracle.make_datasets(options)
    state = make_state_dict(options, datasets, mixes=[([0.0, 1.0, 2.0], 1.5)])
    path = write_archive(tmp_path / "model.tar.gz", write_model(tmp_path / "model", state))
    said = convert(path, tmp_path / "hdf5", "--to", "hdf5")
    assert "the options of its ELMo are not in the model" in said
    again = load(tmp_path / "hdf5")
    assert again.metadata["scalar_mixes"][0]["gamma"] == 1.5
    expected, _ = oracle.embed_sentence(options, datasets, ["a", "bank"])
    assert abs(again.embed([["a", "bank"]])[0] - expected).max() < 1e-5


def test_what_readers_of_hdf5_refuse_is_said(tmp_path, make_bilm):
    sizes = {"use_skip_connections": False, "max_characters_per_token": 20}
    save(make_bilm(projection_dim=29, cell_size=29, **sizes), tmp_path / "a")
    said = convert(tmp_path / "a", tmp_path / "b", "--to", "hdf5")
    assert "AllenNLP expects a projection of the filters and one of the cells" in said
    assert "AllenNLP refuses weights without skip connections" in said
    assert "AllenNLP reads words of 50 bytes, these weights words of 20" in said
    save(make_bilm(projection_dim=29, cell_size=9, token_projection=True), tmp_path / "c")
    said = convert(tmp_path / "c", tmp_path / "d", "--to", "hdf5")
    assert "bilm-tf expects no projection of the filters" in said


def test_nothing_is_overwritten_unless_asked(tmp_path, bilm, model):
    target = tmp_path / "target"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    assert_fails("holds: notes.txt. Give --force to write into", model, target, "--to", "hdf5")
    assert contents(target) == {"notes.txt": b"mine"}
    convert(model, target, "--to", "hdf5", "--force")
    assert (target / "notes.txt").read_text() == "mine"
    with torch.no_grad():
        bilm.forward_lstm.layers[0].bias.add_(1)
    write(bilm, model, "native")
    convert(model, target, "--to", "hdf5", "--force")
    found = load(target).forward_lstm.layers[0].bias
    assert torch.equal(found, bilm.forward_lstm.layers[0].bias)


def test_no_second_format_and_no_softmax_of_other_weights(tmp_path, model):
    before = contents(model)
    for args in ([model, "--to", "hdf5"], [model, "--to", "hdf5", "--force"]):
        assert_fails("holds", model, *args)
    assert_fails("weights in another format (native)", model, model, "--to", "hdf5", "--force")
    shutil.copytree(model, tmp_path / "bare")
    for name in COMPANIONS:
        (tmp_path / "bare" / name).unlink()
    message = "holds vocab.txt and softmax.safetensors, which the new weights have not"
    assert_fails(message, tmp_path / "bare", model, "--to", "native", "--force")
    assert contents(model) == before


@pytest.mark.parametrize(
    "args, message",
    [
        (["--to", "tf"], "The format to convert to is 'tf'; expected 'native' or 'hdf5'"),
        (["--to", "native", "-p", "int8"], "precision is 'int8'; expected 'float32' or 'float16'"),
        (["--to", "hdf5", "-p", "float16"], "readers of HDF5 files take float32 only"),
    ],
)
def test_wrong_options(tmp_path, model, args, message):
    assert_fails(message, model, tmp_path / "out", *args)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_read_or_written_leaves_nothing(tmp_path, make_bilm, model):
    assert_fails("nowhere does not exist", tmp_path / "nowhere", tmp_path / "out", "--to", "native")
    assert_fails("vocab.txt is a file", model, model / "vocab.txt", "--to", "native", "--force")
    save(make_bilm(forget_bias=0.5), tmp_path / "other")
    assert_fails(
        "'forget_bias' is 0.5; a bilm-tf file can only hold",
        *(tmp_path / "other", tmp_path / "out", "--to", "hdf5"),
    )
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["bilm"]["cell_size"] = 21
    (model / "config.json").write_text(json.dumps(config))
    assert_fails("not saved together", model, tmp_path / "out", "--to", "hdf5")
    (model / "model.safetensors").write_bytes(b"cut")
    assert_fails("model.safetensors is no complete", model, tmp_path / "out", "--to", "hdf5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other"]


@pytest.mark.parametrize("failing", [1, 3, 6, 9])
def test_failed_conversion_leaves_the_old_weights(tmp_path, monkeypatch, make_bilm, model, failing):
    convert(model, tmp_path / "out", "--to", "native")
    before = contents(tmp_path / "out")
    write(make_bilm(seed=1, cell_clip=1.0), model, "native")
    (model / "vocab.txt").write_bytes(VOCABULARY + b"river\n")
    real, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError(28, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        args = (model, tmp_path / "out", "--to", "native", "--force")
        assert_fails("No space left on device", *args)
    assert contents(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a place that none can write")
def test_a_place_that_cannot_be_written_is_named(model):
    assert_fails(": '/proc/self/copy'", model, "/proc/self/copy", "--to", "hdf5")
