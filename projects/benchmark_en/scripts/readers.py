"""Read the data sets in their own formats: a split is a list of sentences with annotation."""

import csv
import io
import json
import zipfile
from itertools import groupby
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Sequence

from .files import find_bytes, missing, read_text

GMB_HEADER = ["Sentence #", "Word", "POS", "Tag"]
#: Sentences of GMB that stay together in a split, and of ten such blocks those held out.
GMB_BLOCK = 50
GMB_SPLITS = {"dev": 8, "test": 9}
#: Of ten documents of WikiGold, those held out.
WIKIGOLD_SPLITS = {"dev": (3, 8), "test": (4, 9)}


class Sentence(NamedTuple):
    """A sentence with the annotation that its data set has.

    :param words: its tokens.
    :param upos: universal part-of-speech tags.
    :param xpos: tags of the treebank's language.
    :param heads: index of each token's head, its own for the root.
    :param deps: relation to the head.
    :param entities: IOB2 tags.
    :param category: class of the whole.
    """

    words: List[str]
    upos: List[str] = []
    xpos: List[str] = []
    heads: List[int] = []
    deps: List[str] = []
    entities: List[str] = []
    category: str = ""


Splits = Dict[str, List[Sentence]]


def read_ewt(data: Path) -> Splits:
    """UD English EWT, as released."""
    name = "ud_english_ewt/en_ewt-ud-%s.conllu"
    return {split: list(parse_conllu(read_text(data, name % split))) for split in SPLITS}


def read_wnut17(data: Path) -> Splits:
    """WNUT-17, as released."""
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    texts = (read_text(data, f"wnut17/{name}") for name in names)
    return {split: list(parse_columns(text)) for split, text in zip(SPLITS, texts)}


def read_gmb(data: Path) -> Splits:
    """The Groningen Meaning Bank sample: ``gmb-{train,dev,test}.conll`` where they are there, else
    the published ``ner_dataset.csv``, split here since it has no official split: of ten blocks of
    50 sentences the ninth is dev and the tenth test."""
    if find_bytes(data, "ner_gmb/gmb-train.conll") is not None:
        texts = {split: read_text(data, f"ner_gmb/gmb-{split}.conll") for split in SPLITS}
        return {split: list(parse_columns(text)) for split, text in texts.items()}
    archive = find_bytes(data, "ner_gmb/ner_dataset.csv.zip")
    if archive is None:
        raise missing(data, "ner_gmb/gmb-train.conll", "ner_gmb/ner_dataset.csv.zip")
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        name = next(name for name in opened.namelist() if name.endswith("ner_dataset.csv"))
        text = opened.read(name).decode("latin-1")
    splits: Splits = {split: [] for split in SPLITS}
    held_out = {part: split for split, part in GMB_SPLITS.items()}
    for number, sentence in enumerate(parse_gmb_csv(text)):
        splits[held_out.get(number // GMB_BLOCK % 10, "train")].append(sentence)
    return splits


def read_wikigold(data: Path) -> Splits:
    """WikiGold has no official split: of ten documents the fourth and ninth are dev, the fifth and
    tenth test."""
    held_out = {part: split for split, parts in WIKIGOLD_SPLITS.items() for part in parts}
    splits: Splits = {split: [] for split in SPLITS}
    text = read_text(data, "wikigold/wikigold.conll.txt")
    for number, document in enumerate(text.split("-DOCSTART- O")):
        split = held_out.get(number % 10, "train")
        splits[split].extend(parse_columns(document, iob2=False))
    return splits


def read_clinc150(data: Path) -> Splits:
    """CLINC150 with its 150 intents as classes; queries outside of them are left out."""
    content = json.loads(read_text(data, "textcat/clinc150-data_full.json"))
    names = {"train": "train", "dev": "val", "test": "test"}
    return {
        split: [Sentence(text.split(), category=intent) for text, intent in content[name]]
        for split, name in names.items()
    }


SPLITS = ("train", "dev", "test")
READERS = {
    "ewt": read_ewt,
    "wnut17": read_wnut17,
    "gmb": read_gmb,
    "wikigold": read_wikigold,
    "clinc150": read_clinc150,
}


def parse_conllu(text: str) -> Iterator[Sentence]:
    """Sentences of CoNLL-U: words, not the surface tokens that some of them make together."""
    for rows in _blocks(text):
        # Beside words there are comments, the surface forms of two words (1-2) and words that are
        # not in the text (1.1).
        words = [row for row in rows if row[0].isdigit()]
        yield Sentence(
            words=[row[1] for row in words],
            upos=[row[3] for row in words],
            xpos=[row[4] for row in words],
            heads=[int(row[6]) - 1 if row[6] != "0" else i for i, row in enumerate(words)],
            deps=[row[7] if row[7] != "root" else "ROOT" for row in words],
        )


def parse_columns(text: str, iob2: bool = True) -> Iterator[Sentence]:
    """Sentences of a file with a token a line, its entity tag in the last column.

    :param iob2: the tags are IOB2; if not, ``I-`` alone, and a change of type begins an entity.
    """
    for rows in _blocks(text):
        tags = [row[-1] for row in rows]
        yield Sentence([row[0] for row in rows], entities=tags if iob2 else to_iob2(tags))


def parse_gmb_csv(text: str) -> Iterator[Sentence]:
    """The distinct sentences of ``ner_dataset.csv`` in order; the number of a sentence stands only
    beside its first word.

    :raises ValueError: the columns are others.
    """
    header, *rows = csv.reader(io.StringIO(text))
    if header != GMB_HEADER:
        raise ValueError(f"ner_dataset.csv has the columns {header}; expected {GMB_HEADER}.")
    seen = set()
    sentences: List[List[List[str]]] = []
    for number, word, _, tag in rows:
        if number:
            sentences.append([])
        sentences[-1].append([word, tag])
    for sentence in sentences:
        words = [word for word, _ in sentence]
        if all(words) and tuple(words) not in seen:
            seen.add(tuple(words))
            yield Sentence(words, entities=to_iob2([tag for _, tag in sentence]))


def to_iob2(tags: Sequence[str]) -> List[str]:
    """IOB2 of tags in which ``I-`` may begin an entity."""
    before = ("O", *tags)
    return [
        f"B-{tag[2:]}" if tag.startswith("I-") and last[2:] != tag[2:] else tag
        for last, tag in zip(before, tags)
    ]


def _blocks(text: str) -> Iterator[List[List[str]]]:
    """Runs of lines between blank ones, each line cut into its columns."""
    for is_blank, lines in groupby(text.split("\n"), key=lambda line: not line.strip()):
        if not is_blank:
            yield [line.split("\t" if "\t" in line else " ") for line in lines]
