"""The native format: nothing is lost, and a wrong file is one clear message."""

import json
import pickle
from copy import deepcopy

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.dictionary import pack
from spacy_elmo.formats import from_bytes, load, save, to_bytes
from spacy_elmo.formats.state import DICTIONARIES, parameter_shapes, warm_state_shapes

WORDS, CODE_POINTS = DICTIONARIES["words"], DICTIONARIES["code_points"]
SENTENCES = [["The", "bank", "of", "the", "river"], ["a"], []]

SIZES = {
    "toy": {},
    "no highway, tanh, 10 characters": {
        "n_highway": 0,
        "activation": "tanh",
        "max_characters_per_token": 10,
    },
    "no projections": {"projection_dim": 29, "cell_size": 29, "n_highway": 2},
    "projections between equal sizes": {
        "projection_dim": 29,
        "cell_size": 29,
        "token_projection": True,
        "cell_projection": True,
    },
    "three layers, no clips, no skip": {
        "n_layers": 3,
        "cell_clip": None,
        "proj_clip": None,
        "use_skip_connections": False,
    },
    "forget bias and dropout": {"forget_bias": 0.5, "dropout": 0.3, "n_layers": 1},
    "words and characters": {"words": {"dim": 7}},
    "frozen words alone": {
        "words": {"dim": 7, "frozen": True},
        "char_encoder": None,
        "filters": [],
    },
    "LSTM over code points, LSTM encoder": {
        "char_encoder": "lstm",
        "filters": [],
        "code_points": 9,
        "encoder": "lstm",
    },
}


def assert_same(found: BiLM, expected: BiLM) -> None:
    assert found.config == expected.config
    assert found.state_dict().keys() == expected.state_dict().keys()
    for name, values in expected.state_dict().items():
        assert torch.equal(found.state_dict()[name], values), name


def assert_differs_from_random(bilm: BiLM) -> None:
    reader = bilm.token_layer.reader
    fresh = BiLM(bilm.config, words=reader.words, code_points=reader.code_points)
    for name, values in fresh.named_parameters():
        # Biases may start at a constant, but the loaded ones are random.
        assert not torch.equal(bilm.get_parameter(name), values), name


def edit_tensors(path, change, keep_header=True):
    file = path / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    text = (path / "config.json").read_text(encoding="utf-8")
    save_file(tensors, file, metadata={"spacy_elmo": text} if keep_header else None)


@pytest.mark.parametrize("name", SIZES)
def test_shapes_are_known_without_a_bilm(make_bilm, name):
    bilm = make_bilm(**SIZES[name])
    shapes = {key: tuple(values.shape) for key, values in bilm.named_parameters()}
    assert parameter_shapes(bilm.config) == shapes
    bilm.warm_up()
    assert warm_state_shapes(bilm.config) == {
        "warm_hidden": tuple(bilm.warm_hidden.shape),
        "warm_cell": tuple(bilm.warm_cell.shape),
    }


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_round_trip(tmp_path, make_bilm, name, warm):
    bilm = make_bilm(**SIZES[name])
    if warm:
        bilm.warm_up([["A", "text", "of", "its", "own"]])
    bilm.save_pretrained(tmp_path)
    again = BiLM.from_pretrained(tmp_path)
    assert_same(again, bilm)
    assert_differs_from_random(again)
    assert not again.training
    for found, expected in zip(again.embed(SENTENCES), bilm.embed(SENTENCES)):
        numpy.testing.assert_array_equal(found, expected)
    assert_same(from_bytes(to_bytes(bilm)), bilm)
    assert_same(load(tmp_path / "model.safetensors"), bilm)
    assert_same(pickle.loads(pickle.dumps(bilm)), bilm)
    assert_same(deepcopy(bilm), bilm)


def test_same_bilm_gives_same_bytes(tmp_path, bilm):
    save(bilm, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == to_bytes(bilm)
    assert to_bytes(from_bytes(to_bytes(bilm))) == to_bytes(bilm)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(tmp_path, bilm, dtype):
    save(bilm, tmp_path)

    def halve(tensors):
        tensors.update({name: values.to(dtype) for name, values in tensors.items()})

    edit_tensors(tmp_path, halve, keep_header=False)
    again = load(tmp_path)
    for name, values in bilm.named_parameters():
        found = again.get_parameter(name)
        assert found.dtype == torch.float32
        assert torch.equal(found, values.to(dtype).float())


def test_bilm_of_another_type_is_saved_as_float32(tmp_path, bilm):
    expected = deepcopy(bilm)
    save(bilm.double(), tmp_path)
    assert_same(load(tmp_path), expected)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_precision_of_the_file(tmp_path, bilm, precision):
    bilm.warm_up()
    dtype = getattr(torch, precision)
    save(bilm, tmp_path / "a", precision=precision)
    stored = load_file(tmp_path / "a" / "model.safetensors")
    assert {values.dtype for values in stored.values()} == {dtype}
    again = load(tmp_path / "a")
    for name, values in bilm.state_dict().items():
        assert torch.equal(again.state_dict()[name], values.to(dtype).float()), name
    assert to_bytes(bilm, precision=precision) == to_bytes(again, precision=precision)
    save(again, tmp_path / "b", precision=precision)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_values_that_float16_cannot_hold(tmp_path, bilm):
    with torch.no_grad():
        bilm.forward_lstm.layers[0].bias[3] = -70_000
    with pytest.raises(
        ValueError,
        match=r"not written: tensor 'forward_lstm.layers.0.bias' has values up to 70000; "
        r"torch.float16 holds 65504 at most. Save it as float32",
    ):
        save(bilm, tmp_path / "out", precision="float16")
    assert not (tmp_path / "out").exists()
    save(bilm, tmp_path / "out")


def test_unknown_precision(tmp_path, bilm):
    with pytest.raises(ValueError, match="precision is 'int8'; expected 'float32' or 'float16'"):
        save(bilm, tmp_path / "out", precision="int8")


def test_metadata_stays_with_the_weights(tmp_path, bilm):
    bilm.metadata = {"language": "én", "scalar_mixes": [{"gamma": 2.5}]}
    save(bilm, tmp_path / "a")
    for again in (
        load(tmp_path / "a"),
        load(tmp_path / "a" / "model.safetensors"),
        from_bytes(to_bytes(bilm)),
        pickle.loads(pickle.dumps(bilm)),
        deepcopy(bilm),
    ):
        assert again.metadata == bilm.metadata
    save(bilm, tmp_path / "b", metadata={"step": 3})
    assert load(tmp_path / "b").metadata == {"step": 3}


def test_metadata_and_vocabulary(tmp_path, bilm):
    (tmp_path / "vocab.txt").write_text("<S>\n", encoding="utf-8")
    save(bilm, tmp_path, metadata={"language": "én", "perplexity": 12.5})
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values["format_version"] == 1
    assert values["metadata"] == {"language": "én", "perplexity": 12.5}
    assert BiLMConfig.from_dict(values["bilm"]) == bilm.config
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8") == "<S>\n"
    assert_same(load(tmp_path), bilm)


def test_reading_draws_no_random_numbers(bilm):
    data = to_bytes(bilm)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    from_bytes(data)
    assert torch.equal(torch.rand(3), expected)


def test_file_cut_short(tmp_path, bilm):
    save(bilm, tmp_path)
    file = tmp_path / "model.safetensors"
    data = file.read_bytes()
    for size in (0, 1, 7, 8, 9, 100, 800, len(data) // 4, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:size])
        for path in (tmp_path, file):
            with pytest.raises(ValueError, match=r"model.safetensors is no complete .*cut short"):
                load(path)
        with pytest.raises(ValueError, match=r"The bytes of a biLM is no complete .*cut short"):
            from_bytes(data[:size])


SMALLEST = {"filters": [[1, 2]], "projection_dim": 2, "cell_size": 2, "n_layers": 1}


def test_every_prefix_is_a_message(tmp_path, make_bilm):
    save(make_bilm(**SMALLEST), tmp_path)
    for name, step in (("model.safetensors", 23), ("config.json", 11)):
        file = tmp_path / name
        data = file.read_bytes()
        for size in range(0, len(data) - 1, step):
            file.write_bytes(data[:size])
            with pytest.raises(ValueError, match=f"{name} is no (complete|valid)"):
                load(tmp_path)
        file.write_bytes(data)
    load(tmp_path)


def test_any_damage_to_the_header_is_a_message_or_harmless(make_bilm):
    bilm = make_bilm(**SMALLEST)
    data = to_bytes(bilm)
    n_header = int.from_bytes(data[:8], "little")
    n_refused = 0
    for position in range(0, 8 + n_header, 3):
        damaged = bytearray(data)
        damaged[position] ^= 1
        try:
            from_bytes(bytes(damaged))
        except ValueError:
            n_refused += 1
    assert n_refused > n_header // 4


def test_not_safetensors(tmp_path, bilm):
    save(bilm, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"something else entirely")
    with pytest.raises(ValueError, match=r"model.safetensors is no complete .* is something else"):
        load(tmp_path)


def test_missing_and_unexpected_tensors(tmp_path, bilm):
    save(bilm, tmp_path)

    def rename(tensors):
        tensors["forward_lstm.layers.2.bias"] = tensors.pop("forward_lstm.layers.1.bias")

    edit_tensors(tmp_path, rename)
    with pytest.raises(
        ValueError,
        match=r"model.safetensors: missing tensor 'forward_lstm.layers.1.bias' of shape \(80,\); "
        r"unexpected tensor 'forward_lstm.layers.2.bias'",
    ):
        load(tmp_path)


def test_half_a_warm_state(tmp_path, bilm):
    bilm.warm_up()
    save(bilm, tmp_path)
    edit_tensors(tmp_path, lambda tensors: tensors.pop("warm_cell"))
    with pytest.raises(ValueError, match=r"missing tensor 'warm_cell' of shape \(2, 2, 20\)"):
        load(tmp_path)


def test_long_lists_are_cut(tmp_path, bilm):
    save(bilm, tmp_path)
    edit_tensors(tmp_path, lambda tensors: [tensors.pop(name) for name in sorted(tensors)[:12]])
    with pytest.raises(ValueError, match=r"missing tensor .* and 2 more\."):
        load(tmp_path)


def test_wrong_shape(tmp_path, bilm):
    bilm.warm_up()
    save(bilm, tmp_path)
    edit_tensors(tmp_path, lambda tensors: tensors.update({"warm_cell": torch.zeros(2, 2, 21)}))
    with pytest.raises(
        ValueError, match=r"tensor 'warm_cell' has shape \(2, 2, 21\); expected \(2, 2, 20\)"
    ):
        load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_wrong_type(tmp_path, bilm, dtype):
    save(bilm, tmp_path)
    name = "token_layer.projection.bias"
    edit_tensors(tmp_path, lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    with pytest.raises(ValueError, match=rf"tensor '{name}' is of type {dtype}; expected one of"):
        load(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan(tmp_path, bilm, value):
    save(bilm, tmp_path)
    name = "backward_lstm.layers.0.state_weight"
    edit_tensors(tmp_path, lambda tensors: tensors[name].view(-1)[:2].fill_(value))
    with pytest.raises(
        ValueError, match=rf"'{name}' of shape \(80, 12\) has 2 values that are NaN"
    ):
        load(tmp_path)
    with torch.no_grad():
        bilm.get_parameter(name)[3, 4] = value
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=rf"not written: tensor '{name}' .* has 1 values"):
        save(bilm, tmp_path)
    with pytest.raises(ValueError, match=rf"The biLM was not written: tensor '{name}'"):
        to_bytes(bilm)
    assert (tmp_path / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "change, message",
    [
        ({"format_version": 2}, r"format_version is 2; this version of spacy-elmo reads 1"),
        ({"format_version": None}, r"format_version is None"),
        ({"bilm": None}, r"bilm is None; expected an object of biLM settings"),
        ({"metadata": ["x"]}, r"metadata is \['x'\]; expected an object"),
        ({"bilm": {"filters": [[1, 2]], "cell_size": 3}}, r"Missing biLM setting 'projection_dim'"),
        ({"bilm": {"size": 3}}, r"Unknown biLM setting 'size'"),
        (
            {"bilm": {"filters": [[1, 2]], "cell_size": "3", "projection_dim": 4}},
            r"biLM setting 'cell_size' is '3'; expected a whole number",
        ),
    ],
)
def test_wrong_config(tmp_path, bilm, change, message):
    save(bilm, tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **change}))
    with pytest.raises(ValueError, match=f"config.json: {message}"):
        load(tmp_path)


def test_a_config_of_something_else(tmp_path, bilm):
    save(bilm, tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    with pytest.raises(ValueError, match="config.json has no format_version; expected .* biLM"):
        load(tmp_path)


def test_config_that_is_no_json(tmp_path, bilm):
    save(bilm, tmp_path)
    (tmp_path / "config.json").write_text('{"bilm": ')
    with pytest.raises(ValueError, match=r"config.json is no valid JSON in UTF-8"):
        load(tmp_path)


def test_absurd_number_of_layers(tmp_path, bilm):
    save(bilm, tmp_path)
    edit_tensors(tmp_path, lambda tensors: None, keep_header=False)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"n_layers": 2', '"n_layers": 2000000000'))
    with pytest.raises(ValueError, match=r"tensors; expected more for the 2000000000 LSTM layers"):
        load(tmp_path)


def test_files_of_two_saves(tmp_path, make_bilm):
    # Such a pair has equal shapes, but the vectors would be wrong.
    save(make_bilm(), tmp_path / "a")
    save(make_bilm(use_skip_connections=False), tmp_path / "b")
    (tmp_path / "a" / "config.json").replace(tmp_path / "b" / "config.json")
    with pytest.raises(
        ValueError,
        match=r"config.json and model.safetensors were not saved together: they disagree on "
        r"use_skip_connections \(True and False\)",
    ):
        load(tmp_path / "b")
    assert not load(tmp_path / "b" / "model.safetensors").config.use_skip_connections


def test_file_without_settings_cannot_be_read_alone(tmp_path, bilm):
    save(bilm, tmp_path)
    edit_tensors(tmp_path, lambda tensors: None, keep_header=False)
    assert_same(load(tmp_path), bilm)
    with pytest.raises(
        ValueError, match=r"no biLM settings in its header .*beside its config.json"
    ):
        load(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"The bytes of a biLM has no biLM settings"):
        from_bytes((tmp_path / "model.safetensors").read_bytes())


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop(WORDS), f"missing tensor '{WORDS}', a dictionary; the setting 'words' is"),
        (
            lambda t: t.update({CODE_POINTS: pack(["a"])}),
            f"unexpected tensor '{CODE_POINTS}', a dictionary; the setting 'code_points' is None",
        ),
        (
            lambda t: t.update({WORDS: t[WORDS][: len(pack(["<S>", "</S>", "<UNK>"]))].clone()}),
            f"tensor '{WORDS}', a dictionary, has 3 entries; expected 5, as the settings say",
        ),
        (
            lambda t: t.update({WORDS: t[WORDS][:-1].clone()}),
            f"tensor '{WORDS}' is no dictionary: expected entries in UTF-8",
        ),
        (lambda t: t.update({WORDS: t[WORDS].float()}), f"tensor '{WORDS}' is no dictionary: exp"),
    ],
)
def test_faulty_dictionary(tmp_path, make_bilm, change, message):
    save(make_bilm(words={"dim": 7}), tmp_path)
    edit_tensors(tmp_path, change)
    with pytest.raises(ValueError, match=f"model.safetensors: {message}"):
        load(tmp_path)


def test_word_table_without_a_size(tmp_path, make_bilm):
    save(make_bilm(words={"dim": 7}), tmp_path)
    edit_tensors(tmp_path, lambda tensors: tensors.pop(WORDS), keep_header=False)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"n_words": 5', '"n_words": null'))
    with pytest.raises(ValueError, match="'words.n_words' is None; expected the number of words"):
        load(tmp_path)
