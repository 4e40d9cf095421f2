"""The format of this package: ``config.json`` and ``model.safetensors``.

``config.json`` holds the biLM's settings, the version of the format and, optionally, metadata.
``model.safetensors`` holds the weights under their names in :class:`BiLM`, as float32 or float16,
the dictionaries of word and character tables, where there are such tables, and the same text as
``config.json`` in its header, so that it can be read alone and a pair of files that do not
belong together is noticed.
"""

import json
from pathlib import Path
from typing import Any, Callable, Dict, Literal, Mapping, Optional, Tuple, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ..bilm import BiLM, BiLMConfig
from ..bilm.config import SettingError
from .atomic import write_together
from .checks import (
    Source,
    check_counts,
    check_finite,
    check_names,
    check_shape,
    parse_json_object,
    read_json_object,
)
from .format import Format
from .state import (
    DICTIONARIES,
    DTYPES,
    new_bilm,
    parameter_shapes,
    read_dictionaries,
    state_tensors,
    warm_state_shapes,
)

FORMAT_VERSION = 1
CONFIG_FILE = "config.json"
MODEL_FILE = "model.safetensors"

# The one key in the header's metadata; with more of them the order, so the file, would vary.
HEADER_KEY = "spacy_elmo"
# What safetensors calls them.
TYPE_NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}

# The types that are written. bfloat16 keeps 8 bits of a value where float16 keeps 11.
Precision = Literal["float32", "float16"]
PRECISIONS: Dict[Precision, torch.dtype] = {"float32": torch.float32, "float16": torch.float16}

Contents = Tuple[Dict[str, Tensor], Optional[str]]
T = TypeVar("T")


def to_bytes(
    bilm: BiLM,
    metadata: Optional[Mapping[str, Any]] = None,
    precision: Precision = "float32",
) -> bytes:
    """Everything about a biLM in one piece, which is also a valid ``model.safetensors``.

    :param metadata: what to keep beside the settings in place of the biLM's own metadata.
    :param precision: the type of the stored weights, ``float32`` or ``float16``.
    :raises ValueError: a weight is NaN or infinite, or too large for the type.
    """
    tensors = state_tensors(bilm, "The biLM", _dtype(precision))
    return _pack(tensors, config_text(bilm, metadata))


def from_bytes(data: bytes) -> BiLM:
    """The biLM that :func:`to_bytes` made the bytes of, on the CPU, in evaluation mode.

    :raises ValueError: the bytes are cut short, or are something else.
    """
    source = "The bytes of a biLM"

    def parse() -> Contents:
        tensors = load_safetensors(data)
        n_header = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + n_header])
        return tensors, header.get("__metadata__", {}).get(HEADER_KEY)

    tensors, text = _without_traceback(source, parse)
    return build(tensors, *parse_header(text, source), source)


def write(
    bilm: BiLM,
    path: Path,
    metadata: Optional[Mapping[str, Any]] = None,
    precision: Precision = "float32",
) -> None:
    """Write ``config.json`` and ``model.safetensors``, both or neither. Other files of the
    directory, like ``vocab.txt``, stay.

    :param metadata: what ``config.json`` keeps in place of the biLM's own metadata.
    :param precision: the type of the stored weights, ``float32`` or ``float16``.
    :raises ValueError: a weight is NaN or infinite, or too large for the type, or the path is a
        file.
    """
    text = config_text(bilm, metadata)
    data = _pack(state_tensors(bilm, path, _dtype(precision)), text)
    write_together(
        path,
        {
            CONFIG_FILE: lambda file: _write_bytes(file, text.encode("utf-8")),
            MODEL_FILE: lambda file: _write_bytes(file, data),
        },
    )


def read(path: Path) -> BiLM:
    """The biLM in a directory with both files, or in one ``.safetensors`` file alone.

    :raises ValueError: a file is damaged, or the two do not belong together.
    """
    file = path / MODEL_FILE if path.is_dir() else path

    def parse() -> Contents:
        with safe_open(file, framework="pt") as handle:
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}
            return tensors, (handle.metadata() or {}).get(HEADER_KEY)

    tensors, text = _without_traceback(file, parse)
    if not path.is_dir():
        return build(tensors, *parse_header(text, file), file)
    config_file = path / CONFIG_FILE
    config, metadata = parse_config(read_json_object(config_file), config_file)
    # Other tools, which make half-precision copies for instance, may drop the header's text.
    if text is not None and (own := parse_header(text, file)[0]) != config:
        differing = [
            f"{name} ({getattr(config, name)!r} and {getattr(own, name)!r})"
            for name in {**config.to_dict(), **own.to_dict()}
            if getattr(config, name) != getattr(own, name)
        ]
        raise ValueError(
            f"{config_file} and {MODEL_FILE} were not saved together: they disagree on "
            f"{', '.join(differing)}. Save the biLM again, or load {MODEL_FILE} alone, "
            "which holds its own settings."
        )
    return build(tensors, config, metadata, file)


def build(
    tensors: Mapping[str, Tensor],
    config: BiLMConfig,
    metadata: Mapping[str, Any],
    source: Source,
) -> BiLM:
    """A biLM of these settings with these weights.

    :raises ValueError: weights and settings do not fit each other.
    """
    check_counts(source, "tensor", len(tensors), config)
    dictionaries = read_dictionaries(tensors, config, source)
    weights = {name: tensors[name] for name in tensors if name not in DICTIONARIES.values()}
    try:
        expected = parameter_shapes(config)
    except SettingError as error:
        raise ValueError(f"{source}: {error}") from error
    # The warm state is optional, but one half of it is of no use.
    if any(name in weights for name in warm_state_shapes(config)):
        expected.update(warm_state_shapes(config))
    why = f"the settings in {CONFIG_FILE} or in the header"
    check_names(source, "tensor", weights, expected, why)
    for name, shape in expected.items():
        check_shape(source, "tensor", name, tuple(weights[name].shape), shape, why)
        if weights[name].dtype not in DTYPES:
            raise ValueError(
                f"{source}: tensor {name!r} is of type {weights[name].dtype}; "
                f"expected one of {', '.join(map(str, DTYPES))}."
            )
        check_finite(source, "tensor", name, weights[name])
    bilm = new_bilm(config, **dictionaries)
    for name in warm_state_shapes(config):
        if name in weights:
            setattr(bilm, name, torch.empty(expected[name]))
    bilm.load_state_dict(tensors)
    bilm.metadata = dict(metadata)
    return bilm


def stored_type(path: Path) -> str:
    """The type, or the types, of the weights of a directory or file that :func:`read` reads."""
    file = path / MODEL_FILE if path.is_dir() else path

    def parse() -> str:
        with safe_open(file, framework="pt") as handle:
            found = {handle.get_slice(name).get_dtype() for name in handle.keys()}
        return ", ".join(sorted(TYPE_NAMES.get(name, name) for name in found))

    return _without_traceback(file, parse)


def config_text(bilm: BiLM, metadata: Optional[Mapping[str, Any]] = None) -> str:
    """The text of ``config.json``; ``metadata`` stands in place of the biLM's own."""
    values: Dict[str, Any] = {"format_version": FORMAT_VERSION, "bilm": bilm.config.to_dict()}
    metadata = bilm.metadata if metadata is None else metadata
    if metadata:
        values["metadata"] = dict(metadata)
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def parse_config(values: Mapping[str, Any], source: Source) -> Tuple[BiLMConfig, Mapping[str, Any]]:
    """The settings and the metadata in the object of ``config.json``.

    :raises ValueError: another version, or a setting is unknown, missing or wrong.
    """
    if "format_version" not in values:
        raise ValueError(
            f"{source} has no format_version; expected the settings of a biLM in the native "
            f"format, with format_version {FORMAT_VERSION}."
        )
    if values["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"{source}: format_version is {values['format_version']!r}; this version of "
            f"spacy-elmo reads {FORMAT_VERSION}. A newer spacy-elmo may read the file."
        )
    if not isinstance(values.get("bilm"), dict):
        raise ValueError(
            f"{source}: bilm is {values.get('bilm')!r}; expected an object of biLM settings."
        )
    metadata = values.get("metadata", {})
    if not isinstance(metadata, dict):
        raise ValueError(f"{source}: metadata is {metadata!r:.80}; expected an object.")
    try:
        return BiLMConfig.from_dict(values["bilm"]), metadata
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def parse_header(text: Optional[str], source: Source) -> Tuple[BiLMConfig, Mapping[str, Any]]:
    """The settings and the metadata in the header of ``model.safetensors``.

    :raises ValueError: there are none, so the file cannot be read alone.
    """
    if text is None:
        raise ValueError(
            f"{source} has no biLM settings in its header ({HEADER_KEY!r}); expected a file "
            f"written by spacy-elmo, or one beside its {CONFIG_FILE} (give the directory)."
        )
    where = f"{source} (header)"
    return parse_config(parse_json_object(text, where), where)


def matches(path: Path) -> bool:
    """Does a directory hold both files, or is this one safetensors file?"""
    if path.is_dir():
        return (path / CONFIG_FILE).is_file() and (path / MODEL_FILE).is_file()
    with path.open("rb") as file:
        start = file.read(9)
    # Eight bytes of header length, then the header, a JSON object.
    is_safetensors = start[8:] == b"{" and int.from_bytes(start[:8], "little") < (
        path.stat().st_size
    )
    return is_safetensors or path.suffix == ".safetensors"


def _dtype(precision: Precision) -> torch.dtype:
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision is {precision!r}; expected {' or '.join(map(repr, PRECISIONS))}."
        )
    return PRECISIONS[precision]


def _pack(tensors: Dict[str, Tensor], text: str) -> bytes:
    return save_safetensors(tensors, metadata={HEADER_KEY: text})


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _without_traceback(source: Source, parse: Callable[[], T]) -> T:
    try:
        return parse()
    # A damaged header can name types and offsets of any kind, which fail in many ways.
    except (SafetensorError, KeyError, TypeError, ValueError, OSError, RuntimeError) as error:
        raise ValueError(
            f"{source} is no complete safetensors file; it was cut short or is something else "
            f"({error})."
        ) from error


NATIVE = Format(
    name="native",
    contents=f"{CONFIG_FILE} and {MODEL_FILE}",
    patterns=(CONFIG_FILE, MODEL_FILE),
    matches=matches,
    read=read,
    write=write,
    stored_type=stored_type,
)
