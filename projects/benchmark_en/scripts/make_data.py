"""Write made-up text in the formats of the real data sets, and a biLM of random weights.

The sentences are of one grammar with few words, so that a component learns them in a few steps.
"""

import argparse
import csv
import io
import json
import random
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import List, NamedTuple, Tuple

import torch

from spacy_elmo import BiLM, BiLMConfig

from .semcor import SenseExample

SIZES = {
    "filters": [[1, 8], [2, 8], [3, 16]],
    "char_embedding_dim": 4,
    "projection_dim": 8,
    "cell_size": 16,
    "n_layers": 2,
}
N_SENTENCES = {"train": 60, "dev": 20, "test": 20}
NOUNS = (
    "river bank table house teacher garden boat bird child clock cloud coat desk door engine farm "
    "field glass hill island key lamp letter market"
).split()
VERBS = ["sees", "finds", "keeps"]
ADJECTIVES = ["old", "green"]
NAMES = [("Anna Lee", "person"), ("Paris", "location"), ("Acme", "corporation")]
INTENTS = {"weather": "will it rain", "alarm": "wake me at", "music": "play a song"}


class Token(NamedTuple):
    """A token of a made-up sentence; ``head`` is the distance to its head."""

    word: str
    upos: str
    xpos: str
    head: int
    dep: str
    entity: str


def make_sentence(random_: random.Random) -> List[Token]:
    """A noun phrase, a verb and a name."""
    words = [("The", "DET", "DT"), (random_.choice(ADJECTIVES), "ADJ", "JJ")]
    words = words[: random_.randint(1, 2)]
    phrase = [
        Token(word, upos, xpos, len(words) - i, "det" if upos == "DET" else "amod", "O")
        for i, (word, upos, xpos) in enumerate(words)
    ]
    phrase.append(Token(random_.choice(NOUNS), "NOUN", "NN", 1, "nsubj", "O"))
    verb = Token(random_.choice(VERBS), "VERB", "VBZ", 0, "root", "O")
    name, kind = random_.choice(NAMES)
    parts = name.split()
    object_ = [
        Token(part, "PROPN", "NNP", -1, "flat" if i else "obj", f"{'I' if i else 'B'}-{kind}")
        for i, part in enumerate(parts)
    ]
    return [*phrase, verb, *object_, Token(".", "PUNCT", ".", -1 - len(parts), "punct", "O")]


def to_conllu(sentences: List[List[Token]]) -> str:
    """CoNLL-U, each sentence with a comment."""
    blocks: List[str] = []
    for number, sentence in enumerate(sentences):
        lines = [f"# sent_id = made-up-{number}"]
        for i, token in enumerate(sentence, 1):
            head = i + token.head if token.head else 0
            columns = [i, token.word, "_", token.upos, token.xpos, "_", head, token.dep, "_", "_"]
            lines.append("\t".join(map(str, columns)))
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)


def to_columns(sentences: List[List[Token]], separator: str = "\t") -> str:
    """A token and its entity tag a line."""
    blocks = [
        "".join(f"{token.word}{separator}{token.entity}\n" for token in sentence)
        for sentence in sentences
    ]
    return "\n".join(blocks)


def to_wikigold(sentences: List[List[Token]]) -> str:
    """Documents of three sentences, entities marked by ``I-`` alone."""
    text = ""
    for begin in range(0, len(sentences), 3):
        block = to_columns(sentences[begin : begin + 3], separator=" ")
        text += block.replace(" B-", " I-") + "\n-DOCSTART- O\n\n"
    return text


def to_gmb_zip(sentences: List[List[Token]]) -> bytes:
    """``ner_dataset.csv`` in a zip file, the number of a sentence beside its first word."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["Sentence #", "Word", "POS", "Tag"])
    for number, sentence in enumerate(sentences, 1):
        for i, token in enumerate(sentence):
            first = "" if i else f"Sentence: {number}"
            writer.writerow([first, token.word, token.xpos, token.entity])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("ner_dataset.csv", table.getvalue().encode("latin-1"))
    return archive.getvalue()


def to_clinc150(random_: random.Random) -> str:
    """Queries of three intents, each with a word of its own."""
    splits = {"train": N_SENTENCES["train"], "val": N_SENTENCES["dev"], "test": 30}
    content = {
        split: [
            [f"{INTENTS[intent]} {random_.choice(NOUNS)}", intent]
            for intent in random_.choices(list(INTENTS), k=size)
        ]
        for split, size in splits.items()
    }
    return json.dumps(content)


def to_senses(random_: random.Random, sentences: List[List[Token]]) -> str:
    """Examples of nouns, whose sense is told by the verb."""
    lines: List[str] = []
    for number, sentence in enumerate(sentences):
        words = [token.word for token in sentence]
        index = next(i for i, token in enumerate(sentence) if token.upos == "NOUN")
        sense = str(1 + VERBS.index(words[index + 1]) % 2)
        file = f"br-{number % 10}"
        example = SenseExample(words[index], "NOUN", sense, sense, file, index, words)
        lines.append(json.dumps(asdict(example)) + "\n")
    return "".join(lines)


def make_data(folder: Path, seed: int = 0) -> None:
    """Write all data sets."""
    random_ = random.Random(seed)

    def sentences(number: int) -> List[List[Token]]:
        return [make_sentence(random_) for _ in range(number)]

    files: List[Tuple[str, bytes]] = []
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    for (split, size), name in zip(N_SENTENCES.items(), names):
        text = to_conllu(sentences(size))
        files.append((f"ud_english_ewt/en_ewt-ud-{split}.conllu", text.encode("utf-8")))
        files.append((f"wnut17/{name}", to_columns(sentences(size)).encode("utf-8")))
    files.append(("wikigold/wikigold.conll.txt", to_wikigold(sentences(90)).encode("utf-8")))
    files.append(("ner_gmb/ner_dataset.csv.zip", to_gmb_zip(sentences(4000))))
    files.append(("textcat/clinc150-data_full.json", to_clinc150(random_).encode("utf-8")))
    senses = to_senses(random_, sentences(100)).encode("utf-8")
    files.append(("wsd/semcor-words.jsonl", senses))
    for path, content in files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="Folder to write the data sets to")
    parser.add_argument("--bilm", type=Path, required=True, help="Folder to write the biLM to")
    args = parser.parse_args()
    make_data(args.folder)
    torch.manual_seed(0)
    BiLM(BiLMConfig.from_dict(SIZES)).save_pretrained(args.bilm)


if __name__ == "__main__":
    main()
