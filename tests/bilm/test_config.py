"""Every setting of a biLM: what it may be, and the message where it is something else."""

import json
import pickle
from dataclasses import fields
from math import prod

import pytest

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.config import SettingError
from spacy_elmo.formats.state import parameter_shapes

SIZES = {"filters": [[1, 4], [3, 8]], "projection_dim": 6, "cell_size": 10}

WRONG = {
    "filters": ([], "32", None, 5, [[1]], [[1, 2, 3]], [[1, 2.5]], [[0, 4]], [[4, 0]], ["14"]),
    "projection_dim": (0, -1, "6", 6.0, True, None),
    "cell_size": (0, "10", 10.0, None),
    "n_layers": (0, "2", 2.0, None, False),
    "char_embedding_dim": (0, "16", 16.5),
    "max_characters_per_token": (0, 2, "50"),
    "n_characters": (260, 263, "262", 262.0, None),
    "activation": ("gelu", "RELU", None, 1),
    "n_highway": (-1, "1", 1.0, None),
    "cell_clip": (-3, "3", float("nan"), float("inf"), 10**400, True),
    "proj_clip": (-0.1, [3]),
    "use_skip_connections": (1, "true", None),
    "token_projection": (1, "true", False),
    "cell_projection": (0, "false", False),
    "forget_bias": ("1", None, float("nan"), float("-inf"), True),
    "dropout": (-0.1, 1, 1.5, "0.1", None),
    "char_encoder": ("CNN", "rnn", 1, False),
    "code_points": (6, 0, "90", 90.5, True),
    "words": (100, "100", [100], {}, {"n_words": 5}, {"dim": 5, "size": 3}),
    "encoder": ("gru", None, 1, "ELMo"),
}
# What stands in the block of the word table.
WRONG_WORDS = {
    "dim": (0, "100", 10.5, None, True),
    "n_words": (0, "9", 9.5, True),
    "frozen": (1, "true", None),
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


def test_every_field_is_here():
    assert [field.name for field in fields(BiLMConfig)] == list(WRONG)


@pytest.mark.parametrize("name, value", CASES)
def test_wrong_value_is_named(name, value):
    with pytest.raises(
        SettingError, match=rf"^biLM setting '{name}' is .*; expected .*\.$"
    ) as info:
        BiLMConfig.from_dict({**SIZES, name: value})
    assert info.value.name == name
    # What a process of a pool raises has to reach the one that asked.
    assert str(pickle.loads(pickle.dumps(info.value))) == str(info.value)


@pytest.mark.parametrize(
    "name, value", [(name, value) for name, values in WRONG_WORDS.items() for value in values]
)
def test_wrong_value_of_the_word_table_is_named(name, value):
    with pytest.raises(SettingError, match=rf"^biLM setting 'words.{name}' is .*; expected .*\.$"):
        BiLMConfig.from_dict({**SIZES, "words": {"dim": 7, name: value}})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"char_encoder": None, "filters": []}, "'words' is None; expected a word table, as char_"),
        ({"char_encoder": None, "words": {"dim": 3}}, "'filters' is .*; expected none, as char_en"),
        ({"char_encoder": "lstm"}, "'filters' is .*; expected none, as char_encoder is not 'cnn'"),
        (
            {"char_encoder": None, "filters": [], "words": {"dim": 3}, "code_points": 90},
            "'code_points' is 90; expected none, as char_encoder is none",
        ),
    ],
)
def test_parts_that_contradict_each_other(changes, message):
    with pytest.raises(SettingError, match=message):
        BiLMConfig.from_dict({**SIZES, **changes})


def test_a_biLM_without_optional_parts_is_described_without_them():
    # Files and checkpoints of before stay as they are, and readable for what wrote them.
    assert set(WRONG) - set(BiLMConfig.from_dict(SIZES).to_dict()) == {
        "char_encoder",
        "code_points",
        "words",
        "encoder",
    }


@pytest.mark.parametrize(
    "parts",
    [
        {"words": {"dim": 7, "n_words": 5, "frozen": True}},
        {"char_encoder": None, "filters": [], "words": {"dim": 7}},
        {"char_encoder": "lstm", "filters": [], "code_points": 50},
        {"encoder": "lstm"},
    ],
)
def test_optional_parts_survive_json(parts):
    config = BiLMConfig.from_dict({**SIZES, **parts})
    assert BiLMConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_filter_wider_than_a_word():
    with pytest.raises(
        ValueError, match=r"'filters' is 'a width of 5'; expected widths up to .* \(4\)"
    ):
        BiLMConfig.from_dict({**SIZES, "filters": [[5, 2]], "max_characters_per_token": 4})


def test_unknown_setting():
    with pytest.raises(
        ValueError, match=r"Unknown biLM setting 'dim', 'size'; the settings are fi"
    ):
        BiLMConfig.from_dict({**SIZES, "size": 1, "dim": 2})


def test_missing_setting():
    with pytest.raises(ValueError, match=r"Missing biLM setting 'projection_dim', 'cell_size'\."):
        BiLMConfig.from_dict({"filters": [[1, 2]]})


def test_round_trip_through_json():
    config = BiLMConfig.from_dict({**SIZES, "cell_clip": None, "activation": "tanh"})
    assert BiLMConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config.to_dict()["filters"] == SIZES["filters"]


def test_no_clipping_may_be_written_as_0():
    assert BiLMConfig.from_dict({**SIZES, "cell_clip": 0, "proj_clip": 0.0}) == (
        BiLMConfig.from_dict({**SIZES, "cell_clip": None, "proj_clip": None})
    )


def test_projections_are_there_where_sizes_differ():
    config = BiLMConfig.from_dict(SIZES)
    assert (config.token_projection, config.cell_projection) == (True, True)
    config = BiLMConfig.from_dict({**SIZES, "projection_dim": 12, "cell_size": 12})
    assert (config.token_projection, config.cell_projection) == (False, False)
    config = BiLMConfig.from_dict(
        {
            **SIZES,
            "projection_dim": 12,
            "cell_size": 12,
            "token_projection": True,
            "cell_projection": True,
        }
    )
    assert (config.token_projection, config.cell_projection) == (True, True)


@pytest.mark.parametrize("n_filters, n_layers", [(12, 1), (20, 3)])
def test_width_is_that_of_the_vectors(n_filters, n_layers):
    config = BiLMConfig.from_dict({**SIZES, "filters": [[1, n_filters]], "n_layers": n_layers})
    assert config.n_filters == n_filters
    assert config.width == 12
    (layers,) = BiLM(config).embed([["a", "b", "c"]])
    assert layers.shape == (n_layers + 1, 3, config.width)


def test_published_sizes():
    # "About 94 M parameters" for the original, 28 M for the medium, 14 M for the small model.
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    for cell_size, projection_dim, n_highway, expected in (
        (4096, 512, 2, 94),
        (2048, 256, 1, 28),
        (1024, 128, 1, 14),
    ):
        config = BiLMConfig(
            filters=filters,
            projection_dim=projection_dim,
            cell_size=cell_size,
            n_highway=n_highway,
        )
        n_parameters = sum(prod(shape) for shape in parameter_shapes(config).values())
        assert round(n_parameters / 1e6) == expected
