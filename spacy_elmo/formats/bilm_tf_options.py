"""``options.json`` of bilm-tf and AllenNLP, to and from a biLM's settings."""

from dataclasses import dataclass, fields
from typing import Any, Dict, Mapping, Tuple

from ..bilm import BiLM, BiLMConfig
from ..bilm.config import OPTIONAL, SettingError
from .checks import Source


@dataclass(frozen=True)
class Option:
    """A field of ``options.json``.

    :param setting: the biLM setting it stands for.
    :param field: its place in the file, names joined by dots.
    :param is_required: is a file without it an error?
    :param default: the value of a file that leaves it out or gives null.
    """

    setting: str
    field: str
    is_required: bool = True
    default: Any = None


# A field of ours, which bilm-tf and AllenNLP pass over.
METADATA = "metadata"

_DEFAULTS = {field.name: field.default for field in fields(BiLMConfig)}

# Defaults are bilm-tf's. AllenNLP takes the number of characters from the weights, and files for
# prediction lack what only training needs.
OPTIONS: Tuple[Option, ...] = (
    Option("filters", "char_cnn.filters"),
    Option("activation", "char_cnn.activation"),
    Option("char_embedding_dim", "char_cnn.embedding.dim"),
    Option("max_characters_per_token", "char_cnn.max_characters_per_token"),
    Option("n_characters", "char_cnn.n_characters", False, _DEFAULTS["n_characters"]),
    Option("n_highway", "char_cnn.n_highway", False, 0),
    Option("cell_size", "lstm.dim"),
    Option("projection_dim", "lstm.projection_dim"),
    Option("n_layers", "lstm.n_layers", False, 1),
    Option("cell_clip", "lstm.cell_clip", False, None),
    Option("proj_clip", "lstm.proj_clip", False, None),
    Option("use_skip_connections", "lstm.use_skip_connections"),
    Option("dropout", "dropout", False, _DEFAULTS["dropout"]),
)


def config_from_options(options: Mapping[str, Any], source: Source) -> BiLMConfig:
    """The settings that an options file describes, with projections where sizes differ. Fields
    it has beyond ours are ignored: they steer bilm-tf's training.

    :param source: the file, for messages.
    :raises ValueError: a field is missing or wrong, and the message names it; or the options are
        of a model that reads words from a table.
    """
    if "char_cnn" not in options:
        raise ValueError(
            f"{source} has no char_cnn: it is of a word-input model, whose vectors come from a "
            "table of words. bilm-tf can train such a model, but its tools cannot dump it, so "
            "only character models are read from such files."
        )
    values = {option.setting: _find(options, option, source) for option in OPTIONS}
    try:
        return BiLMConfig(**values)
    except SettingError as error:
        field = next(option.field for option in OPTIONS if option.setting == error.name)
        raise ValueError(
            f"{source}: {field} is {error.value!r}; expected {error.expected}."
        ) from error


def metadata_from_options(options: Mapping[str, Any], source: Source) -> Dict[str, Any]:
    """The metadata that :func:`options_from_bilm` kept.

    :raises ValueError: the field is no object.
    """
    metadata = options.get(METADATA, {})
    if not isinstance(metadata, dict):
        raise ValueError(f"{source}: {METADATA} is {metadata!r:.80}; expected an object.")
    return metadata


def options_from_bilm(bilm: BiLM) -> Dict[str, Any]:
    """The options file of a biLM, complete for both tools. "No clipping" is null, the only
    value that both take for it."""
    values = bilm.config.to_dict()
    options: Dict[str, Any] = {}
    for option in OPTIONS:
        *groups, name = option.field.split(".")
        place = options
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = values[option.setting]
    if bilm.metadata:
        options[METADATA] = dict(bilm.metadata)
    return options


def require_sayable(config: BiLMConfig) -> None:
    """:raises ValueError: the biLM has a part that the format has no place for."""
    defaults = {name: _DEFAULTS[name] for name in OPTIONAL}
    parts = [
        f"{name} is {getattr(config, name)!r}"
        for name, default in defaults.items()
        if getattr(config, name) != default
    ]
    if parts:
        raise ValueError(
            f"A bilm-tf file holds biLMs of UTF-8 characters, convolutions and ELMo's LSTM only; "
            f"of this biLM, {'; '.join(parts)}. Use the native format."
        )


def _find(options: Mapping[str, Any], option: Option, source: Source) -> Any:
    value: Any = options
    names = option.field.split(".")
    for depth, name in enumerate(names):
        if not isinstance(value, dict):
            group = ".".join(names[:depth])
            raise ValueError(f"{source}: {group} is {value!r}; expected an object.")
        if name not in value:
            if option.is_required:
                raise ValueError(f"{source} has no {option.field}; every options file needs it.")
            return option.default
        value = value[name]
    return option.default if value is None and not option.is_required else value
