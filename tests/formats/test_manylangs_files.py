"""Faulty directories of ELMoForManyLangs: one message that names the file and the place."""

import json
import pickle

import pytest
import torch

from spacy_elmo.formats import load

from ..manylangs_oracle import make_model, write_model, write_tensors

FILES = ("config.json", "cnn.json", "char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl")
SMALL = {"filters": [[1, 2]], "n_highway": 1, "projection_dim": 2, "dim": 2, "n_layers": 1}


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def directory(tmp_path, model):
    return write_model(tmp_path, model)


@pytest.mark.parametrize("name", FILES)
def test_missing_file(directory, name):
    (directory / name).unlink()
    with pytest.raises(ValueError, match=f"{name}(?s:.)*(is missing|which gives the sizes)"):
        load(directory)


def test_nothing_of_the_weights(directory):
    for name in ("token_embedder.pkl", "encoder.pkl"):
        (directory / name).unlink()
    with pytest.raises(ValueError, match="No biLM found .*; manylangs .config.json, token_embed"):
        load(directory)


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("name", ["token_embedder.pkl", "encoder.pkl"])
def test_weights_cut_short(tmp_path, name, is_old):
    directory = write_model(tmp_path, make_model(**SMALL), is_old=is_old)
    data = (directory / name).read_bytes()
    for size in {*range(0, len(data), len(data) // 25), 1, 4, len(data) - 1}:
        (directory / name).write_bytes(data[:size])
        with pytest.raises(ValueError, match=f"{name} (is no|holds).*cut short"):
            load(directory)


@pytest.mark.parametrize("name", ["config.json", "cnn.json", "char.dic", "word.dic"])
def test_text_cut_short(directory, name):
    data = (directory / name).read_bytes()
    # A line end at the end of a dictionary, or blanks, may be lost.
    for size in range(0, len(data) - 2, 7):
        (directory / name).write_bytes(data[:size])
        with pytest.raises(ValueError, match=name):
            load(directory)


@pytest.mark.parametrize("name, n_entries", [("word.dic", 14), ("char.dic", 33)])
def test_dictionary_a_line_short(directory, model, name, n_entries):
    ids = model.words if name == "word.dic" else model.characters
    assert len(ids) == n_entries
    lines = (directory / name).read_bytes().split(b"\n")
    (directory / name).write_bytes(b"\n".join(lines[:4] + lines[5:]))
    with pytest.raises(ValueError, match=rf"{name} has {n_entries - 1} entries .* Missing: 4\."):
        load(directory)
    # The last word is missed only by the table; of the characters it is a special one.
    (directory / name).write_bytes(b"\n".join(lines[:-2]) + b"\n")
    message = rf"char.dic \({n_entries - 1} entries\) has no entry <eow>"
    if name == "word.dic":
        message = (
            r"token_embedder.pkl: tensor 'word_emb_layer.embedding.weight' has shape \(14, 7\); "
            r"expected \(13, 7\), which follows from cnn.json and word.dic \(13 entries\)"
        )
    with pytest.raises(ValueError, match=message):
        load(directory)


@pytest.mark.parametrize(
    "line, message",
    [
        (b"x\tone", r"line 34: b'x\\tone'; expected an entry in UTF-8, a tab and its id"),
        (b"\xff\t33", r"line 34: .*; expected an entry in UTF-8"),
        (b"", r"line 34: b''; expected an entry"),
        (b"a\t33", r"line 34: b'a\\t33' has the entry of an earlier line"),
        (b"x\t5", r"line 34: b'x\\t5' has the id of an earlier line"),
        (b"x\t40", r"34 entries with ids up to 40; expected ids from 0 to 33. Missing: 33\."),
        (b"x\t-1", r"34 entries with ids up to 32; expected ids .* Missing: 33\."),
    ],
)
def test_faulty_line(directory, line, message):
    file = directory / "char.dic"
    assert file.read_bytes().startswith(b"a\t0\n")
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(ValueError, match=f"char.dic.*{message}"):
        load(directory)


def test_wrong_shape(directory, model):
    model.encoder["backward_layer_1.state_linearity.bias"] = torch.zeros(45)
    write_tensors(directory / "encoder.pkl", model.encoder)
    with pytest.raises(
        ValueError,
        match=r"encoder.pkl: tensor 'backward_layer_1.state_linearity.bias' has shape \(45,\); "
        r"expected \(44,\), which follows from cnn.json",
    ):
        load(directory)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_wrong_type(directory, model, dtype):
    name = "highways._layers.1.bias"
    model.embedder[name] = torch.as_tensor(model.embedder[name]).to(dtype)
    write_tensors(directory / "token_embedder.pkl", model.embedder)
    with pytest.raises(
        ValueError, match=rf"'{name}' is of type {dtype}, torch.strided; expected torch.float32"
    ):
        load(directory)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan(directory, model, value):
    model.embedder["char_emb_layer.embedding.weight"][3, :2] = value
    write_tensors(directory / "token_embedder.pkl", model.embedder)
    with pytest.raises(ValueError, match=r"'char_emb_.*' of shape \(33, 5\) has 2 values that are"):
        load(directory)


def test_missing_and_unexpected_tensors(directory, model):
    model.encoder["forward_layer_2.bias"] = model.encoder.pop(
        "forward_layer_0.state_linearity.bias"
    )
    write_tensors(directory / "encoder.pkl", model.encoder)
    with pytest.raises(
        ValueError,
        match=r"encoder.pkl: missing tensor 'forward_layer_0.state_linearity.bias' of shape "
        r"\(44,\); unexpected tensor 'forward_layer_2.bias'\..* follows from cnn.json",
    ):
        load(directory)


WRONG_FIELDS = {
    "encoder.name": ("gru", None, 3, ...),
    "token_embedder.name": ("transformer", ...),
    "encoder.projection_dim": (0, "8", ...),
    "encoder.dim": (None, ...),
    "encoder.n_layers": (0, ...),
    "encoder.cell_clip": (-1, ...),
    "encoder.proj_clip": ("3", ...),
    "token_embedder.filters": ([], [[1]], ...),
    "token_embedder.activation": ("gelu", ...),
    "token_embedder.n_highway": (-1, ...),
    "token_embedder.max_characters_per_token": (2, ...),
    "token_embedder.word_dim": (-1, "7", True, ...),
    "token_embedder.char_dim": (None, ...),
}


@pytest.mark.parametrize(
    "field, value", [(field, value) for field, values in WRONG_FIELDS.items() for value in values]
)
def test_wrong_field_of_the_network(directory, model, field, value):
    group, name = field.split(".")
    if value is ...:
        del model.network[group][name]
    else:
        model.network[group][name] = value
    (directory / "cnn.json").write_text(json.dumps(model.network))
    problem = "has no" if value is ... else ".*"
    with pytest.raises(
        ValueError, match=rf"cnn.json:? {problem}{' ' if value is ... else ''}{field}"
    ):
        load(directory)


def test_no_part_at_all(directory, model):
    model.network["token_embedder"].update(word_dim=0, char_dim=0)
    (directory / "cnn.json").write_text(json.dumps(model.network))
    with pytest.raises(ValueError, match="cnn.json: token_embedder.word_dim and token_embedder.ch"):
        load(directory)


@pytest.mark.parametrize("group", ["encoder", "token_embedder"])
def test_group_that_is_no_object(directory, model, group):
    model.network[group] = [1]
    (directory / "cnn.json").write_text(json.dumps(model.network))
    with pytest.raises(ValueError, match=rf"cnn.json: {group} is \[1\]; expected an object"):
        load(directory)


@pytest.mark.parametrize("value", [None, "", 5])
def test_no_path_of_the_network(directory, value):
    (directory / "config.json").write_text(json.dumps({"config_path": value}))
    with pytest.raises(ValueError, match=f"config.json: config_path is {value!r}; expected the p"):
        load(directory)


def test_a_network_outside_of_the_model_is_not_read(directory):
    (directory / "cnn.json").rename(directory.parent / "outside.json")
    (directory / "config.json").write_text('{"config_path": "../outside.json"}')
    with pytest.raises(ValueError, match="has no outside.json, which gives the sizes of the netw"):
        load(directory)


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


def write_bomb(path, content, kind):
    if kind == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=kind == "new")


@pytest.mark.parametrize("kind", ["old", "new", "pickle"])
@pytest.mark.parametrize("name", ["token_embedder.pkl", "encoder.pkl"])
def test_nothing_in_a_pickle_is_run(directory, tmp_path_factory, name, kind):
    target = tmp_path_factory.mktemp("target") / "was-here"
    bomb = {"projection.bias": torch.zeros(2), "projection.weight": Bomb(target)}
    write_bomb(directory / name, bomb, kind)
    with pytest.raises(ValueError, match=f"{name} (holds|is no)") as info:
        load(directory)
    assert not target.exists()
    assert "weights_only" not in str(info.value)
    # The bomb is a real one.
    pickle.loads(pickle.dumps(Bomb(target))).close()
    assert target.exists()


@pytest.mark.parametrize(
    "content, message",
    [
        ([torch.zeros(2)], "encoder.pkl holds a list; expected tensors by name"),
        ({"a": [1, 2]}, "encoder.pkl: 'a' is a list; expected tensors by name"),
        ({3: torch.zeros(2)}, "encoder.pkl: 3 is a Tensor; expected tensors by name"),
    ],
)
def test_something_else_than_tensors_by_name(directory, content, message):
    torch.save(content, directory / "encoder.pkl")
    with pytest.raises(ValueError, match=message):
        load(directory)


def test_a_whole_model_in_place_of_its_tensors(directory):
    torch.save(torch.nn.Linear(2, 3), directory / "encoder.pkl")
    with pytest.raises(ValueError, match=r"holds something other than tensors \(torch.nn.*Linear"):
        load(directory)
