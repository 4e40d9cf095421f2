"""The machine that is measured, and its clock."""

import platform
import time
from pathlib import Path
from typing import Any, Callable, Dict

import torch

_CPU_INFO = Path("/proc/cpuinfo")


def describe_machine(device: torch.device) -> Dict[str, Any]:
    """What the numbers depend on beside the code."""
    is_cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_cuda else _read_cpu("model name"),
        "device_type": device.type,
        "n_threads": torch.get_num_threads(),
        "has_amx": "amx_bf16" in _read_cpu("flags").split(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
    }


def time_it(function: Callable[[], object], device: torch.device) -> float:
    """Seconds that a function takes, with all that it starts on the device."""
    synchronize(device)
    begin = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - begin


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _read_cpu(name: str) -> str:
    """A field of the first CPU as Linux tells it; elsewhere what Python knows."""
    if _CPU_INFO.is_file():
        for line in _CPU_INFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return "" if name == "flags" else platform.processor()
