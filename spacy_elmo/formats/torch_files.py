"""Files of tensors that ``torch.save`` wrote. They are pickles, which can run anything when they
are read by an ordinary reader; torch's restricted one is used, and only for tensors."""

import re
from pathlib import Path
from pickle import UnpicklingError
from typing import Dict, Mapping

import torch
from torch import Tensor

# How files of torch from 1.6 on (zip archives) and of older ones (pickles) begin. Its oldest
# format, a tar archive, is refused: torch's restricted reader of it was once found to be unsafe.
_STARTS = (b"PK\x03\x04", b"\x80\x02")

_NAMED = re.compile(r"GLOBAL ([\w.]+)")


def load_tensors(path: Path) -> Dict[str, Tensor]:
    """The tensors of a file by their names, on the CPU. Nothing in the file is run.

    :raises ValueError: the file is damaged, or holds anything but tensors by name.
    """
    with path.open("rb") as file:
        start = file.read(len(_STARTS[0]))
    if not start.startswith(_STARTS):
        raise ValueError(
            f"{path} is no file of torch tensors ({path.stat().st_size} bytes); it was cut short, "
            "or is something else."
        )
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        named = _NAMED.search(str(error))
        what = f" ({named[1]})" if named else ""
        raise ValueError(
            f"{path} holds something other than tensors{what}, or was cut short. Nothing in it was "
            "run. A file of weights has tensors only: do not trust this one."
        ) from error
    except Exception as error:
        # A damaged file fails in many ways.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{path} is no complete file of torch tensors; it was cut short, damaged, or is "
            f"something else ({reason})."
        ) from error
    if not isinstance(found, Mapping):
        raise ValueError(f"{path} holds a {type(found).__name__}; expected tensors by name.")
    for name, values in found.items():
        if not isinstance(name, str) or not isinstance(values, Tensor):
            raise ValueError(
                f"{path}: {name!r} is a {type(values).__name__}; expected tensors by name."
            )
    return dict(found)
