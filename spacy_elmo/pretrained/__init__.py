"""Weights that ship with the package, each in a folder of its own with a model card."""

from os import PathLike, fspath
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Union

_FOLDER = Path(__file__).parent


class Bundled(NamedTuple):
    """A biLM that ships with the package.

    :param name: what ``BiLM.from_pretrained`` and ``source`` call it.
    :param lang: spaCy's code of the language that it was trained on.
    :param path: its folder, in the native format.
    """

    name: str
    lang: str
    path: Path


#: The model that an ``elmo`` component takes where nothing else is said.
DEFAULT = "en_elmo_sm"

BUNDLED: Dict[str, Bundled] = {DEFAULT: Bundled(DEFAULT, "en", _FOLDER / DEFAULT)}


def find_bundled(source: Union[str, "PathLike[str]"]) -> Optional[Bundled]:
    """The bundled model of this name; none for any other text or path.

    A name means the bundled model also where a folder happens to be called the same, so that a
    program does not depend on its working directory: such a folder is ``"./en_elmo_sm"``, or a
    ``Path``, which is no name where something lies there.
    """
    if isinstance(source, Path) and source.exists():
        return None
    return BUNDLED.get(fspath(source))
