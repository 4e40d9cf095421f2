"""Convert UD English EWT to spaCy's format: the first sentences of train, and all of dev."""

import argparse
import gzip
from pathlib import Path

from spacy.tokens import DocBin
from spacy.training.converters import conllu_to_docs

N_SENTENCES_A_DOC = 10


def read_conllu(folder: Path, name: str) -> str:
    """The text of a treebank file, plain or compressed."""
    plain, zipped = folder / name, folder / f"{name}.gz"
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    if zipped.exists():
        with gzip.open(zipped, "rt", encoding="utf-8") as file:
            return file.read()
    raise SystemExit(
        f"Found neither {plain} nor {zipped}. Run `spacy project assets --extra`, or name a local "
        "copy of UD English EWT: `spacy project run ewt . --vars.ewt FOLDER`."
    )


def convert(text: str, output: Path) -> None:
    """Write the sentences as a DocBin, ten to a Doc."""
    output.parent.mkdir(parents=True, exist_ok=True)
    docs = conllu_to_docs(text, n_sents=N_SENTENCES_A_DOC, no_print=True)
    DocBin(docs=docs, store_user_data=True).to_disk(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="Folder of the treebank's .conllu files")
    parser.add_argument("--sentences", type=int, required=True, help="Sentences of train to take")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    args = parser.parse_args()
    sentences = read_conllu(args.folder, "en_ewt-ud-train.conllu").strip().split("\n\n")
    convert("\n\n".join(sentences[: args.sentences]) + "\n", args.train)
    convert(read_conllu(args.folder, "en_ewt-ud-dev.conllu"), args.dev)


if __name__ == "__main__":
    main()
