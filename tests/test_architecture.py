"""The import rule, and every name that the package registers."""

import ast
import configparser
import importlib
import subprocess
import sys

import pytest

from .conftest import ROOT

PACKAGE = ROOT / "spacy_elmo"

#: What the modules of a part may import of the package. Nothing may import upwards.
RULE = {
    "bilm": {"bilm", "registry"},
    "pretrained": set(),
    "formats": {"formats", "pretrained", "bilm", "registry"},
    "models": {"models", "formats", "pretrained", "bilm", "registry"},
    "pipeline": {"pipeline", "models", "formats", "pretrained", "bilm", "registry"},
    "training": {"training", "formats", "bilm", "registry", "about"},
    "embedding": {"embedding", "training", "formats", "bilm", "registry", "about"},
    "cli": {
        *("cli", "embedding", "training", "pipeline", "models", "formats", "pretrained", "bilm"),
        *("registry", "about"),
    },
}


def imported_names(path):
    """Absolute dotted names of everything that a file imports, also inside functions."""
    package = [*path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                yield ".".join([*module, alias.name])


@pytest.mark.parametrize("part", sorted(RULE))
def test_parts_import_only_what_lies_below(part):
    files = sorted((PACKAGE / part).rglob("*.py"))
    assert files
    for path in files:
        for name in imported_names(path):
            top, _, rest = name.partition(".")
            if top == "spacy_elmo":
                assert rest.split(".")[0] in RULE[part], f"{path} imports {name}"
            if part == "bilm":
                assert top not in ("spacy", "thinc"), f"{path} imports {name}"


def test_every_folder_has_a_rule():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(RULE)


def test_the_bilm_loads_without_spacy():
    code = (
        "import sys; import spacy_elmo; assert not {'spacy', 'thinc'} & set(sys.modules); "
        "assert 'h5py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def entry_points():
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / "setup.cfg")
    for group, lines in config["options.entry_points"].items():
        for line in lines.strip().splitlines():
            name, _, target = line.partition("=")
            yield group, name.strip(), target.strip()


@pytest.mark.parametrize("group,name,target", list(entry_points()))
def test_every_registered_name_resolves_in_a_fresh_registry(group, name, target):
    module, _, attribute = target.partition(":")
    expected = getattr(importlib.import_module(module), attribute)
    if group.startswith("spacy_elmo_"):
        from spacy_elmo import registry as own

        found = getattr(own, group[len("spacy_elmo_") :]).get(name)
    else:
        from spacy import registry

        kind = group[len("spacy_") :]
        found = registry.get("_entry_point_factories" if kind == "factories" else kind, name)
    assert found is expected


def test_no_file_is_too_long():
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {path: n for path, n in lengths.items() if n > 400} == {}
