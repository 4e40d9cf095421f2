"""``char.dic`` and ``word.dic`` of ELMoForManyLangs: an entry and its id a line.

The tool's own reader strips lines first, so that entries which are white space are lost and the
table no longer fits the weights. Here a line is cut at its last tab and nothing else. Its code also
frames a word the wrong way round, and weights were trained so: what the dictionary calls ``<eow>``
stands at the begin of a word. Our dictionary names entries by what they do.
"""

from pathlib import Path
from typing import Dict, List, Mapping, Sequence

from ..bilm import BOS, EOS, UNK
from ..bilm import code_points as ours
from .checks import listed

WORD_NAMES = {"<oov>": UNK, "<bos>": BOS, "<eos>": EOS}
CHARACTER_NAMES = {"<bow>": ours.END_WORD, "<eow>": ours.BEGIN_WORD}

WORD_SPECIAL = tuple(WORD_NAMES)
CHARACTER_SPECIAL = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")

# What the tool reads where it finds an id alone.
_IDEOGRAPHIC_SPACE = "\u3000"


def read_words(path: Path) -> List[str]:
    """Entries of ``word.dic`` in the order of their ids, the special ones by our names.

    :raises ValueError: see :func:`read_dictionary`.
    """
    return _rename(read_dictionary(path, WORD_SPECIAL), WORD_NAMES)


def read_code_points(path: Path) -> List[str]:
    """Entries of ``char.dic`` in the order of their ids, the special ones by our names.

    :raises ValueError: see :func:`read_dictionary`.
    """
    return _rename(read_dictionary(path, CHARACTER_SPECIAL), CHARACTER_NAMES)


def read_dictionary(path: Path, special: Sequence[str]) -> List[str]:
    """Entries in the order of their ids.

    :param special: entries that have to be there.
    :raises ValueError: the file is missing, a line is faulty, an id or an entry stands there twice,
        or an id is left out; the message names the file and the line.
    """
    if not path.is_file():
        raise ValueError(f"{path} is missing: the model has a table that needs it.")
    lines = path.read_bytes().split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    ids: Dict[str, int] = {}
    places: Dict[int, int] = {}
    for number, line in enumerate(lines, 1):
        place = f"{path}, line {number}"
        entry, tab, digits = line.rpartition(b"\t")
        try:
            text = entry.decode("utf-8", "surrogatepass") if tab else _IDEOGRAPHIC_SPACE
            found = int(digits)
        except ValueError:
            raise ValueError(
                f"{place}: {line!r:.80}; expected an entry in UTF-8, a tab and its id."
            ) from None
        for name, before in (("entry", ids.get(text)), ("id", places.get(found))):
            if before is not None:
                raise ValueError(f"{place}: {line!r:.80} has the {name} of an earlier line.")
        ids[text] = found
        places[found] = number
    missing = [str(n) for n in range(len(ids)) if n not in places]
    if missing:
        raise ValueError(
            f"{path} has {len(ids)} entries with ids up to {max(places)}; expected ids from 0 to "
            f"{len(ids) - 1}. Missing: {listed(missing)}."
        )
    lacking = [entry for entry in special if entry not in ids]
    if lacking:
        raise ValueError(f"{path} ({len(ids)} entries) has no entry {', '.join(lacking)}.")
    return sorted(ids, key=ids.__getitem__)


def _rename(entries: Sequence[str], names: Mapping[str, str]) -> List[str]:
    # A word of the author's text that is spelled like one of our names has a row, but no reader.
    ours_alone = set(names.values()) - set(names)
    hidden = {entry: f"\0{entry}" for entry in ours_alone}
    return [names.get(entry, hidden.get(entry, entry)) for entry in entries]
