"""Models of AllenNLP that contain an ELMo: ``config.json`` and ``weights.th``. The biLM and its
scalar mixes are read, the rest of the model is left.

The sizes follow from the weights. What does not (activation, clipping) stands in the options file
that AllenNLP up to 0.9 puts into its archives; later ones only name the place it was read from.
"""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import torch
from torch import Tensor

from ..bilm import BiLM, BiLMConfig
from .allennlp_parameters import BILM, CHARACTERS, config_from_shapes, parameter_table
from .bilm_tf_options import config_from_options
from .checks import (
    check_counts,
    check_finite,
    check_names,
    check_shape,
    listed,
    read_json_object,
)
from .format import Format
from .state import DTYPES, new_bilm
from .torch_files import load_tensors

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "weights.th"
# The options in an archive are named by their place in the config, fta/...options_file.
OPTIONS_PATTERNS = ("*options_file", "*options*.json")

MIX = re.compile(r"scalar_mix_(\d+)\.gamma$")


def read(path: Path) -> BiLM:
    """The biLM of a model in a directory, or in one ``weights.th`` beside its ``config.json``.

    ``metadata["scalar_mixes"]`` lists the mixes of layers that the model learned: ``weights``
    (after the softmax), ``gamma``, and whether the layers were normed first (``layer_norm``).

    :raises ValueError: a file is missing or damaged, or holds no ELMo, or more than one.
    """
    directory = path if path.is_dir() else path.parent
    file = path / WEIGHTS_FILE if path.is_dir() else path
    if not (directory / CONFIG_FILE).is_file():
        raise ValueError(f"{file} needs its {CONFIG_FILE} beside it; {directory} has none.")
    settings = read_json_object(directory / CONFIG_FILE)
    tensors = load_tensors(file)
    place = _find_bilm(tensors, file)
    found = {name[len(place) :]: values for name, values in tensors.items() if _is_at(name, place)}
    config, why = _read_config(found, directory, file)
    check_counts(file, "parameter", len(found), config)
    table = parameter_table(config)
    check_names(file, "parameter", found, {row.name: row.shape for row in table}, why)
    bilm = new_bilm(config)
    parameters = dict(bilm.named_parameters())
    for row in table:
        values = found[row.name]
        check_shape(file, "parameter", f"{place}{row.name}", tuple(values.shape), row.shape, why)
        if values.dtype not in DTYPES or values.layout != torch.strided:
            raise ValueError(
                f"{file}: parameter '{place}{row.name}' is of type {values.dtype} "
                f"({values.layout}); expected float32."
            )
        check_finite(file, "parameter", f"{place}{row.name}", values)
        with torch.no_grad():
            for name, ours in row.to_parameters(values.float()).items():
                parameters[name].copy_(ours)
    mixes = _read_mixes(tensors, place, config.n_layers + 1, _norms_layers(settings), file)
    if mixes:
        bilm.metadata = {"scalar_mixes": mixes}
    return bilm


def write(bilm: BiLM, path: Path) -> None:
    """Not possible.

    :raises ValueError: always.
    """
    raise ValueError(
        f"{path} was not written: a model of AllenNLP is more than its ELMo, so the format is read "
        "only. Use the native format, or bilm-tf's, from which AllenNLP builds its models."
    )


def matches(path: Path) -> bool:
    """Does a directory hold the weights of a model, or is this one such file?"""
    if path.is_dir():
        return (path / WEIGHTS_FILE).is_file()
    return path.suffix == ".th"


def _find_bilm(tensors: Mapping[str, Tensor], file: Path) -> str:
    """Where in the model the biLM is: what the names of its parameters start with."""
    places = [name.removesuffix(CHARACTERS) for name in tensors if name.endswith(CHARACTERS)]
    if not places:
        raise ValueError(
            f"{file} holds no ELMo: no parameter's name ends with '{CHARACTERS}'. It has: "
            f"{listed(tensors) or 'nothing'}."
        )
    first, *others = places
    # A module that is used in two places is saved under both names.
    different = [place for place in others if not _are_same(tensors, first, place)]
    if different:
        raise ValueError(
            f"{file} holds more than one biLM, whose weights differ: "
            f"{listed(repr(place) for place in (first, *different))}; expected one."
        )
    return first


def _is_at(name: str, place: str) -> bool:
    return name.startswith(place) and bool(BILM.match(name, len(place)))


def _are_same(tensors: Mapping[str, Tensor], first: str, second: str) -> bool:
    one, other = (
        {name[len(place) :]: values for name, values in tensors.items() if _is_at(name, place)}
        for place in (first, second)
    )
    return one.keys() == other.keys() and all(
        torch.equal(values, other[name]) for name, values in one.items()
    )


def _read_config(
    found: Mapping[str, Tensor], directory: Path, file: Path
) -> Tuple[BiLMConfig, str]:
    """The biLM's settings, and where they are from."""
    files = sorted({option for pattern in OPTIONS_PATTERNS for option in directory.rglob(pattern)})
    contents = {option.read_bytes(): option for option in files}
    if len(contents) > 1:
        raise ValueError(
            f"{directory} holds {len(contents)} files of options that differ; expected one: "
            f"{listed(str(option.relative_to(directory)) for option in contents.values())}."
        )
    for option in contents.values():
        config = config_from_options(read_json_object(option), option)
        # AllenNLP has both projections whatever the sizes.
        config = replace(config, token_projection=True, cell_projection=True)
        return config, f"{option.relative_to(directory)}"
    config = config_from_shapes(found, file)
    warnings.warn(
        f"{file.name}: the options of its ELMo are not in the model, so all that its weights do "
        "not tell is taken as in every ELMo that AllenNLP published: activation "
        f"{config.activation}, {config.max_characters_per_token} bytes a token, cells and "
        f"projections clipped at {config.cell_clip}. If it had others, put its options.json "
        f"beside {WEIGHTS_FILE}.",
        UserWarning,
        stacklevel=2,
    )
    return config, "the shapes of its weights"


def _read_mixes(
    tensors: Mapping[str, Tensor], place: str, n_layers: int, layer_norm: bool, file: Path
) -> List[Dict[str, Any]]:
    # The mixes belong to the module around the biLM.
    outer = place.removesuffix("_elmo_lstm.")
    numbers = sorted(
        int(match[1])
        for name in tensors
        if name.startswith(outer) and (match := MIX.fullmatch(name, len(outer)))
    )
    mixes: List[Dict[str, Any]] = []
    for number in numbers:
        name = f"{outer}scalar_mix_{number}."
        names = [f"{name}gamma", *(f"{name}scalar_parameters.{i}" for i in range(n_layers))]
        values: List[Tensor] = []
        for parameter in names:
            if parameter not in tensors:
                raise ValueError(
                    f"{file}: missing parameter {parameter!r}: a mix of {n_layers} layers has "
                    f"gamma and {n_layers} scalar parameters."
                )
            value = tensors[parameter].float()
            check_shape(file, "parameter", parameter, tuple(value.shape), (1,), "a scalar mix")
            check_finite(file, "parameter", parameter, value)
            values.append(value)
        gamma, *scalars = values
        weights = torch.softmax(torch.cat(scalars), dim=0).tolist()
        mixes.append({"weights": weights, "gamma": gamma.item(), "layer_norm": layer_norm})
    return mixes


def _norms_layers(settings: Any) -> bool:
    return any(block.get("do_layer_norm") is True for block in _blocks(settings))


def _blocks(settings: Any) -> Iterator[Mapping[str, Any]]:
    """All objects of a config, at any depth."""
    if isinstance(settings, dict):
        yield settings
    values = settings.values() if isinstance(settings, dict) else settings
    if isinstance(settings, (dict, list)):
        for value in values:
            yield from _blocks(value)


ALLENNLP = Format(
    name="allennlp",
    contents=f"{CONFIG_FILE} and {WEIGHTS_FILE} of a model that contains an ELMo",
    patterns=(CONFIG_FILE, WEIGHTS_FILE, *OPTIONS_PATTERNS),
    matches=matches,
    read=read,
    write=write,
)
