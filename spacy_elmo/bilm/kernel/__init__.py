"""The recurrence of the LSTM layers compiled for the CPU, for inference.

torch needs a dozen operations for a step, and each of them goes over all gates in memory and is
shared among threads that wait for each other. Here a thread runs whole layers of one direction, and
the gates of a few cells never leave the registers. It is built where there is a C compiler (GCC or
Clang) when the package is installed; where it is missing, torch's operations do the same.
"""

from .library import Variant, find_variant, variants
from .recurrence import Chain, CompiledRecurrence, run_chains

__all__ = ["Chain", "CompiledRecurrence", "Variant", "find_variant", "run_chains", "variants"]
