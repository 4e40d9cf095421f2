"""Parameters of AllenNLP's ELMo modules, to a biLM's parameters.

Its highway gate keeps the input where bilm-tf's lets the new value through, so gate weights change
their sign. Its gates of an LSTM stand in our order, and the 1.0 that TensorFlow adds to the forget
gate is part of its bias.
"""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List, Mapping

import torch
from torch import Tensor

from ..bilm import BiLMConfig
from ..bilm.config import N_BYTE_CHARACTERS
from .checks import Shape

CHARACTERS = "_token_embedder._char_embedding_weights"
# What belongs to a biLM; beside it may stand a cache of word vectors, which follow from it.
BILM = re.compile(r"_token_embedder\.|_elmo_lstm\.")
FORGET_BIAS = 1.0


@dataclass(frozen=True)
class Row:
    """A line of the table.

    :param name: the parameter in AllenNLP's module of the biLM.
    :param shape: its shape.
    :param to_parameters: its values to ours by name.
    """

    name: str
    shape: Shape
    to_parameters: Callable[[Tensor], Dict[str, Tensor]]


def _same(name: str, values: Tensor) -> Dict[str, Tensor]:
    return {name: values}


def _without_mask(name: str, values: Tensor) -> Dict[str, Tensor]:
    # The first row stands for tokens that are not there.
    return {name: values[1:]}


def _halves(name: str, part: str, values: Tensor) -> Dict[str, Tensor]:
    transform, gate = values.chunk(2)
    return {f"{name}.transform.{part}": transform, f"{name}.gate.{part}": -gate}


def _without_forget_bias(name: str, values: Tensor) -> Dict[str, Tensor]:
    in_gate, forget_gate, candidate, out_gate = values.chunk(4)
    return {name: torch.cat([in_gate, forget_gate - FORGET_BIAS, candidate, out_gate])}


def parameter_table(config: BiLMConfig) -> List[Row]:
    """Every parameter of a biLM of these sizes, which has both projections."""
    char_dim, n_filters = config.char_embedding_dim, config.n_filters
    cell, projection = config.cell_size, config.projection_dim
    characters = partial(_without_mask, "token_layer.char_embedding.weight")
    rows = [Row(CHARACTERS, (N_BYTE_CHARACTERS + 1, char_dim), characters)]

    def add(theirs: str, shape: Shape, ours: str) -> None:
        rows.append(Row(theirs, shape, partial(_same, ours)))

    for i, (width, count) in enumerate(config.filters):
        theirs, ours = f"_token_embedder.char_conv_{i}", f"token_layer.convolutions.{i}"
        add(f"{theirs}.weight", (count, char_dim, width), f"{ours}.weight")
        add(f"{theirs}.bias", (count,), f"{ours}.bias")
    for i in range(config.n_highway):
        theirs, ours = f"_token_embedder._highways._layers.{i}", f"token_layer.highways.{i}"
        shapes: Dict[str, Shape] = {
            "weight": (2 * n_filters, n_filters),
            "bias": (2 * n_filters,),
        }
        for part, shape in shapes.items():
            rows.append(Row(f"{theirs}.{part}", shape, partial(_halves, ours, part)))
    theirs, ours = "_token_embedder._projection", "token_layer.projection"
    add(f"{theirs}.weight", (projection, n_filters), f"{ours}.weight")
    add(f"{theirs}.bias", (projection,), f"{ours}.bias")
    for direction in ("forward", "backward"):
        for i in range(config.n_layers):
            theirs, ours = f"_elmo_lstm.{direction}_layer_{i}", f"{direction}_lstm.layers.{i}"
            gates = (4 * cell, projection)
            add(f"{theirs}.input_linearity.weight", gates, f"{ours}.input_weight")
            add(f"{theirs}.state_linearity.weight", gates, f"{ours}.state_weight")
            bias = partial(_without_forget_bias, f"{ours}.bias")
            rows.append(Row(f"{theirs}.state_linearity.bias", (4 * cell,), bias))
            state_projection = f"{theirs}.state_projection.weight"
            add(state_projection, (projection, cell), f"{ours}.projection_weight")
    return rows


def config_from_shapes(found: Mapping[str, Tensor], file: Path) -> BiLMConfig:
    """The settings of a biLM whose options are not known: sizes from its weights, the rest as in
    all options that AllenNLP published.

    :param found: the parameters by their names in AllenNLP's module of the biLM.
    :raises ValueError: a parameter that tells a size is missing or has no such shape.
    """

    def shape(name: str, n_dimensions: int) -> Shape:
        if name not in found or found[name].ndim != n_dimensions:
            what = f"has shape {tuple(found[name].shape)}" if name in found else "is missing"
            raise ValueError(
                f"{file}: parameter {name!r} of its ELMo {what}; expected {n_dimensions} "
                "dimensions, which tell sizes."
            )
        return tuple(found[name].shape)

    def count(pattern: str) -> int:
        return sum(re.fullmatch(pattern, name) is not None for name in found)

    _, char_dim = shape(CHARACTERS, 2)
    filters = []
    for i in range(count(r"_token_embedder\.char_conv_\d+\.weight")):
        n_filters, _, width = shape(f"_token_embedder.char_conv_{i}.weight", 3)
        filters.append((width, n_filters))
    projection, cell = shape("_elmo_lstm.forward_layer_0.state_projection.weight", 2)
    try:
        return BiLMConfig(
            filters=tuple(filters),
            char_embedding_dim=char_dim,
            n_highway=count(r"_token_embedder\._highways\._layers\.\d+\.weight"),
            projection_dim=projection,
            cell_size=cell,
            n_layers=count(r"_elmo_lstm\.forward_layer_\d+\.state_projection\.weight"),
            token_projection=True,
            cell_projection=True,
            forget_bias=FORGET_BIAS,
        )
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
