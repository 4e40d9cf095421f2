"""The compiled library: which variants of the recurrence it has, and how they are called."""

import ctypes
import warnings
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, List, NamedTuple, Optional

import torch
from torch import Tensor

# What the library is called when it is built (setup.py).
NAME = "_kernel"

# Which functions the library has and what they take; the same number stands in kernel.c.
INTERFACE = 1


def address(tensor: Tensor, dtype: torch.dtype, n_rows: int, n_columns: int) -> int:
    """Where a matrix lies, of which the library knows nothing but that.

    :raises ValueError: it is another one than what the library will read or write there.
    """
    if tensor.dtype != dtype or tensor.shape != (n_rows, n_columns) or not tensor.is_contiguous():
        raise ValueError(
            f"A tensor of {tensor.dtype}, shape {tuple(tensor.shape)}, strides {tensor.stride()} "
            f"was given to a compiled function; expected {dtype}, shape {(n_rows, n_columns)}, "
            "rows side by side."
        )
    return tensor.data_ptr()


class LayerArguments(ctypes.Structure):
    """``Layer`` of kernel.c."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in (
                "input_size",
                "output_size",
                "cell_size",
                "n_cell_panels",
                "n_output_panels",
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("input_weight", "state_weight", "projection_weight", "bias")
        ),
        ("cell_clip", ctypes.c_float),
        ("proj_clip", ctypes.c_float),
    ]


class BatchArguments(ctypes.Structure):
    """``Batch`` of kernel.c."""

    _fields_ = [
        ("x", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("batch_sizes", ctypes.c_void_p),
        ("n_steps", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("hidden", ctypes.c_void_p),
        ("cell", ctypes.c_void_p),
        ("adds_input", ctypes.c_int64),
    ]


class GatesArguments(ctypes.Structure):
    """``Gates`` of kernel.c."""

    _fields_ = [
        ("cell_size", ctypes.c_int64),
        ("cell_clip", ctypes.c_float),
        ("n_after", ctypes.c_int64),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "products",
                "gates",
                "kept_cell",
                "tanh_cell",
                "gated",
                "cell_before",
                "d_gates",
                "cell",
            )
        ),
    ]


class Variant(NamedTuple):
    """The recurrence for one instruction set and precision.

    :param number: what the library calls it.
    :param lanes: numbers of a vector.
    :param n_inputs: inputs that a product takes at a time, 2 of bfloat16 or 1 of float32.
    """

    number: int
    name: str
    lanes: int
    n_inputs: int

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the products."""
        return torch.bfloat16 if self.n_inputs == 2 else torch.float32

    def run(self, layer: LayerArguments, batch: BatchArguments) -> None:
        """Run a layer over a range of sequences. Other threads go on meanwhile.

        :raises MemoryError: there is too little memory to work with.
        """
        if _library().run_layer(self.number, ctypes.byref(layer), ctypes.byref(batch)) != 0:
            raise MemoryError(f"An LSTM layer of cell size {layer.cell_size} found no memory.")

    def pass_gates(
        self, step: GatesArguments, n_rows: int, is_back: bool, dtype: torch.dtype
    ) -> None:
        """What the gates do at a step of training, or its derivative.

        :param dtype: in which a step keeps its values, float32 or bfloat16.
        """
        is_low = dtype == torch.bfloat16
        n_threads = torch.get_num_threads()
        _library().pass_gates(self.number, ctypes.byref(step), n_rows, is_back, is_low, n_threads)


@lru_cache(maxsize=None)
def variants() -> List[Variant]:
    """What this machine can run, the fastest first; nothing where the library was not built."""
    library = _library()
    if library is None:
        return []
    return [
        Variant(
            number,
            library.variant_name(number).decode("ascii"),
            library.variant_lanes(number),
            library.variant_inputs(number),
        )
        for number in range(library.n_variants())
        if library.variant_runs_here(number)
    ]


def find_variant(dtype: torch.dtype, device: torch.device) -> Optional[Variant]:
    """The fastest recurrence with products of a precision; none if torch has to do it."""
    if device.type != "cpu":
        return None
    return next((variant for variant in variants() if variant.dtype == dtype), None)


@lru_cache(maxsize=None)
def _library() -> Any:
    path = _path()
    if path is None:
        return None
    try:
        library = ctypes.CDLL(path)
        library.interface.restype = ctypes.c_int64
        interface = library.interface()
    except (OSError, AttributeError) as error:
        _warn(path, str(error))
        return None
    if interface != INTERFACE:
        _warn(path, f"it has interface {interface}, this version of the package {INTERFACE}")
        return None
    for name in ("variant_name", "variant_lanes", "variant_inputs", "variant_runs_here"):
        getattr(library, name).argtypes = [ctypes.c_int64]
    library.variant_name.restype = ctypes.c_char_p
    for name in ("n_variants", "variant_lanes", "variant_inputs"):
        getattr(library, name).restype = ctypes.c_int64
    library.run_layer.argtypes = [
        ctypes.c_int64,
        ctypes.POINTER(LayerArguments),
        ctypes.POINTER(BatchArguments),
    ]
    library.pass_gates.argtypes = [
        ctypes.c_int64,
        ctypes.POINTER(GatesArguments),
        ctypes.c_int64,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    library.pass_gates.restype = None
    return library


def _path() -> Optional[str]:
    """Where the library is, if it was built."""
    spec = PathFinder.find_spec(f"{__package__}.{NAME}", [str(Path(__file__).parent)])
    return None if spec is None else spec.origin


def _warn(path: str, reason: str) -> None:
    warnings.warn(
        f"The compiled LSTM layers in {path} cannot be used: {reason}. torch's operations run in "
        "their place, more slowly; install the package again to build them anew.",
        stacklevel=2,
    )
