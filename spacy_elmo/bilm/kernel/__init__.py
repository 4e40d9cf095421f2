"""LSTM layers compiled for the CPU: the recurrence for inference, and what gates do in training.

torch needs a dozen operations for what the gates do at a step, and each of them goes over all gates
in memory. Here they are one pass; for inference, a thread runs whole layers of one direction, and
the gates of a few cells never leave the registers. It is built where there is a C compiler (GCC or
Clang) when the package is installed; where it is missing, torch's operations do the same.
"""

from .library import GatesArguments, Variant, address, find_variant, variants
from .recurrence import Chain, CompiledRecurrence, run_chains

__all__ = [
    "Chain",
    "CompiledRecurrence",
    "GatesArguments",
    "Variant",
    "address",
    "find_variant",
    "run_chains",
    "variants",
]
