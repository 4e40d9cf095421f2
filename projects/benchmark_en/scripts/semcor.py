"""Words of SemCor with their senses: read from a list of examples, or from the tag files."""

import hashlib
import io
import json
import re
import tarfile
from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

from .files import find_bytes, missing

#: SHA-256 over name and content of each tag file of SemCor 3.0, in order of the names.
TAG_FILES_SHA256 = "b76a412e2312a24fa2c2388f86719c259acff2254edd8c9c616c25a58847b9ea"

#: Which words are taken from the tag files: two to four senses that occur so often in one-word
#: tokens, counting only the first examples of each sense, the most frequent words first.
MIN_SENSES, MAX_SENSES, MIN_EXAMPLES, MAX_EXAMPLES, N_WORDS = 2, 4, 10, 60, 100
MIN_TOKENS, MAX_TOKENS = 5, 60

UPOS = {"NN": "NOUN", "NNS": "NOUN", "VB": "VERB", "JJ": "ADJ"}
UNIT = re.compile(r"<(wf|punc)([^>]*)>([^<]*)</(?:wf|punc)>|</s>")


@dataclass(frozen=True)
class SenseExample:
    """A word in its sentence.

    :param lemma: the word's base form.
    :param upos: its part of speech; lemma and part of speech are what has senses.
    :param sense: WordNet 3.0 sense key.
    :param wnsn: number of the sense; WordNet gives 1 to the most frequent.
    :param file: the document.
    :param index: the word's place in the tokens.
    :param tokens: the sentence.
    """

    lemma: str
    upos: str
    sense: str
    wnsn: str
    file: str
    index: int
    tokens: List[str]

    @property
    def word(self) -> Tuple[str, str]:
        return self.lemma, self.upos


def read_examples(data: Path) -> List[SenseExample]:
    """The examples of ``wsd/semcor-words.jsonl`` where it is there, else of SemCor's tag files.

    :raises FileNotFoundError: neither is there.
    :raises ValueError: the tag files are not those of SemCor 3.0.
    """
    listed = find_bytes(data, "wsd/semcor-words.jsonl")
    if listed is not None:
        rows = map(json.loads, listed.decode("utf-8").splitlines())
        names = [field.name for field in fields(SenseExample)]
        return [SenseExample(**{name: row[name] for name in names}) for row in rows]
    archive = find_bytes(data, "wsd/semcor3.0.tar")
    if archive is None:
        raise missing(data, "wsd/semcor-words.jsonl", "wsd/semcor3.0.tar")
    files = read_tag_files(archive)
    found = digest(files)
    if found != TAG_FILES_SHA256:
        raise ValueError(
            f"The tag files of {data / 'wsd'} have the SHA-256 {found}; expected "
            f"{TAG_FILES_SHA256}, that of SemCor 3.0."
        )
    examples = [example for name, text in files.items() for example in parse_tag_file(name, text)]
    return select(examples)


def read_tag_files(archive: bytes) -> Dict[str, bytes]:
    """The tag files of a tar archive, by their names."""
    files: Dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            path = Path(member.name)
            if member.isfile() and path.parent.name == "tagfiles":
                file = opened.extractfile(member)
                assert file is not None
                files[path.name] = file.read()
    return dict(sorted(files.items()))


def digest(files: Dict[str, bytes]) -> str:
    """What identifies the tag files, whatever archive they came in."""
    found = hashlib.sha256()
    for name, content in files.items():
        found.update(name.encode("ascii") + b"\n" + content)
    return found.hexdigest()


def parse_tag_file(name: str, content: bytes) -> Iterator[SenseExample]:
    """Every one-word token with a sense, in text order. Words joined by ``_`` are split."""
    tokens: List[str] = []
    senses: List[Tuple[int, Dict[str, str]]] = []
    for match in UNIT.finditer(content.decode("latin-1")):
        kind, attributes, text = match.groups()
        if kind is None:
            for index, unit in senses:
                sense = f"{unit['lemma']}%{unit['lexsn']}"
                upos = UPOS[unit["pos"]]
                yield SenseExample(unit["lemma"], upos, sense, unit["wnsn"], name, index, tokens)
            tokens, senses = [], []
            continue
        unit = dict(part.split("=", 1) for part in attributes.split() if "=" in part)
        is_one_word = "_" not in text and unit.get("lemma") == unit.get("rdf", unit.get("lemma"))
        if is_one_word and unit.get("pos") in UPOS and unit.get("wnsn", "0").isdigit():
            if unit.get("wnsn", "0") != "0":
                senses.append((len(tokens), unit))
        tokens.extend(text.split("_"))


def select(examples: Sequence[SenseExample]) -> List[SenseExample]:
    """The examples of the words that are worth asking about, word by word."""
    by_word: Dict[Tuple[str, str], List[SenseExample]] = defaultdict(list)
    for example in examples:
        if MIN_TOKENS <= len(example.tokens) <= MAX_TOKENS:
            by_word[example.word].append(example)
    kept: List[List[SenseExample]] = []
    for of_word in by_word.values():
        counts = Counter(example.sense for example in of_word)
        senses = {sense for sense, count in counts.items() if count >= MIN_EXAMPLES}
        if MIN_SENSES <= len(senses) <= MAX_SENSES:
            kept.append(list(_first_of_each(of_word, senses)))
    kept.sort(key=len, reverse=True)
    return [example for of_word in kept[:N_WORDS] for example in of_word]


def _first_of_each(examples: Sequence[SenseExample], senses: set) -> Iterator[SenseExample]:
    counts: Counter = Counter()
    for example in examples:
        counts[example.sense] += 1
        if example.sense in senses and counts[example.sense] <= MAX_EXAMPLES:
            yield example
