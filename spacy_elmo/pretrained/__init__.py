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


_OTHER_LANGUAGE = (
    "The bundled biLM {name!r} was trained on {bundled!r}, but this pipeline's language is "
    "{lang!r}. Give a biLM of that language as the source: in a config [components.elmo.model] "
    'source = "path/to/weights", in Python '
    'nlp.add_pipe("elmo", config={{"model": {{"source": "path/to/weights"}}}}). To train one on '
    "your text: `spacy elmo init-bilm my.cfg --lang {lang}`, then `spacy elmo train my.cfg "
    "--output my_bilm --paths.train my_text/ --paths.dev held_out.txt`, and source = "
    '"my_bilm/model-best".'
)


def check_language(source: Union[str, "PathLike[str]"], lang: Optional[str]) -> None:
    """Check that a bundled model is of the language of a pipeline.

    :param source: a name or path; nothing is known of the language of a path.
    :param lang: spaCy's code of the pipeline's language; none where it is not known.
    :raises ValueError: it is of another language. The message tells how to train one.
    """
    bundled = find_bundled(source)
    if bundled is not None and lang not in (None, bundled.lang):
        raise ValueError(_OTHER_LANGUAGE.format(name=bundled.name, bundled=bundled.lang, lang=lang))


def find_bundled(source: Union[str, "PathLike[str]"]) -> Optional[Bundled]:
    """The bundled model of this name; none for any other text or path.

    A name means the bundled model also where a folder happens to be called the same, so that a
    program does not depend on its working directory: such a folder is ``"./en_elmo_sm"``, or a
    ``Path``, which is no name where something lies there.
    """
    if isinstance(source, Path) and source.exists():
        return None
    return BUNDLED.get(fspath(source))
