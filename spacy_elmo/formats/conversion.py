"""Weights of one format made into those of another."""

import os
import shutil
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Collection, Dict, Iterable, Iterator, List, Literal

import torch

from ..bilm import BiLM
from .atomic import Writer, write_together
from .checks import listed
from .companions import COMPANIONS, SOFTMAX_FILE, find_companions
from .loading import AnyPath, opened, refuse_other_formats, save, write
from .native import PRECISIONS, Precision

#: What a target is called, and the registered format that it stands for.
Target = Literal["native", "hdf5"]
TARGETS: Dict[Target, str] = {"native": "native", "hdf5": "bilm-tf"}

# What AllenNLP's reader of characters gives whatever the options say.
ALLENNLP_CHARACTERS = 50


def convert(
    source: AnyPath,
    target: AnyPath,
    to: Target,
    *,
    precision: Precision = "float32",
    force: bool = False,
) -> List[str]:
    """Read weights of any format and write them in another, with the vocabulary beside them and,
    for the native format, the softmax. All files are written, or none.

    :param source: as for :func:`load`.
    :param target: a directory, made if it is not there.
    :param to: ``native``, or ``hdf5`` for ``options.json`` and ``weights.hdf5`` as bilm-tf,
        AllenNLP and simple_elmo read them.
    :param precision: the type of the stored weights; HDF5 files have ``float32``.
    :param force: write into a directory that holds something, over files of the same names.
    :returns: what the target could not keep, a sentence each.
    :raises FileNotFoundError: there is nothing at ``source``.
    :raises ValueError: the source cannot be read, or the format cannot hold its biLM; or the target
        is a file, holds something (without ``force``), or holds what belongs to other weights.
    """
    source, target = Path(source), Path(target)
    if to not in TARGETS:
        raise ValueError(f"The format to convert to is {to!r}; expected {_choices(TARGETS)}.")
    if precision not in PRECISIONS:
        raise ValueError(f"The precision is {precision!r}; expected {_choices(PRECISIONS)}.")
    if to == "hdf5" and precision != "float32":
        raise ValueError(
            f"The precision is {precision!r}, but readers of HDF5 files take float32 only; "
            "expected 'float32', or the native format."
        )
    with opened(source, also=COMPANIONS) as (form, place):
        companions = {file.name: file for file in find_companions(place)}
        has_softmax = SOFTMAX_FILE in companions
        if to == "hdf5":
            companions.pop(SOFTMAX_FILE, None)
        _check_target(target, to, companions, force)
        bilm = form.read(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _directory_beside(target) as temporary:
            if to == "native":
                save(bilm, temporary, precision=precision)
            else:
                write(bilm, temporary, TARGETS[to])
            writers: Dict[str, Writer] = {
                file.name: partial(os.replace, file) for file in Path(temporary).iterdir()
            }
            for name, file in companions.items():
                if not ((target / name).exists() and file.samefile(target / name)):
                    writers[name] = partial(_copy, file)
            write_together(target, writers)
    return _hdf5_notes(bilm, has_softmax) if to == "hdf5" else _precision_notes(bilm, precision)


@contextmanager
def _directory_beside(target: Path) -> Iterator[str]:
    """A temporary directory, from where files only have to be renamed. Errors name the target in
    its place."""
    prefix = f".{target.name}."
    try:
        with TemporaryDirectory(prefix=prefix, dir=target.parent) as temporary:
            yield temporary
    except OSError as error:
        if prefix in str(error.filename or ""):
            error.filename = str(target)
        raise


def _check_target(target: Path, to: Target, companions: Collection[str], force: bool) -> None:
    if target.exists() and not target.is_dir():
        raise ValueError(f"{target} is a file; expected the path of a directory.")
    there = sorted(child.name for child in target.iterdir()) if target.exists() else []
    if there and not force:
        raise ValueError(
            f"{target} holds: {listed(there)}. Give --force to write into it, over files of the "
            "same names."
        )
    if not there:
        return
    refuse_other_formats(target, TARGETS[to])
    stale = [name for name in COMPANIONS if name in there and name not in companions]
    if stale:
        raise ValueError(
            f"{target} holds {' and '.join(stale)}, which the new weights have not and which "
            "would be taken for theirs. Remove it, or give another directory."
        )


def _hdf5_notes(bilm: BiLM, has_softmax: bool) -> List[str]:
    config = bilm.config
    notes = []
    if bilm.warm_hidden is not None:
        notes.append(
            "A HDF5 file has no place for the warm state. What is read from it makes one from a "
            'short English text, so with initial_state = "warm" it gives slightly other vectors.'
        )
    if has_softmax:
        notes.append("A HDF5 file has no place for the softmax, so it gives no perplexity.")
    if config.token_projection and config.n_filters == config.projection_dim:
        notes.append("bilm-tf expects no projection of the filters, as both sizes are equal.")
    if not config.token_projection or not config.cell_projection:
        notes.append("AllenNLP expects a projection of the filters and one of the cells.")
    if not config.use_skip_connections:
        notes.append("AllenNLP refuses weights without skip connections.")
    if config.max_characters_per_token != ALLENNLP_CHARACTERS:
        notes.append(
            f"AllenNLP reads words of {ALLENNLP_CHARACTERS} bytes, these weights words of "
            f"{config.max_characters_per_token}."
        )
    return notes


def _precision_notes(bilm: BiLM, precision: Precision) -> List[str]:
    dtype = PRECISIONS[precision]
    with torch.no_grad():
        largest = max(
            float((values - values.to(dtype)).abs().max())
            for values in bilm.state_dict().values()
            if values.is_floating_point()
        )
    return [f"The weights were rounded, by {largest:.1e} at most."] if largest else []


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def _choices(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))
