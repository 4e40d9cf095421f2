"""The commands in this process, which is quicker than another one."""

import json

from typer.testing import CliRunner

from spacy_elmo.cli.app import elmo_cli


def invoke(*args):
    return CliRunner().invoke(elmo_cli, [str(arg) for arg in args])


def one_line(text):
    """What a message says, however it was wrapped."""
    return " ".join(text.split())


def info(path):
    """What ``spacy elmo info`` says, as JSON and as text; it must not fail."""
    as_json, as_text = invoke("info", path, "--json"), invoke("info", path)
    assert as_json.exit_code == as_text.exit_code == 0, as_text.output
    return json.loads(as_json.stdout), one_line(as_text.output)
