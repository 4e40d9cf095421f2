"""The commands in this process, which is quicker than another one."""

from typer.testing import CliRunner

from spacy_elmo.cli.app import elmo_cli


def invoke(*args):
    return CliRunner().invoke(elmo_cli, [str(arg) for arg in args])


def one_line(text):
    """What a message says, however it was wrapped."""
    return " ".join(text.split())
