"""``spacy elmo init-bilm``: configs that are complete, commented and train as they are."""

import inspect
import re
from dataclasses import fields

import pytest

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm import WordTable
from spacy_elmo.training import read_config, train
from spacy_elmo.training.config import TrainingConfig
from spacy_elmo.training.registry import registry
from spacy_elmo.training.settings import TrainingSettings, VocabularySettings, WordsSettings
from spacy_elmo.training.templates import (
    SIZES,
    TOKEN_LAYERS,
    bytes_a_character,
    make_template,
)

from ..training.configs import write_texts
from .commands import invoke, one_line

#: Small numbers in place of those that take hours.
TINY = {
    "bilm.filters": [[1, 4], [2, 6]],
    "bilm.char_embedding_dim": 4,
    "bilm.projection_dim": 6,
    "bilm.cell_size": 8,
    "vocab.min_count": 1,
    "training.softmax.n_samples": 8,
    "training.batch_size": 4,
    "training.max_steps": 2,
    "training.n_threads": 1,
    "training.device": "cpu",
}


#: Settings of parts that only published models have.
ONLY_READ = {"code_points", "encoder"}


def read(directory, size="sm", lang="en", overrides=None, token_layer="characters"):
    """The config that the command writes, with its texts."""
    path = directory / "bilm.cfg"
    options = ("--size", size, "--lang", lang, "--token-layer", token_layer)
    done = invoke("init-bilm", path, *options)
    assert done.exit_code == 0, done.output
    write_texts(directory)
    paths = {f"paths.{name}": str(directory / f"{name}.txt") for name in ("train", "dev")}
    return read_config(path, {**paths, **(overrides or {})})


@pytest.mark.parametrize("size", SIZES)
def test_each_config_trains(tmp_path, size):
    config = read(tmp_path, size, overrides=TINY)
    assert train(config, tmp_path / "out").n_steps == 2
    assert BiLM.from_pretrained(tmp_path / "out" / "model-best").width == 12


@pytest.mark.parametrize("token_layer, size", [("words", "sm"), ("joint", "md")])
def test_each_token_layer_trains(tmp_path, token_layer, size):
    overrides = dict(TINY, **{"bilm.words.dim": 5})
    if token_layer == "words":
        overrides = {name: overrides[name] for name in overrides if "filt" not in name}
        del overrides["bilm.char_embedding_dim"]
    config = read(tmp_path, size, overrides=overrides, token_layer=token_layer)
    assert train(config, tmp_path / "out").n_steps == 2
    bilm = BiLM.from_pretrained(tmp_path / "out" / "model-best")
    assert "the" in bilm.token_layer.reader.words
    assert (bilm.config.char_encoder is None) == (token_layer == "words")


@pytest.mark.parametrize("token_layer", ["words", "joint"])
@pytest.mark.parametrize("size", SIZES)
def test_the_word_table_has_all_its_settings(tmp_path, size, token_layer):
    config = read(tmp_path, size, token_layer=token_layer)
    assert set(config["words"]) == {field.name for field in fields(WordsSettings)}
    assert set(config["bilm"]["words"]) == {field.name for field in fields(WordTable)} - {"n_words"}
    resolved = TrainingConfig.from_dict(config)
    assert resolved.bilm.words.dim == resolved.bilm.projection_dim
    # A vector as it is, where it stands alone.
    assert resolved.bilm.token_projection == (token_layer == "joint")


@pytest.mark.parametrize("size, width", [("sm", 256), ("md", 512), ("original", 1024)])
def test_sizes_are_those_of_their_names(tmp_path, size, width):
    config = TrainingConfig.from_dict(read(tmp_path, size, "de"))
    assert config.train.lang == config.dev.lang == "de"
    assert config.bilm.width == width
    assert config.bilm.n_layers == 2
    assert (config.training.batch_size, config.training.unroll_steps) == (128, 20)


def test_the_original_is_that_of_bilm_tf(tmp_path):
    """As the options.json of the published model says."""
    bilm = TrainingConfig.from_dict(read(tmp_path, "original")).bilm
    assert bilm.n_filters == 2048 and bilm.cell_size == 4096 and bilm.n_highway == 2
    assert (bilm.max_characters_per_token, bilm.n_characters) == (50, 262)
    assert (bilm.cell_clip, bilm.proj_clip, bilm.activation) == (3, 3, "relu")


@pytest.mark.parametrize("size", SIZES)
def test_no_setting_is_missing(tmp_path, size):
    """A new setting has to be added to the template."""
    config = read(tmp_path, size)
    training = config["training"]
    parts = {"softmax", "optimizer", "schedule"}
    names = {field.name for field in fields(BiLMConfig)}
    assert set(config["bilm"]) == names - ONLY_READ - {"words"}
    assert set(config["vocab"]) == {field.name for field in fields(VocabularySettings)}
    assert set(training) - parts == {field.name for field in fields(TrainingSettings)}
    blocks = [
        ("readers", config["corpora"]["train"]),
        ("readers", config["corpora"]["dev"]),
        ("misc", config["corpora"]["train"]["splitter"]),
        ("softmax_heads", training["softmax"]),
        ("torch_optimizers", training["optimizer"]),
        ("torch_schedules", training["schedule"]),
    ]
    for kind, block in blocks:
        function = registry.get(kind, block[f"@{kind}"])
        assert set(block) - {f"@{kind}"} == set(inspect.signature(function).parameters)


@pytest.mark.parametrize("token_layer", TOKEN_LAYERS)
@pytest.mark.parametrize("size", SIZES)
def test_every_setting_has_a_comment(size, token_layer):
    """Above it, or above the one before it where one comment tells of both."""
    text = make_template(size, token_layer=token_layer)
    assert max(map(len, text.splitlines())) <= 100
    # What is not told in a block's own words is a name, or a path that [paths] tells of.
    settings = re.findall(r"(?:^#.*\n)?(?:^\w+ = .*\n)+", text, flags=re.MULTILINE)
    assert len(settings) > 40
    for found in settings:
        if not found.startswith("path = ${"):
            assert found.startswith("#"), found
    assert not re.search("<[a-z_]+>", text)


@pytest.mark.parametrize(
    "lang, n_bytes, n_characters",
    [("en", 1, 50), ("de", 1, 50), ("ru", 2, 98), ("el", 2, 98), ("zh", 3, 146), ("th", 3, 146)],
)
def test_scripts_with_more_bytes_get_longer_tokens(lang, n_bytes, n_characters):
    assert bytes_a_character(lang) == n_bytes
    template = make_template("sm", lang)
    assert f"\nmax_characters_per_token = {n_characters}\n" in template
    assert template.count(f'\nlang = "{lang}"\n') == 1


def test_the_standard_output():
    done = invoke("init-bilm", "-", "--size", "md", "--lang", "de")
    assert done.exit_code == 0
    assert done.stdout == make_template("md", "de")


def test_the_command_to_go_on_with_is_one_line(tmp_path):
    path = tmp_path / ("long name " * 16).strip() / "bilm.cfg"
    done = invoke("init-bilm", path)
    command = f"spacy elmo train '{path}' --output DIR --paths.train TEXT --paths.dev HELD_OUT_TEXT"
    assert done.output.splitlines()[-1] == command


def test_nothing_is_overwritten_unless_asked(tmp_path):
    path = tmp_path / "new" / "bilm.cfg"
    assert invoke("init-bilm", path).exit_code == 0
    path.write_text("mine", encoding="utf-8")
    done = invoke("init-bilm", path)
    assert done.exit_code == 1
    assert "exists; give --force to overwrite it" in one_line(done.output)
    assert path.read_text(encoding="utf-8") == "mine"
    assert invoke("init-bilm", path, "--force").exit_code == 0
    assert path.read_text(encoding="utf-8") == make_template("sm", "en")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--lang", "nolang"], "lang is 'nolang': "),
        (["--size", "xl"], "size is 'xl'; expected one of sm, md, original"),
        (["--token-layer", "bytes"], "token_layer is 'bytes'; expected one of characters, words, "),
    ],
)
def test_faults_are_one_message(tmp_path, options, message):
    done = invoke("init-bilm", tmp_path / "bilm.cfg", *options)
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert message in one_line(done.output)
    assert not list(tmp_path.iterdir())
