"""The weights of a biLM by name, checked on their way in and out."""

from typing import Dict

import torch
from torch import Tensor

from ..bilm import BiLM, BiLMConfig
from ..bilm.config import N_BYTE_CHARACTERS
from .checks import Shape, Source, check_finite


def parameter_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """Name and shape of every parameter of a biLM, known before any memory is taken for it."""
    n_filters, projection, cell = config.n_filters, config.projection_dim, config.cell_size
    shapes: Dict[str, Shape] = {
        "token_layer.char_embedding.weight": (N_BYTE_CHARACTERS, config.char_embedding_dim)
    }
    for number, (width, count) in enumerate(config.filters):
        name = f"token_layer.convolutions.{number}"
        shapes[f"{name}.weight"] = (count, config.char_embedding_dim, width)
        shapes[f"{name}.bias"] = (count,)
    for number in range(config.n_highway):
        for part in ("gate", "transform"):
            name = f"token_layer.highways.{number}.{part}"
            shapes[f"{name}.weight"] = (n_filters, n_filters)
            shapes[f"{name}.bias"] = (n_filters,)
    if config.token_projection:
        shapes["token_layer.projection.weight"] = (projection, n_filters)
        shapes["token_layer.projection.bias"] = (projection,)
    for direction in ("forward_lstm", "backward_lstm"):
        for number in range(config.n_layers):
            name = f"{direction}.layers.{number}"
            shapes[f"{name}.input_weight"] = (4 * cell, projection)
            shapes[f"{name}.state_weight"] = (4 * cell, projection)
            shapes[f"{name}.bias"] = (4 * cell,)
            if config.cell_projection:
                shapes[f"{name}.projection_weight"] = (projection, cell)
    return shapes


def warm_state_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """Name and shape of the warm state, which a biLM may have."""
    return {
        "warm_hidden": (2, config.n_layers, config.projection_dim),
        "warm_cell": (2, config.n_layers, config.cell_size),
    }


def new_bilm(config: BiLMConfig) -> BiLM:
    """A biLM in evaluation mode whose weights are to be filled in. Reading a file leaves the
    random numbers of a program as they are."""
    with torch.random.fork_rng(devices=[]):
        return BiLM(config).eval()


def state_tensors(bilm: BiLM, source: Source) -> Dict[str, Tensor]:
    """The weights to save, float32 on the CPU, with the warm state if there is one.

    :param source: the place they go to, for the message.
    :raises ValueError: a value is NaN or infinite.
    """
    tensors: Dict[str, Tensor] = {}
    for name, values in bilm.state_dict().items():
        tensors[name] = values.detach().to("cpu", torch.float32).contiguous()
        check_finite(f"{source} was not written", "tensor", name, tensors[name])
    return tensors
