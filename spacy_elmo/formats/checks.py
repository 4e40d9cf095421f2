"""What every file is checked for; each failure is one message that names file and place."""

import json
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, Mapping, Tuple, Union

import torch
from torch import Tensor

from ..bilm import BiLMConfig

# Names that a message lists before it only counts the rest.
MAX_LISTED = 10

Source = Union[Path, str]
Shape = Tuple[int, ...]


def read_json_object(path: Path) -> Dict[str, Any]:
    """The JSON object in a file.

    :raises ValueError: the file is not UTF-8, not JSON, or not an object.
    """
    return parse_json_object(path.read_bytes(), path)


def parse_json_object(data: Union[bytes, str], source: Source) -> Dict[str, Any]:
    """The JSON object in a text; ``source`` says in messages where it is from."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is no valid JSON in UTF-8: {error}.") from error
    if not isinstance(values, dict):
        raise ValueError(f"{source} holds a JSON {type(values).__name__}; expected an object.")
    return values


def check_counts(source: Source, kind: str, n_found: int, config: BiLMConfig) -> None:
    """Check that there may be enough tensors, before a list of all their names is made.

    :raises ValueError: there are fewer tensors than layers.
    """
    n_layers = config.n_layers + config.n_highway
    if n_found < n_layers:
        raise ValueError(
            f"{source} has {n_found} {kind}s; expected more for the {config.n_layers} LSTM layers "
            f"and {config.n_highway} highway layers of its settings."
        )


def check_names(
    source: Source, kind: str, found: Collection[str], expected: Mapping[str, Shape], why: str
) -> None:
    """Check that exactly the expected tensors are there.

    :param kind: what the file calls a tensor.
    :param why: where the expectation comes from.
    :raises ValueError: one is missing, or one is there that nothing would read.
    """
    missing = [
        f"{name!r} of shape {shape}" for name, shape in expected.items() if name not in found
    ]
    unexpected = [repr(name) for name in sorted(found) if name not in expected]
    parts = []
    if missing:
        parts.append(f"missing {kind} {listed(missing)}")
    if unexpected:
        parts.append(f"unexpected {kind} {listed(unexpected)}")
    if parts:
        raise ValueError(f"{source}: {'; '.join(parts)}. What is expected follows from {why}.")


def check_shape(
    source: Source, kind: str, name: str, found: Shape, expected: Shape, why: str
) -> None:
    """:raises ValueError: the shapes differ."""
    if tuple(found) != tuple(expected):
        raise ValueError(
            f"{source}: {kind} {name!r} has shape {tuple(found)}; "
            f"expected {tuple(expected)}, which follows from {why}."
        )


def check_finite(source: Source, kind: str, name: str, values: Tensor) -> None:
    """:raises ValueError: a value is NaN or infinite."""
    n_bad = values.numel() - int(torch.isfinite(values).sum())
    if n_bad:
        raise ValueError(
            f"{source}: {kind} {name!r} of shape {tuple(values.shape)} has {n_bad} values that "
            "are NaN or infinite; expected finite weights."
        )


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first few of a long list."""
    names = list(names)
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
