"""Write the weights of a trained biLM in the native format and as HDF5 (bilm-tf, AllenNLP)."""

import argparse
from pathlib import Path

from spacy_elmo import BiLM
from spacy_elmo.formats import write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    bilm = BiLM.from_pretrained(args.model)
    for folder, format_name in (("native", "native"), ("hdf5", "bilm-tf")):
        write(bilm, args.output / folder, format_name)
        print(args.output / folder)


if __name__ == "__main__":
    main()
