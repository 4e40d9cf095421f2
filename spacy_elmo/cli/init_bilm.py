"""``spacy elmo init-bilm``."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from wasabi import msg

from ..training.files import write_file
from ..training.templates import SIZES, TOKEN_LAYERS, make_template


def init_bilm_cli(
    output_path: Annotated[
        Path, typer.Argument(help="File to save the config to, or - for standard output")
    ],
    size: Annotated[
        str,
        typer.Option(
            "--size",
            "-s",
            metavar="|".join(SIZES),
            help="Gives vectors of width 256 (sm), 512 (md) or 1024 (original)",
        ),
    ] = "sm",
    lang: Annotated[
        str, typer.Option("--lang", "-l", help="Two-letter code of the language of the text")
    ] = "en",
    token_layer: Annotated[
        str,
        typer.Option(
            "--token-layer",
            "-t",
            metavar="|".join(TOKEN_LAYERS),
            help="What tokens are read by: characters, a table of words, or both",
        ),
    ] = "characters",
    force: Annotated[
        bool, typer.Option("--force", "-F", help="Overwrite a file that is there")
    ] = False,
) -> None:
    """
    Write a config for spacy elmo train, in which a comment tells what each setting does and which
    values are sensible.
    """
    try:
        text = make_template(size, lang, token_layer)
        if str(output_path) == "-":
            typer.echo(text, nl=False)
            return
        if output_path.exists() and not force:
            raise ValueError(f"{output_path} exists; give --force to overwrite it.")
        write_file(output_path, text.encode("utf-8"))
    except (ValueError, OSError) as error:
        msg.fail("No config was written", str(error), exits=1)
    msg.good(f"Saved: {output_path}")
    # Not by wasabi, which would break the line.
    written = quote(str(output_path))
    typer.echo(
        f"spacy elmo train {written} --output DIR --paths.train TEXT --paths.dev HELD_OUT_TEXT"
    )
