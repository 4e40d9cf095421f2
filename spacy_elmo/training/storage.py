"""A trained language model on disk: a native biLM, its vocabulary and its softmax."""

from os import PathLike
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ..bilm import BiLM
from ..bilm.softmax import FullSoftmax, SoftmaxHead
from ..formats import to_bytes
from ..formats.checks import check_finite
from ..formats.native import CONFIG_FILE, MODEL_FILE, config_text
from .files import write_files
from .lm import LanguageModel
from .vocabulary import Vocabulary

VOCABULARY_FILE = "vocab.txt"
SOFTMAX_FILE = "softmax.safetensors"


def save_language_model(
    model: LanguageModel,
    vocabulary: Vocabulary,
    path: Union[str, "PathLike[str]"],
    metadata: Optional[Mapping[str, Any]] = None,
) -> None:
    """Write ``config.json`` and ``model.safetensors``, which :meth:`BiLM.from_pretrained` reads,
    and beside them ``vocab.txt`` and ``softmax.safetensors``, which scoring and further training
    need. All of them are replaced, or where writing fails, none.

    :param path: a directory, made if it is not there.
    :param metadata: JSON-serializable facts about the weights, kept in ``config.json``.
    :raises ValueError: a weight is NaN or infinite, or the path is a file.
    """
    files: Dict[str, bytes] = {
        CONFIG_FILE: config_text(model.bilm.config, metadata).encode("utf-8"),
        MODEL_FILE: to_bytes(model.bilm, metadata),
        VOCABULARY_FILE: vocabulary.to_bytes(),
        SOFTMAX_FILE: save_safetensors(_softmax_tensors(model.head)),
    }
    write_files(Path(path), files)


def load_language_model(
    path: Union[str, "PathLike[str]"],
) -> Tuple[LanguageModel, Vocabulary]:
    """Read what :func:`save_language_model` wrote, with a full softmax as its head.

    :raises ValueError: a file is missing or damaged, or the files do not belong together.
    """
    path = Path(path)
    bilm = BiLM.from_pretrained(path)
    for name in (VOCABULARY_FILE, SOFTMAX_FILE):
        if not (path / name).is_file():
            raise ValueError(
                f"{path / name} is missing; a biLM without it gives vectors, but no probabilities."
            )
    vocabulary = Vocabulary.from_disk(path / VOCABULARY_FILE)
    try:
        found = load_file(path / SOFTMAX_FILE)
    except SafetensorError as error:
        raise ValueError(f"{path / SOFTMAX_FILE}: {error}") from error
    head = FullSoftmax(bilm.config.projection_dim, torch.ones(len(vocabulary)))
    for name, values in _softmax_tensors(head).items():
        shape = tuple(found[name].shape) if name in found else "missing"
        if shape != tuple(values.shape):
            raise ValueError(
                f"{path / SOFTMAX_FILE}: tensor {name!r} is {shape}; expected "
                f"{tuple(values.shape)}, as {VOCABULARY_FILE} and {CONFIG_FILE} say."
            )
        check_finite(path / SOFTMAX_FILE, "tensor", name, found[name])
        values.copy_(found[name])
    return LanguageModel(bilm, head).eval(), vocabulary


def _softmax_tensors(head: SoftmaxHead) -> Dict[str, Tensor]:
    return {"weight": head.weight.detach().cpu(), "bias": head.bias.detach().cpu()}
