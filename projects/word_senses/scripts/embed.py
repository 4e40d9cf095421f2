"""Embed the words of contexts: all layers of the component ``elmo``."""

import argparse
import io
from pathlib import Path
from typing import Sequence

import numpy
import spacy
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_elmo.training.files import write_files

from .contexts import Context, read_contexts


def embed(contexts: Sequence[Context], source: str, lang: str) -> NDArray[numpy.float32]:
    """The layers of each context's word. Each sentence is read by itself.

    :param source: the path or the name of a biLM.
    :returns: *Shape:* (n_contexts, n_layers + 1, width)
    """
    nlp = spacy.blank(lang)
    config = {"store_layers": True, "set_tensor": False, "model": {"source": source}}
    nlp.add_pipe("elmo", config=config)
    docs = (
        Doc(nlp.vocab, words=tokens, sent_starts=[number == 0 for number in range(len(tokens))])
        for tokens in (context.tokens for context in contexts)
    )
    vectors = [
        # A copy: a view would keep all layers of the Doc.
        numpy.array(doc._.elmo_layers[:, context.index])
        for context, doc in zip(contexts, nlp.pipe(docs, batch_size=256))
    ]
    return numpy.stack(vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("--source", required=True, help="Path or name of a biLM")
    parser.add_argument("--lang", default="en")
    parser.add_argument("--output", type=Path, required=True, help=".npy file to write")
    args = parser.parse_args()
    vectors = embed(read_contexts(args.contexts), args.source, args.lang)
    file = io.BytesIO()
    numpy.save(file, vectors)
    write_files(args.output.parent, {args.output.name: file.getvalue()})
    print(f"{vectors.shape[0]} words, {vectors.shape[1]} layers, width {vectors.shape[2]}")


if __name__ == "__main__":
    main()
