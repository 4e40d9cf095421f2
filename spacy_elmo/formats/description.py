"""What is known of weights: their format, their sizes, and what is missing."""

import warnings
from pathlib import Path
from typing import Any, Dict, List, Optional

from torch import nn

from ..bilm import BiLM, BiLMConfig
from .companions import COMPANIONS, SOFTMAX_FILE, count_entries, find_companions
from .format import Format
from .loading import AnyPath, opened


def describe(path: AnyPath) -> Dict[str, Any]:
    """What is known of the weights at a path, as JSON-serializable values. They are read and
    checked whole.

    :param path: as for :func:`load`.
    :returns: ``path``, ``format``, ``files`` (bytes by name), ``stored_as`` (types of the weights
        in the file), ``vocabulary`` (entries, or none), ``softmax`` (is there one?), ``missing``,
        ``notes`` (warnings of the reader), and what :func:`describe_bilm` gives.
    :raises FileNotFoundError: there is nothing at the path.
    :raises ValueError: nothing supported is there, or a file is damaged.
    """
    with opened(path, also=COMPANIONS) as (form, place):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bilm = form.read(place)
        companions = find_companions(place)
        found: Dict[str, Any] = {
            "path": str(path),
            "format": form.name,
            "files": {file.name: file.stat().st_size for file in _files(form, place)},
            "stored_as": form.stored_type(place),
            "vocabulary": count_entries(place),
            "softmax": any(file.name == SOFTMAX_FILE for file in companions),
            **describe_bilm(bilm),
        }
    found["missing"] = [name for name in ("warm_state", "softmax", "vocabulary") if not found[name]]
    found["notes"] = [str(warning.message) for warning in caught]
    return found


def describe_bilm(bilm: BiLM) -> Dict[str, Any]:
    """What is known of a biLM, as JSON-serializable values.

    :returns: ``width`` of a vector, ``n_layers`` to mix (the token layer included),
        ``n_parameters``, ``parameters`` by part, ``characters`` (the inventory in words, or none),
        ``words`` (entries of the word table, or none), ``warm_state`` (is there one?),
        ``settings`` (:class:`BiLMConfig`) and ``metadata``.
    """
    parts = {
        "token layer": bilm.token_layer,
        "forward LSTM": bilm.forward_lstm,
        "backward LSTM": bilm.backward_lstm,
        "projection": bilm.encoder_projection,
    }
    return {
        "width": bilm.width,
        "n_layers": bilm.config.mixture_size,
        "n_parameters": _count(bilm),
        "parameters": {name: _count(part) for name, part in parts.items() if part is not None},
        "characters": _characters(bilm.config),
        "words": None if bilm.config.words is None else bilm.config.words.n_words,
        "warm_state": bilm.warm_hidden is not None,
        "settings": bilm.config.to_dict(),
        "metadata": dict(bilm.metadata),
    }


def _characters(config: BiLMConfig) -> Optional[str]:
    if config.char_encoder is None:
        return None
    kind = "UTF-8 bytes" if config.code_points is None else "code points"
    return f"{config.n_char_embeddings} ({kind} and marks)"


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _files(form: Format, place: Path) -> List[Path]:
    """The files that are read, and those that belong to them."""
    directory = place if place.is_dir() else place.parent
    files = {place} if place.is_file() else set()
    for pattern in (*form.patterns, *COMPANIONS):
        files.update(file for file in directory.rglob(pattern) if file.is_file())
    return sorted(files)
