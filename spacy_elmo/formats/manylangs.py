"""The format of ELMoForManyLangs: a directory with the weights in two files of torch tensors, their
dictionaries, and the network's sizes in a file that may be missing."""

from pathlib import Path
from typing import Dict, List, Mapping, Optional

import torch
from torch import Tensor

from ..bilm import BiLM
from .checks import check_finite, check_names, check_shape
from .format import Format
from .manylangs_dictionaries import read_code_points, read_words
from .manylangs_network import CONFIG_FILE, config_from_network, find_network, has_table
from .manylangs_tensors import Row, encoder_table, fill, token_embedder_table
from .state import new_bilm
from .torch_files import load_tensors

TOKEN_EMBEDDER_FILE = "token_embedder.pkl"
ENCODER_FILE = "encoder.pkl"
WORD_FILE, CHARACTER_FILE = "word.dic", "char.dic"

_WEIGHTS = (TOKEN_EMBEDDER_FILE, ENCODER_FILE)


def read(path: Path) -> BiLM:
    """The biLM in a model directory, or in the directory of one of its two files of weights.

    :raises ValueError: a file is missing or damaged, holds anything but tensors, or does not fit
        the others; the message names the file, the tensor or field, and both sizes.
    """
    directory = path if path.is_dir() else path.parent
    for name in (*_WEIGHTS, CONFIG_FILE):
        if not (directory / name).is_file():
            raise ValueError(
                f"{directory / name} is missing; a model of ELMoForManyLangs has {CONFIG_FILE}, "
                f"{', '.join(_WEIGHTS)}, {CHARACTER_FILE} and {WORD_FILE}."
            )
    tensors = {name: load_tensors(directory / name) for name in _WEIGHTS}
    network, source = find_network(directory, tensors[TOKEN_EMBEDDER_FILE])
    words: Optional[List[str]] = None
    code_points: Optional[List[str]] = None
    why = [source.name if isinstance(source, Path) else source]
    if has_table(network, "word", source):
        words = read_words(directory / WORD_FILE)
        why.append(f"{WORD_FILE} ({len(words)} entries)")
    if has_table(network, "char", source):
        code_points = read_code_points(directory / CHARACTER_FILE)
        why.append(f"{CHARACTER_FILE} ({len(code_points)} entries)")
    config = config_from_network(
        network,
        source,
        None if words is None else len(words),
        None if code_points is None else len(code_points),
    )
    tables = {
        TOKEN_EMBEDDER_FILE: token_embedder_table(config),
        ENCODER_FILE: encoder_table(config),
    }
    for name, table in tables.items():
        _check(directory / name, tensors[name], table, " and ".join(why))
    dictionaries = {"words": words, "code_points": code_points}
    bilm = new_bilm(config, **{name: d for name, d in dictionaries.items() if d is not None})
    parameters = dict(bilm.named_parameters())
    for name, table in tables.items():
        fill(parameters, table, tensors[name])
    return bilm


def write(bilm: BiLM, path: Path) -> None:
    """Not possible.

    :raises ValueError: always.
    """
    raise ValueError(
        f"{path} was not written: the format of ELMoForManyLangs is read only, as its tool no "
        "longer runs and reads its own dictionaries wrongly. Use the native format."
    )


def matches(path: Path) -> bool:
    """Does a directory have a file of the weights, or is this one of them?"""
    if path.is_dir():
        return any((path / name).is_file() for name in _WEIGHTS)
    return path.name in _WEIGHTS


def _check(path: Path, tensors: Mapping[str, Tensor], table: List[Row], why: str) -> None:
    expected: Dict[str, Row] = {row.tensor: row for row in table}
    shapes = {name: row.shape for name, row in expected.items()}
    check_names(path, "tensor", tensors, shapes, why)
    for name, shape in shapes.items():
        values = tensors[name]
        check_shape(path, "tensor", name, tuple(values.shape), shape, why)
        if values.dtype != torch.float32 or values.layout != torch.strided:
            raise ValueError(
                f"{path}: tensor {name!r} is of type {values.dtype}, {values.layout}; expected "
                "torch.float32, torch.strided."
            )
        check_finite(path, "tensor", name, values)


MANYLANGS = Format(
    name="manylangs",
    contents=f"{CONFIG_FILE}, {TOKEN_EMBEDDER_FILE}, {ENCODER_FILE}, {CHARACTER_FILE} and "
    f"{WORD_FILE} of ELMoForManyLangs",
    # The network's file may have any name.
    patterns=("*.json", TOKEN_EMBEDDER_FILE, ENCODER_FILE, CHARACTER_FILE, WORD_FILE),
    matches=matches,
    read=read,
    write=write,
)
