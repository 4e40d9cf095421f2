"""The weights of a biLM by name, checked on their way in and out."""

from typing import Dict, List, Mapping, Sequence

import torch
from torch import Tensor

from ..bilm import BiLM, BiLMConfig
from ..bilm.config import SettingError
from ..bilm.dictionary import unpack
from .checks import Shape, Source, check_finite

#: The tensor of each dictionary of a biLM, by the argument of :class:`BiLM` that it is.
DICTIONARIES = {
    "words": "token_layer.word_dictionary",
    "code_points": "token_layer.char_dictionary",
}

# The types that weights may have in a file.
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def parameter_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """Name and shape of every parameter of a biLM, known before any memory is taken for it."""
    projection, cell, hidden = config.projection_dim, config.cell_size, config.hidden_size
    shapes = token_layer_shapes(config)
    for direction in ("forward_lstm", "backward_lstm"):
        for number, input_size in enumerate(config.layer_inputs):
            name = f"{direction}.layers.{number}"
            shapes[f"{name}.input_weight"] = (4 * cell, input_size)
            shapes[f"{name}.state_weight"] = (4 * cell, hidden)
            shapes[f"{name}.bias"] = (4 * cell,)
            if config.cell_projection and config.encoder == "elmo":
                shapes[f"{name}.projection_weight"] = (projection, cell)
    if config.encoder == "lstm":
        shapes["encoder_projection.weight"] = (projection, cell)
        shapes["encoder_projection.bias"] = (projection,)
    return shapes


def token_layer_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """Name and shape of every parameter of a biLM's token layer."""
    n_filters, char_dim = config.n_filters, config.char_embedding_dim
    shapes: Dict[str, Shape] = {}
    if config.words is not None:
        if config.words.n_words is None:
            raise SettingError("words.n_words", None, "the number of words of saved weights")
        shapes["token_layer.word_embedding.weight"] = (config.words.n_words, config.words.dim)
    if config.char_encoder is not None:
        shapes["token_layer.char_embedding.weight"] = (config.n_char_embeddings, char_dim)
    if config.char_encoder == "lstm":
        for direction in ("", "_reverse"):
            for part in ("ih", "hh"):
                name = f"l0{direction}"
                shapes[f"token_layer.char_lstm.weight_{part}_{name}"] = (4 * char_dim, char_dim)
                shapes[f"token_layer.char_lstm.bias_{part}_{name}"] = (4 * char_dim,)
    for number, (width, count) in enumerate(config.filters):
        name = f"token_layer.convolutions.{number}"
        shapes[f"{name}.weight"] = (count, char_dim, width)
        shapes[f"{name}.bias"] = (count,)
    for number in range(config.n_highway):
        for part in ("gate", "transform"):
            name = f"token_layer.highways.{number}.{part}"
            shapes[f"{name}.weight"] = (n_filters, n_filters)
            shapes[f"{name}.bias"] = (n_filters,)
    if config.token_projection:
        shapes["token_layer.projection.weight"] = (config.projection_dim, config.token_dim)
        shapes["token_layer.projection.bias"] = (config.projection_dim,)
    return shapes


def read_dictionaries(
    tensors: Mapping[str, Tensor], config: BiLMConfig, source: Source
) -> Dict[str, List[str]]:
    """The dictionaries among the tensors of a file, as arguments of :class:`BiLM`.

    :param tensors: everything that the file holds.
    :raises ValueError: one is missing, damaged, or has more or fewer entries than ``config``
        says; or one is there that the biLM has no table for.
    """
    sizes = {
        "words": None if config.words is None else config.words.n_words,
        "code_points": config.code_points,
    }
    found: Dict[str, List[str]] = {}
    for argument, name in DICTIONARIES.items():
        size = sizes[argument]
        if (size is None) != (name not in tensors):
            state = "missing" if size is not None else "unexpected"
            raise ValueError(
                f"{source}: {state} tensor {name!r}, a dictionary; the setting {argument!r} is "
                f"{getattr(config, argument)!r}."
            )
        if size is None:
            continue
        try:
            entries = unpack(tensors[name])
        except ValueError as error:
            raise ValueError(f"{source}: tensor {name!r} is {error}.") from error
        if len(entries) != size:
            raise ValueError(
                f"{source}: tensor {name!r}, a dictionary, has {len(entries)} entries; expected "
                f"{size}, as the settings say."
            )
        found[argument] = entries
    return found


def warm_state_shapes(config: BiLMConfig) -> Dict[str, Shape]:
    """Name and shape of the warm state, which a biLM may have."""
    return {
        "warm_hidden": (2, config.n_layers, config.hidden_size),
        "warm_cell": (2, config.n_layers, config.cell_size),
    }


def new_bilm(config: BiLMConfig, **dictionaries: Sequence[str]) -> BiLM:
    """A biLM in evaluation mode whose weights are to be filled in. Reading a file leaves the
    random numbers of a program as they are.

    :param dictionaries: those of :class:`BiLM`.
    """
    with torch.random.fork_rng(devices=[]):
        return BiLM(config, **dictionaries).eval()


def state_tensors(
    bilm: BiLM, source: Source, dtype: torch.dtype = torch.float32
) -> Dict[str, Tensor]:
    """The weights to save, on the CPU, with the warm state if there is one, and the dictionaries
    as bytes.

    :param source: the place they go to, for the message.
    :param dtype: the type to save them in.
    :raises ValueError: a value is NaN or infinite, or too large for the type.
    """
    tensors: Dict[str, Tensor] = {}
    for name, values in bilm.state_dict().items():
        values = values.detach().to("cpu")
        if not values.is_floating_point():
            tensors[name] = values.contiguous()
            continue
        where = f"{source} was not written"
        values = values.to(torch.float32)
        check_finite(where, "tensor", name, values)
        largest = torch.finfo(dtype).max
        if float(values.abs().max()) > largest:
            raise ValueError(
                f"{where}: tensor {name!r} has values up to {float(values.abs().max()):g}; "
                f"{dtype} holds {largest:g} at most. Save it as float32."
            )
        tensors[name] = values.to(dtype).contiguous()
    return tensors
