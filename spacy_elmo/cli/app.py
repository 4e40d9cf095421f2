"""The ``spacy elmo`` commands. spaCy imports this module by its ``spacy_cli`` entry point."""

import typer
from spacy.cli._util import app

from .convert import convert_cli
from .embed import embed_cli
from .evaluate import evaluate_cli
from .info import info_cli
from .init_bilm import init_bilm_cli
from .init_config import init_config_cli
from .plot import plot_cli
from .train import train_cli

elmo_cli = typer.Typer(
    name="elmo",
    help="Train and use ELMo: contextual word vectors from bidirectional language models.",
    no_args_is_help=True,
)

elmo_cli.command("init-bilm")(init_bilm_cli)
elmo_cli.command(
    "train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(train_cli)
elmo_cli.command("evaluate")(evaluate_cli)
elmo_cli.command("embed")(embed_cli)
elmo_cli.command("plot")(plot_cli)
elmo_cli.command("convert")(convert_cli)
elmo_cli.command("info")(info_cli)
elmo_cli.command("init-config")(init_config_cli)

app.add_typer(elmo_cli)
