"""The compiled library: which variants of the recurrence it has, and how they are called."""

import ctypes
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, List, NamedTuple, Optional

import torch

# What the library is called when it is built (setup.py).
NAME = "_lstm"


class LayerArguments(ctypes.Structure):
    """``Layer`` of lstm.c."""

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
    """``Batch`` of lstm.c."""

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
    spec = PathFinder.find_spec(f"{__package__}.{NAME}", [str(Path(__file__).parent)])
    if spec is None or spec.origin is None:
        return None
    library = ctypes.CDLL(spec.origin)
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
    return library
