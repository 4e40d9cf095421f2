"""A trained language model on disk: a native biLM, its vocabulary and its softmax."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import torch
from catalogue import RegistryError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ..bilm import BiLM
from ..bilm.softmax import SoftmaxHead
from ..formats import to_bytes
from ..formats.checks import check_finite, check_names, parse_json_object
from ..formats.companions import SOFTMAX_FILE, VOCABULARY_FILE
from ..formats.native import CONFIG_FILE, MODEL_FILE, config_text
from ..registry import softmax_heads
from .files import write_files
from .lm import LanguageModel
from .vocabulary import Vocabulary

# The key of the softmax file's metadata that holds the head's config block as JSON.
HEAD = "head"
FULL_SOFTMAX = '{"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}'


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
    :param metadata: what ``config.json`` keeps in place of the biLM's own metadata.
    :raises ValueError: a weight is NaN or infinite, or the path is a file.
    """
    stored_as = {HEAD: json.dumps(model.head.stored_as)}
    files: Dict[str, bytes] = {
        CONFIG_FILE: config_text(model.bilm, metadata).encode("utf-8"),
        MODEL_FILE: to_bytes(model.bilm, metadata),
        VOCABULARY_FILE: vocabulary.to_bytes(),
        SOFTMAX_FILE: save_safetensors(_tensors(model.head), stored_as),
    }
    write_files(Path(path), files)


def load_language_model(
    path: Union[str, "PathLike[str]"],
) -> Tuple[LanguageModel, Vocabulary]:
    """Read what :func:`save_language_model` wrote. A head that was trained by sampling comes back
    as a full softmax.

    :raises FileNotFoundError: there is nothing at the path.
    :raises ValueError: a file is missing or damaged, or the files do not belong together.
    """
    path = Path(path)
    if path.exists():
        _require_softmax(path)
    model, vocabulary = with_softmax(BiLM.from_pretrained(path), path)
    return model.eval(), vocabulary


def with_softmax(bilm: BiLM, path: Path) -> Tuple[LanguageModel, Vocabulary]:
    """A biLM with the softmax and the vocabulary of a directory that :func:`save_language_model`
    wrote.

    :raises ValueError: as :func:`load_language_model`.
    """
    _require_softmax(path)
    vocabulary = Vocabulary.from_disk(path / VOCABULARY_FILE)
    head = _read_head(path / SOFTMAX_FILE, bilm.config.projection_dim, len(vocabulary))
    return LanguageModel(bilm, head.to(bilm.device)).train(bilm.training), vocabulary


def has_softmax(path: Union[str, "PathLike[str]"]) -> bool:
    """Whether a model has the files that :func:`load_language_model` needs beside the biLM."""
    return all((Path(path) / name).is_file() for name in (VOCABULARY_FILE, SOFTMAX_FILE))


def _require_softmax(path: Path) -> None:
    if not has_softmax(path):
        missing = [n for n in (VOCABULARY_FILE, SOFTMAX_FILE) if not (path / n).is_file()]
        raise ValueError(
            f"{path} has no {' and no '.join(missing)}: a biLM without its softmax gives vectors, "
            "but no probabilities. Expected a directory that spacy elmo train wrote, such as "
            "model-best."
        )


def _read_head(path: Path, projection_dim: int, n_words: int) -> SoftmaxHead:
    try:
        with safe_open(path, framework="pt") as file:
            # Files of the first version have no metadata.
            block = parse_json_object((file.metadata() or {}).get(HEAD, FULL_SOFTMAX), path)
            found = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise ValueError(f"{path}: {error}") from error
    name = block.pop("@softmax_heads", None)
    try:
        make_head = softmax_heads.get(name)
    except RegistryError:
        raise ValueError(
            f"{path} is of the softmax head {name!r}, which is not installed. Available: "
            f"{', '.join(sorted(softmax_heads.get_all()))}."
        ) from None
    try:
        head: SoftmaxHead = make_head(**block)(projection_dim, torch.ones(n_words))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: the settings of {name}: {error}") from error
    why = f"{VOCABULARY_FILE} ({n_words} entries) and {CONFIG_FILE}"
    expected = {tensor: tuple(values.shape) for tensor, values in head.state_dict().items()}
    check_names(path, "tensor", found, expected, why)
    for tensor, shape in expected.items():
        if tuple(found[tensor].shape) != shape:
            raise ValueError(
                f"{path}: tensor {tensor!r} is {tuple(found[tensor].shape)}; expected {shape}, as "
                f"{why} say."
            )
        check_finite(path, "tensor", tensor, found[tensor])
    try:
        head.load_state_dict(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return head


def _tensors(head: SoftmaxHead) -> Dict[str, Tensor]:
    return {name: values.cpu().contiguous() for name, values in head.state_dict().items()}
