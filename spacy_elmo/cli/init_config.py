"""``spacy elmo init-config``."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from wasabi import msg

from ..pipeline.templates import COMPONENTS, make_pipeline_config
from ..pretrained import DEFAULT
from ..training.files import write_file


def init_config_cli(
    output_path: Annotated[
        Path, typer.Argument(help="File to save the config to, or - for standard output")
    ],
    source: Annotated[
        str,
        typer.Option(
            "--source",
            "-s",
            help="The biLM: name of a bundled one, or path in any supported format",
        ),
    ] = DEFAULT,
    lang: Annotated[
        str, typer.Option("--lang", "-l", help="Two-letter code of the language")
    ] = "en",
    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline",
            "-p",
            help=f"Comma-separated components to train, some of {', '.join(COMPONENTS)}",
        ),
    ] = "tagger,parser,ner",
    force: Annotated[
        bool, typer.Option("--force", "-F", help="Overwrite a file that is there")
    ] = False,
) -> None:
    """
    Write a complete training config for spacy train of a pipeline on a biLM, with ELMo at the
    input of each component and the widths filled in.
    """
    names = [name.strip() for name in pipeline.split(",") if name.strip()]
    try:
        if str(output_path) != "-" and output_path.exists() and not force:
            raise ValueError(f"{output_path} exists; give --force to overwrite it.")
        text = make_pipeline_config(lang, names, source)
        if str(output_path) == "-":
            typer.echo(text, nl=False)
            return
        write_file(output_path, text.encode("utf-8"))
    except (ValueError, OSError) as error:
        msg.fail("No config was written", str(error), exits=1)
    msg.good(f"Saved: {output_path}")
    # Not by wasabi, which would break the line.
    written = quote(str(output_path))
    typer.echo(
        f"spacy train {written} --output DIR --paths.train TRAIN.spacy --paths.dev DEV.spacy"
    )
