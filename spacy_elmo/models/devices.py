"""Where the biLM of a pipeline computes."""

import re
from typing import Callable, Dict

import torch
from thinc.util import get_torch_default_device

from ..bilm import BiLM

#: "auto" (where spaCy computes), "cpu", "cuda", "cuda:N" or "mps".
DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?|mps")


def check_device(name: str) -> None:
    """
    :raises ValueError: the setting is none of a device.
    """
    if not isinstance(name, str) or not DEVICES.fullmatch(name):
        raise ValueError(
            f"[components.elmo.model] device is {name!r}; expected 'auto', 'cpu', 'cuda', 'cuda:N' "
            "or 'mps'."
        )


def find_device(name: str) -> torch.device:
    """The device that a setting stands for.

    :raises ValueError: torch finds none, or the process is a fork of one that uses it.
    """
    if name == "auto":
        device: torch.device = get_torch_default_device()
    else:
        device = torch.device(name)
    checks: Dict[str, Callable[[], bool]] = {
        "cuda": lambda: (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available,
    }
    if device.type in checks and not checks[device.type]():
        raise ValueError(
            f"[components.elmo.model] device is {name!r}, but torch {torch.__version__} finds no "
            f"such device; set device = 'cpu', or install a torch built for it."
        )
    if device.type == "cuda" and torch.cuda._is_in_bad_fork():
        raise ValueError(
            "nlp.pipe(n_process=...) was called after CUDA was used in this process, and forked "
            "processes cannot use it. Leave n_process at 1, since they would share one GPU anyway; "
            "or set [components.elmo.model] device = 'cpu' in all processes; or start them with "
            "multiprocessing.set_start_method('spawn')."
        )
    return device


def move_to(bilm: BiLM, device: torch.device) -> None:
    """Move a biLM to a device, if it is on another."""
    here = bilm.device
    # "cuda" is whichever CUDA device it is on.
    if here.type != device.type or device.index not in (None, here.index):
        bilm.to(device)
