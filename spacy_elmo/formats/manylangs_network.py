"""The network file of an ELMoForManyLangs model, found and read into a biLM's settings."""

import warnings
from pathlib import Path, PureWindowsPath
from typing import Any, Collection, Dict, Mapping, Optional, Tuple

from ..bilm import BiLMConfig, WordTable
from ..bilm.config import SettingError
from .checks import Source, listed, read_json_object

CONFIG_FILE = "config.json"

# Words are not cut where an LSTM reads their characters; a word of a billion ones would be.
UNLIMITED = 10_000

#: The sizes that the network files which come with the tool describe. Models of the tool's authors
#: were trained with one of these, and are published without it.
PUBLISHED: Dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
    "dropout": 0.1,
}
PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")

#: Where a setting is in the file.
FIELDS = {
    "filters": "token_embedder.filters",
    "activation": "token_embedder.activation",
    "n_highway": "token_embedder.n_highway",
    "max_characters_per_token": "token_embedder.max_characters_per_token",
    "char_embedding_dim": "token_embedder.char_dim",
    "words.dim": "token_embedder.word_dim",
    "words": "token_embedder.word_dim and token_embedder.char_dim",
    "projection_dim": "encoder.projection_dim",
    "cell_size": "encoder.dim",
    "n_layers": "encoder.n_layers",
    "cell_clip": "encoder.cell_clip",
    "proj_clip": "encoder.proj_clip",
    "dropout": "dropout",
}


def find_network(directory: Path, tensors: Collection[str]) -> Tuple[Dict[str, Any], Source]:
    """The network that a model directory's ``config.json`` names.

    Its ``config_path`` is a path of the author's machine as a rule, so a file of that name in the
    directory is taken, or else what the tool itself has under the name.

    :param tensors: names of the token embedder's tensors, which tell what parts it has.
    :returns: the network, and its place for messages.
    :raises ValueError: a file is missing or faulty.
    """
    config_file = directory / CONFIG_FILE
    given = read_json_object(config_file).get("config_path")
    if not isinstance(given, str) or not given:
        raise ValueError(
            f"{config_file}: config_path is {given!r}; expected the path of the network's file."
        )
    path = PureWindowsPath(given)
    is_inside = not path.anchor and ".." not in path.parts
    for file in ((directory.joinpath(*path.parts),) if is_inside else ()) + (
        directory / path.name,
    ):
        if file.is_file():
            return read_json_object(file), file
    if path.name not in PUBLISHED_NAMES:
        there = listed(sorted(file.name for file in directory.glob("*.json")))
        raise ValueError(
            f"{config_file}: config_path is {given!r}, but {directory} has no {path.name}, which "
            f"gives the sizes of the network (JSON files there: {there}). Expected that file, or "
            f"one that the tool itself has: {', '.join(PUBLISHED_NAMES)}."
        )
    warnings.warn(
        f"{directory} has no {path.name}, which {CONFIG_FILE} names ({given}); the sizes that "
        "ELMoForManyLangs itself has under this name are used.",
        UserWarning,
        stacklevel=2,
    )
    embedder = dict(PUBLISHED["token_embedder"])
    for part in ("word", "char"):
        if f"{part}_emb_layer.embedding.weight" not in tensors:
            embedder[f"{part}_dim"] = 0
    return {**PUBLISHED, "token_embedder": embedder}, f"{path.name} of ELMoForManyLangs"


def has_table(network: Mapping[str, Any], part: str, source: Source) -> bool:
    """Whether the token embedder has a table of ``word`` or ``char`` vectors.

    :raises ValueError: its size is no number.
    """
    size = _find(network, f"token_embedder.{part}_dim", source)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(
            f"{source}: token_embedder.{part}_dim is {size!r}; expected a whole number, 0 for none."
        )
    return size > 0


def config_from_network(
    network: Mapping[str, Any],
    source: Source,
    n_words: Optional[int],
    n_code_points: Optional[int],
) -> BiLMConfig:
    """The settings that a network file describes.

    :param source: the file, for messages.
    :param n_words: entries of the word table, none if there is none.
    :param n_code_points: entries of the table of characters, none if there is none.
    :raises ValueError: a field is missing or wrong; the message names it.
    """
    encoder = _find_name(network, "encoder", ("elmo", "lstm"), source)
    embedder = _find_name(network, "token_embedder", ("cnn", "lstm"), source)
    values: Dict[str, Any] = {
        "projection_dim": _find(network, "encoder.projection_dim", source),
        "cell_size": _find(network, "encoder.dim", source),
        "n_layers": _find(network, "encoder.n_layers", source),
        "dropout": network.get("dropout", 0.1),
        "filters": (),
        "char_encoder": None,
        "token_projection": True,
        "cell_projection": True,
        # The file's own bias has what TensorFlow would add.
        "forget_bias": 0.0,
        "encoder": encoder,
    }
    if encoder == "elmo":
        for name in ("cell_clip", "proj_clip"):
            values[name] = _find(network, f"encoder.{name}", source)
    if n_code_points is not None:
        values["char_encoder"] = embedder
        values["code_points"] = n_code_points
        values["char_embedding_dim"] = _find(network, "token_embedder.char_dim", source)
        values["max_characters_per_token"] = UNLIMITED
        if embedder == "cnn":
            for name in ("filters", "activation", "n_highway", "max_characters_per_token"):
                values[name] = _find(network, FIELDS[name], source)
    try:
        if n_words is not None:
            values["words"] = WordTable(
                _find(network, "token_embedder.word_dim", source), n_words=n_words
            )
        return BiLMConfig(**values)
    except SettingError as error:
        field = FIELDS.get(error.name, error.name)
        raise ValueError(
            f"{source}: {field} is {error.value!r}; expected {error.expected}."
        ) from error


def _find_name(
    network: Mapping[str, Any], group: str, known: Tuple[str, ...], source: Source
) -> str:
    name = _find(network, f"{group}.name", source)
    if not isinstance(name, str) or name.lower() not in known:
        raise ValueError(f"{source}: {group}.name is {name!r}; expected one of {', '.join(known)}.")
    return name.lower()


def _find(network: Mapping[str, Any], field: str, source: Source) -> Any:
    group, _, name = field.partition(".")
    block = network.get(group)
    if not isinstance(block, Mapping):
        raise ValueError(f"{source}: {group} is {block!r}; expected an object.")
    if name not in block:
        raise ValueError(f"{source} has no {field}; every network file needs it.")
    return block[name]
