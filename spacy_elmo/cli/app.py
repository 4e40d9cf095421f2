"""The ``spacy elmo`` commands. spaCy imports this module by its ``spacy_cli`` entry point."""

import typer
from spacy.cli._util import app

from .train import train_cli

elmo_cli = typer.Typer(
    name="elmo",
    help="Train and use ELMo: contextual word vectors from bidirectional language models.",
    no_args_is_help=True,
)


@elmo_cli.callback()
def elmo() -> None:
    # With a callback, typer keeps "train" as a command even while it is the only one.
    pass


elmo_cli.command(
    "train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(train_cli)

app.add_typer(elmo_cli)
