"""In which precision a biLM computes, and where."""

from typing import Literal, Tuple

import torch

Precision = Literal["float32", "bfloat16"]
PRECISIONS: Tuple[Precision, ...] = ("float32", "bfloat16")


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """The context in which products on a device have a precision, whatever the caller's own.

    :raises ValueError: the precision is unknown, or the device does not have it.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}; expected one of {', '.join(PRECISIONS)}.")
    is_low = precision == "bfloat16"
    if is_low and not has_bfloat16(device):
        raise ValueError(
            f"precision is 'bfloat16', which this device ({device}) does not have; set precision "
            "= 'float32', or use a CPU or a CUDA GPU that has it."
        )
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_low)


def has_bfloat16(device: torch.device) -> bool:
    """Can a device form products of bfloat16? A CPU always can, if not always fast."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return device.type == "cpu"
