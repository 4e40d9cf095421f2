"""Datasets of bilm-tf's HDF5 file, to and from a biLM's parameters: one table for both ways."""

from dataclasses import dataclass
from typing import Callable, List, Tuple

import numpy
from numpy.typing import NDArray

from ..bilm import BiLMConfig
from ..bilm.config import N_BYTE_CHARACTERS
from .checks import Shape

Floats = NDArray[numpy.float32]


@dataclass(frozen=True)
class Transform:
    """How a dataset's values lie in our parameters. Each direction only moves values, so that a
    file read and written again is the same to the last bit.

    :param to_parameters: a dataset's array to one array a parameter.
    :param to_dataset: the reverse.
    """

    to_parameters: Callable[[Floats], Tuple[Floats, ...]]
    to_dataset: Callable[..., Floats]


@dataclass(frozen=True)
class Row:
    """A line of the table.

    :param dataset: path in the file.
    :param shape: shape in the file.
    :param parameters: names of the parameters that hold its values.
    :param transform: how they hold them.
    """

    dataset: str
    shape: Shape
    parameters: Tuple[str, ...]
    transform: Transform


def swap_gates(array: Floats) -> Floats:
    """Blocks of the first axis: input, candidate, forget, output (TensorFlow) to input, forget,
    candidate, output (ours), and back."""
    in_gate, second, third, out_gate = numpy.split(array, 4, axis=0)
    return numpy.concatenate([in_gate, third, second, out_gate], axis=0)


def _split_gate_matrix(array: Floats) -> Tuple[Floats, ...]:
    # The input's rows stand above the recurrent ones; both are projection_dim.
    return tuple(numpy.split(swap_gates(array.T), 2, axis=1))


def _join_gate_matrix(input_weight: Floats, state_weight: Floats) -> Floats:
    return swap_gates(numpy.concatenate([input_weight, state_weight], axis=1)).T


SAME = Transform(lambda array: (array,), lambda array: array)
TRANSPOSED = Transform(lambda array: (array.T,), lambda array: array.T)
# (1, width, char dim, count) to torch's (count, char dim, width).
CONVOLUTION = Transform(
    lambda array: (array[0].transpose(2, 1, 0),), lambda array: array.transpose(2, 1, 0)[None]
)
GATE_BIAS = Transform(lambda array: (swap_gates(array),), swap_gates)
GATE_MATRIX = Transform(_split_gate_matrix, _join_gate_matrix)


def cell_path(direction: int, layer: int) -> str:
    """Where the datasets of an LSTM layer lie; direction 0 is forward, 1 backward."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def dataset_table(config: BiLMConfig) -> List[Row]:
    """Every dataset of a biLM of these sizes."""
    char_dim, n_filters = config.char_embedding_dim, config.n_filters
    cell, projection = config.cell_size, config.projection_dim
    rows = [
        Row(
            "char_embed",
            (N_BYTE_CHARACTERS, char_dim),
            ("token_layer.char_embedding.weight",),
            SAME,
        )
    ]
    for i, (width, count) in enumerate(config.filters):
        name = f"token_layer.convolutions.{i}"
        kernel = (1, width, char_dim, count)
        rows.append(Row(f"CNN/W_cnn_{i}", kernel, (f"{name}.weight",), CONVOLUTION))
        rows.append(Row(f"CNN/b_cnn_{i}", (count,), (f"{name}.bias",), SAME))
    for i in range(config.n_highway):
        for theirs, ours in (("carry", "gate"), ("transform", "transform")):
            path, name = f"CNN_high_{i}", f"token_layer.highways.{i}.{ours}"
            square = (n_filters, n_filters)
            rows.append(Row(f"{path}/W_{theirs}", square, (f"{name}.weight",), TRANSPOSED))
            rows.append(Row(f"{path}/b_{theirs}", (n_filters,), (f"{name}.bias",), SAME))
    if config.token_projection:
        name, shape = "token_layer.projection", (n_filters, projection)
        rows.append(Row("CNN_proj/W_proj", shape, (f"{name}.weight",), TRANSPOSED))
        rows.append(Row("CNN_proj/b_proj", (projection,), (f"{name}.bias",), SAME))
    for direction, stack in enumerate(("forward_lstm", "backward_lstm")):
        for layer in range(config.n_layers):
            path, name = cell_path(direction, layer), f"{stack}.layers.{layer}"
            weights = (f"{name}.input_weight", f"{name}.state_weight")
            rows.append(Row(f"{path}/W_0", (2 * projection, 4 * cell), weights, GATE_MATRIX))
            rows.append(Row(f"{path}/B", (4 * cell,), (f"{name}.bias",), GATE_BIAS))
            if config.cell_projection:
                ours_projection = (f"{name}.projection_weight",)
                rows.append(Row(f"{path}/W_P_0", (cell, projection), ours_projection, TRANSPOSED))
    return rows
