"""Tensors of ELMoForManyLangs to a biLM's parameters: one table for each of its two files."""

from dataclasses import dataclass
from typing import Callable, List, Mapping, Set, Tuple

import torch
from torch import Tensor, nn

from ..bilm import BiLMConfig
from .checks import Shape
from .state import token_layer_shapes

OUR_PREFIX = "token_layer."


@dataclass(frozen=True)
class Row:
    """A tensor of a file.

    :param tensor: its name.
    :param shape: its shape.
    :param parts: parameters, and what the tensor adds to each of them.
    """

    tensor: str
    shape: Shape
    parts: Tuple[Tuple[str, Callable[[Tensor], Tensor]], ...]


def same(values: Tensor) -> Tensor:
    return values


def first_half(values: Tensor) -> Tensor:
    return values[: len(values) // 2]


def minus_second_half(values: Tensor) -> Tensor:
    """AllenNLP's gate lets through what ours holds back: sigmoid(-x) = 1 - sigmoid(x)."""
    return -values[len(values) // 2 :]


def token_embedder_table(config: BiLMConfig) -> List[Row]:
    """Every tensor of ``token_embedder.pkl`` for a biLM of these sizes."""
    theirs = {
        "word_embedding": "word_emb_layer.embedding",
        "char_embedding": "char_emb_layer.embedding",
    }
    rows: List[Row] = []
    for parameter, shape in token_layer_shapes(config).items():
        layer, _, rest = parameter.removeprefix(OUR_PREFIX).partition(".")
        if layer != "highways":
            name = f"{theirs.get(layer, layer)}.{rest}"
            rows.append(Row(name, shape, ((parameter, same),)))
    # One linear layer a highway layer: above the candidate, below the gate.
    size = config.n_filters
    for number in range(config.n_highway):
        for kind, shape in (("weight", (2 * size, size)), ("bias", (2 * size,))):
            name = f"{OUR_PREFIX}highways.{number}"
            parts = (
                (f"{name}.transform.{kind}", first_half),
                (f"{name}.gate.{kind}", minus_second_half),
            )
            rows.append(Row(f"highways._layers.{number}.{kind}", shape, parts))
    return rows


def encoder_table(config: BiLMConfig) -> List[Row]:
    """Every tensor of ``encoder.pkl`` for a biLM of these sizes. Gates stand in our order, and
    the forget gate's bias is whole."""
    return _elmo_table(config) if config.encoder == "elmo" else _lstm_table(config)


def _elmo_table(config: BiLMConfig) -> List[Row]:
    projection, cell = config.projection_dim, config.cell_size
    rows: List[Row] = []
    for direction in ("forward", "backward"):
        for number in range(config.n_layers):
            name, ours = f"{direction}_layer_{number}", f"{direction}_lstm.layers.{number}"
            for tensor, parameter, shape in (
                ("input_linearity.weight", "input_weight", (4 * cell, projection)),
                ("state_linearity.weight", "state_weight", (4 * cell, projection)),
                ("state_linearity.bias", "bias", (4 * cell,)),
                ("state_projection.weight", "projection_weight", (projection, cell)),
            ):
                rows.append(Row(f"{name}.{tensor}", shape, ((f"{ours}.{parameter}", same),)))
    return rows


def _lstm_table(config: BiLMConfig) -> List[Row]:
    projection, cell = config.projection_dim, config.cell_size
    rows: List[Row] = []
    for direction, suffix in (("forward", ""), ("backward", "_reverse")):
        for number, input_size in enumerate(config.layer_inputs):
            ours, layer = f"{direction}_lstm.layers.{number}", f"l{number}{suffix}"
            for tensor, parameter, shape in (
                ("weight_ih", "input_weight", (4 * cell, input_size)),
                ("weight_hh", "state_weight", (4 * cell, cell)),
                # torch's LSTM has two biases, of which only the sum counts.
                ("bias_ih", "bias", (4 * cell,)),
                ("bias_hh", "bias", (4 * cell,)),
            ):
                name = f"encoder.{tensor}_{layer}"
                rows.append(Row(name, shape, ((f"{ours}.{parameter}", same),)))
    for kind, shape in (("weight", (projection, cell)), ("bias", (projection,))):
        rows.append(Row(f"projection.{kind}", shape, ((f"encoder_projection.{kind}", same),)))
    return rows


def fill(
    parameters: Mapping[str, nn.Parameter], rows: List[Row], tensors: Mapping[str, Tensor]
) -> None:
    """Make each parameter the sum of what the rows give for it."""
    filled: Set[str] = set()
    with torch.no_grad():
        for row in rows:
            for name, transform in row.parts:
                values = transform(tensors[row.tensor])
                if name in filled:
                    parameters[name].add_(values)
                else:
                    parameters[name].copy_(values)
                    filled.add(name)
