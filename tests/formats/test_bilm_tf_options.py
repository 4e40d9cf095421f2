"""Every field of options.json: what it may be, and the message where it is something else."""

import pytest

from spacy_elmo import BiLM
from spacy_elmo.formats import load
from spacy_elmo.formats.bilm_tf_options import (
    OPTIONS,
    config_from_options,
    options_from_bilm,
)

from .. import oracle

WRONG = {
    "char_cnn.filters": ([], "32", None, 5, [[1]], [[1, 2.5]], [[0, 4]], [["1", 4]], [[51, 4]]),
    "char_cnn.activation": ("gelu", None, 1, ["relu"]),
    "char_cnn.embedding.dim": (0, -1, "16", 16.0, True, None),
    "char_cnn.max_characters_per_token": (0, 2, "50", 50.5, None),
    "char_cnn.n_characters": (260, 263, "262", 262.0, True),
    "char_cnn.n_highway": (-1, "2", 1.0),
    "lstm.dim": (0, "4096", 4096.0, None, 1e400),
    "lstm.projection_dim": (0, "512", None),
    "lstm.n_layers": (0, "2", 2.0),
    "lstm.cell_clip": (-3, "3", float("nan"), float("inf"), True, 10**400),
    "lstm.proj_clip": (-3, "3", [3]),
    "lstm.use_skip_connections": (1, "true", None),
    "dropout": (-0.1, 1, "0.1"),
}
CASES = [(field, value) for field, values in WRONG.items() for value in values]


def put(options, field, value):
    *groups, name = field.split(".")
    for group in groups:
        options = options[group]
    if value is ...:
        options.pop(name, None)
    else:
        options[name] = value


def test_every_field_is_here():
    assert [option.field for option in OPTIONS] == list(WRONG)


@pytest.mark.parametrize("field, value", CASES)
def test_wrong_value_names_file_and_field(field, value):
    options = oracle.make_options()
    put(options, field, value)
    with pytest.raises(ValueError, match=rf"^the file: {field} is .*; expected .*\.$"):
        config_from_options(options, "the file")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.field)
def test_missing_field(option):
    options = oracle.make_options()
    put(options, option.field, ...)
    if option.is_required:
        with pytest.raises(ValueError, match=rf"^the file has no {option.field}; every options"):
            config_from_options(options, "the file")
    else:
        config = config_from_options(options, "the file")
        assert getattr(config, option.setting) == option.default


def test_defaults_of_bilm_tf():
    options = oracle.make_options(n_layers=..., n_highway=..., cell_clip=..., proj_clip=...)
    config = config_from_options(options, "the file")
    assert (config.n_layers, config.n_highway) == (1, 0)
    assert (config.cell_clip, config.proj_clip) == (None, None)


@pytest.mark.parametrize("group", ["char_cnn", "char_cnn.embedding", "lstm"])
@pytest.mark.parametrize("value", [None, [], 3, "x"])
def test_group_that_is_no_object(group, value):
    options = oracle.make_options()
    put(options, group, value)
    with pytest.raises(ValueError, match=rf"^the file: {group} is .*; expected an object\.$"):
        config_from_options(options, "the file")


def test_word_input_model(tmp_path):
    options = oracle.make_options()
    oracle.write_files(tmp_path, options, oracle.make_datasets(options))
    del options["char_cnn"]
    oracle.write_files(tmp_path, options, {})
    with pytest.raises(ValueError, match=r"options.json has no char_cnn: .* word-input model"):
        load(tmp_path)


def test_options_of_a_config_give_the_config():
    options = oracle.make_options(n_layers=3, cell_clip=..., dropout=0.25, activation="tanh")
    config = config_from_options(options, "the file")
    assert config.dropout == 0.25
    assert config_from_options(options_from_bilm(BiLM(config)), "the file") == config


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", r"options.json is no valid JSON in UTF-8"),
        (b'{"lstm": {', r"options.json is no valid JSON in UTF-8"),
        (b'{"lstm": "\xff"}', r"options.json is no valid JSON in UTF-8"),
        (b"[" * 100_000, r"options.json is no valid JSON in UTF-8"),
        (b"[]", r"options.json holds a JSON list; expected an object"),
    ],
)
def test_file_that_is_no_json_object(tmp_path, data, message):
    oracle.write_files(tmp_path, oracle.make_options(), {})
    (tmp_path / "options.json").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


def test_file_with_a_byte_order_mark(tmp_path):
    options = oracle.make_options()
    oracle.write_files(tmp_path, options, oracle.make_datasets(options))
    text = (tmp_path / "options.json").read_bytes()
    (tmp_path / "options.json").write_bytes(b"\xef\xbb\xbf" + text)
    load(tmp_path)
