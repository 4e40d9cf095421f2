"""``python -m spacy_elmo``: the same commands as ``python -m spacy elmo``."""

from .cli.app import elmo_cli

if __name__ == "__main__":
    elmo_cli(prog_name="python -m spacy_elmo")
