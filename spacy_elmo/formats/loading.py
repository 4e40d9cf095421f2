"""One ``load`` for every format, which looks at the files and not at what they are called."""

import os
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .. import registry
from ..bilm import BiLM
from ..pretrained import BUNDLED, find_bundled
from . import native
from .archives import is_archive, unpacked
from .checks import listed
from .companions import SOFTMAX_FILE
from .format import Format

AnyPath = Union[str, "PathLike[str]"]


def load(path: AnyPath) -> BiLM:
    """The biLM at a path, in any registered format, on the CPU and in evaluation mode.

    :param path: the name of a bundled model; a directory; a ``.zip`` or ``.tar.gz`` of one; or
        one file of weights: native ``.safetensors``, ``.hdf5`` with its options beside it, or a
        ``.pkl`` of ELMoForManyLangs with what belongs to it.
    :raises FileNotFoundError: there is nothing at the path.
    :raises ValueError: the path is empty, nothing supported is there, or a file is damaged, or
        files do not fit each other; the message names the file and the field or tensor.
    """
    with opened(path) as (form, place):
        bilm = form.read(place)
    bundled = find_bundled(path)
    bilm.source = Path(path).absolute() if bundled is None else bundled.path
    return bilm


@contextmanager
def opened(path: AnyPath, also: Collection[str] = ()) -> Iterator[Tuple[Format, Path]]:
    """The format of the weights at a path, and the directory or file to read them from: of an
    archive, a temporary one. What the block raises names the archive in its place.

    :param path: as for :func:`load`.
    :param also: names of further files to take out of an archive, with ``*`` for any text.
    :raises FileNotFoundError: there is nothing at the path.
    :raises ValueError: the path is empty, nothing supported is there, or an archive is damaged.
    """
    if path == "":
        # A Path of it would be the working directory.
        raise ValueError("The path of the weights is ''; expected a path or the name of a model.")
    bundled = find_bundled(path)
    path = Path(path) if bundled is None else bundled.path
    if not path.exists():
        message = (
            f"{path} does not exist. Expected a directory, an archive (.zip, .tar.gz) or a file of "
            f"weights with {_wanted()}; or the name of a bundled model ({', '.join(BUNDLED)})."
        )
        if path.parent.is_dir():
            message += f" The directory {path.parent.absolute()} holds: {_contents(path.parent)}."
        raise FileNotFoundError(message)
    found = matching(path)
    if path.is_file() and not found and is_archive(path):
        patterns = {pattern for form in formats().values() for pattern in form.patterns}
        with unpacked(path, patterns | set(also)) as directory:
            try:
                with opened(directory) as inside:
                    yield inside
            except ValueError as error:
                # The name of a directory that is gone would help nobody.
                message = str(error).replace(f"{directory}{os.sep}", f"{path}:")
                raise ValueError(message.replace(str(directory), str(path))) from error
        return
    if len(found) > 1:
        names = " and ".join(form.name for form in found)
        raise ValueError(
            f"{path} holds weights in more than one format ({names}), which may differ. Give the "
            f"path of one file of weights instead; the directory holds: {_contents(path)}."
        )
    if not found:
        there = (
            f"It holds: {_contents(path)}." if path.is_dir() else "It is a file of another kind."
        )
        raise ValueError(f"No biLM found in {path}. {_hint(path)}Looked for {_wanted()}. {there}")
    yield found[0], path


def matching(path: AnyPath) -> List[Format]:
    """The registered formats that a directory or file is of, by its names and first bytes."""
    return [form for form in formats().values() if form.matches(Path(path))]


def refuse_other_formats(directory: Path, format_name: str) -> None:
    """:raises ValueError: the directory holds weights in another format than this one."""
    if not directory.is_dir():
        return
    others = [form.name for form in matching(directory) if form.name != format_name]
    if others:
        raise ValueError(
            f"{directory} holds weights in another format ({', '.join(others)}); with two in one "
            "directory none could be loaded. Give another directory."
        )


def save(
    bilm: BiLM,
    path: AnyPath,
    *,
    metadata: Optional[Mapping[str, Any]] = None,
    precision: native.Precision = "float32",
) -> None:
    """Write a biLM in the native format: ``config.json`` and ``model.safetensors``, both or
    neither.

    :param path: a directory, made if it is not there. Other files in it stay.
    :param metadata: JSON-serializable facts about the weights that ``config.json`` keeps in place
        of the biLM's own ``metadata``.
    :param precision: the type of the stored weights: ``float32``, or ``float16`` for a file of
        half the size. Both are read as float32.
    :raises ValueError: the path is a file, or holds weights in another format or the softmax of
        another biLM; or a weight is NaN or infinite, or beyond what float16 holds.
    """
    path = Path(path)
    refuse_other_formats(path, native.NATIVE.name)
    _refuse_other_softmax(bilm, path)
    native.write(bilm, path, metadata, precision)


def _refuse_other_softmax(bilm: BiLM, directory: Path) -> None:
    source = bilm.source
    home = source.parent if source is not None and source.is_file() else source
    is_home = home is not None and home.resolve() == directory.resolve()
    if (directory / SOFTMAX_FILE).exists() and not is_home:
        raise ValueError(
            f"{directory} holds {SOFTMAX_FILE}, which was trained with the biLM that is there; "
            "with another biLM it would give wrong probabilities. Give another directory."
        )


def write(bilm: BiLM, path: AnyPath, format_name: str) -> None:
    """Write a biLM in a registered format.

    :param path: a directory, made if it is not there.
    :param format_name: ``native``, ``bilm-tf``, or the name of another registered format.
    :raises ValueError: no such format, or the format cannot hold this biLM.
    """
    known = formats()
    if format_name not in known:
        raise ValueError(
            f"Unknown format of weights {format_name!r}; expected one of {', '.join(known)}."
        )
    known[format_name].write(bilm, Path(path))


def formats() -> Dict[str, Format]:
    """All registered formats by name, sorted."""
    return dict(sorted(registry.formats.get_all().items()))


def _hint(path: Path) -> str:
    if not path.is_dir():
        return ""
    if (path / "config.cfg").is_file() and (path / "meta.json").is_file():
        return "It is a pipeline of spaCy, for spacy.load; weights are expected here. "
    inside = [str(child) for child in sorted(path.iterdir()) if child.is_dir() and matching(child)]
    return f"Did you mean {' or '.join(inside[:3])}? " if inside else ""


def _wanted() -> str:
    return "; ".join(f"{form.name} ({form.contents})" for form in formats().values())


def _contents(directory: Path) -> str:
    return listed(sorted(child.name for child in directory.iterdir())) or "nothing"
