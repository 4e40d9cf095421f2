"""Dictionaries of words and characters as tensors, which travel with the weights wherever those
go: into files, pipelines, checkpoints and copies, never apart from them."""

from typing import Dict, List, Sequence

import torch
from torch import Tensor

# Ends each entry. No text has this byte in UTF-8, so an entry may hold any character.
_END = b"\xff"


def pack(entries: Sequence[str]) -> Tensor:
    """Entries in the order of their ids. *Shape:* (n_bytes,), uint8"""
    data = b"".join(entry.encode("utf-8", "surrogatepass") + _END for entry in entries)
    return (
        torch.frombuffer(bytearray(data), dtype=torch.uint8)
        if data
        else torch.empty(0, dtype=torch.uint8)
    )


def unpack(packed: Tensor) -> List[str]:
    """The reverse of :func:`pack`.

    :raises ValueError: the tensor holds something else.
    """
    data = packed.cpu().numpy().tobytes() if packed.dtype == torch.uint8 else b"?"
    if data and not data.endswith(_END):
        raise ValueError("no dictionary: expected entries in UTF-8, each ended by a byte 255")
    entries = data.split(_END)[:-1]
    try:
        return [entry.decode("utf-8", "surrogatepass") for entry in entries]
    except UnicodeDecodeError as error:
        raise ValueError(f"no dictionary: an entry is not UTF-8 ({error})") from error


def number(entries: Sequence[str], what: str, required: Sequence[str]) -> Dict[str, int]:
    """The id of each entry.

    :param what: the kind of entries, for messages.
    :param required: entries that have to be there.
    :raises ValueError: an entry stands there twice, or a required one is missing.
    """
    ids: Dict[str, int] = {}
    for entry in entries:
        if entry in ids:
            raise ValueError(
                f"The dictionary of {what} has {entry!r} twice, as ids {ids[entry]} and {len(ids)}."
            )
        ids[entry] = len(ids)
    missing = [entry for entry in required if entry not in ids]
    if missing:
        raise ValueError(
            f"The dictionary of {what} ({len(ids)} entries) has no {', '.join(missing)}; "
            f"expected {', '.join(required)} among its entries."
        )
    return ids
