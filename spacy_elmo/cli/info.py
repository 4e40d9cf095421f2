"""``spacy elmo info``."""

import json
from pathlib import Path
from typing import Annotated, Any, Dict, Iterator, List, Optional, Tuple

import spacy
import typer
from wasabi import msg, table

from ..bilm.kernel import variants
from ..formats import describe
from ..pipeline.description import describe_pipeline
from ..pretrained import BUNDLED

#: What each part that may be missing is for.
MISSING = {
    "warm_state": 'warm state (initial_state = "warm" makes one from a short English text)',
    "softmax": "softmax (needed for perplexity, not for vectors)",
    "vocabulary": "vocabulary (needed for perplexity, not for vectors)",
}

# Digits after the point of a weight of a mix.
N_DIGITS = 4

#: A line of the table: its title and its text.
Row = Tuple[str, str]


def info_cli(
    source: Annotated[
        Optional[str],
        typer.Argument(
            metavar="[SRC]",
            help="Weights of any supported format (directory, archive, file or the name of a "
            "bundled model), or a pipeline (directory or installed package)",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON")] = False,
) -> None:
    """
    What weights are: format, sizes, parameters, and what is missing. Of a pipeline: the same of
    each elmo component, its settings, and the weights and gamma of each component's mix of layers.
    Without SRC: the models that come with the package, and how LSTM layers run on this CPU.
    """
    found: Dict[str, Any]
    try:
        if source is None:
            found = {name: describe(name) for name in BUNDLED}
            rows = [*bundled_rows(found), kernel_row()]
        elif is_pipeline(source):
            found = describe_pipeline(spacy.load(source))
            found["path"] = source
            rows = list(pipeline_rows(found))
        else:
            found = describe(source)
            rows = list(weights_rows(found))
    except (ValueError, OSError, ImportError) as error:
        msg.fail("No information", str(error), exits=1)
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    typer.echo(table(rows))
    for note in found.get("notes", ()):
        msg.warn(note)


def is_pipeline(source: str) -> bool:
    """Is this the directory of a pipeline, or the name of an installed one?"""
    path = Path(source)
    if path.exists():
        return (path / "config.cfg").is_file() and (path / "meta.json").is_file()
    return spacy.util.is_package(source)


def bundled_rows(found: Dict[str, Any]) -> Iterator[Row]:
    """The table of the models that come with the package."""
    for name, model in found.items():
        size = sum(model["files"].values()) / 1e6
        yield (
            name,
            f"language {BUNDLED[name].lang}, width {model['width']}, {model['n_layers']} layers, "
            f"{model['n_parameters']:,} parameters, {size:.1f} MB",
        )


def kernel_row() -> Row:
    """How the LSTM layers run on this CPU."""
    best = {str(variant.dtype).split(".")[1]: variant.name for variant in reversed(variants())}
    names = ", ".join(f"{name} for {dtype}" for dtype, name in best.items())
    without = "by torch's operations: the package was built without a C compiler"
    return "LSTM layers", f"compiled, {names}" if best else without


def weights_rows(found: Dict[str, Any]) -> Iterator[Row]:
    """The table of weights."""
    yield "Weights", found["path"]
    yield "Format", found["format"]
    for name, size in found["files"].items():
        unit = f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} KB"
        yield "File", f"{name} ({unit})"
    yield "Stored as", found["stored_as"]
    yield from bilm_rows(found)
    yield "Vocabulary", _or_none(found["vocabulary"], "entries")
    yield "Softmax", "yes" if found["softmax"] else "none"
    for name in found["missing"]:
        yield "Missing", MISSING[name]


def bilm_rows(found: Dict[str, Any]) -> Iterator[Row]:
    """The lines of a biLM in a table."""
    settings = found["settings"]
    yield "Vectors", f"width {found['width']}, {found['n_layers']} layers"
    parts = ", ".join(f"{name} {size:,}" for name, size in found["parameters"].items())
    yield "Parameters", f"{found['n_parameters']:,} ({parts})"
    if found["characters"] is not None:
        yield "Characters", f"{found['characters']}, {settings['max_characters_per_token']} a token"
    if found["words"] is not None:
        yield "Word table", f"{found['words']:,} entries"
    for name, value in settings.items():
        yield "Setting", f"{name} = {json.dumps(value)}"
    yield "Warm state", "yes" if found["warm_state"] else "none"
    for name, value in found["metadata"].items():
        if name == "scalar_mixes":
            for number, mix in enumerate(value):
                normed = ", layers normed over the batch" if mix.get("layer_norm") else ""
                yield "Learned mix", f"{number}: {_mix(mix['weights'], mix['gamma'])}{normed}"
        else:
            yield "Metadata", f"{name} = {json.dumps(value, ensure_ascii=False)}"


def pipeline_rows(found: Dict[str, Any]) -> Iterator[Row]:
    """The table of a pipeline."""
    yield "Pipeline", found["path"]
    name = f"{found['lang']}_{found['name'] or 'pipeline'}"
    yield "Name", f"{name} {found['version']}"
    yield "Components", ", ".join(found["pipeline"])
    if not found["elmo"]:
        yield "", ""
        yield "ELMo", "none: no component has a biLM"
    for component, elmo in found["elmo"].items():
        yield "", ""
        yield "ELMo", component
        source = elmo["source"]
        yield "Source", source if isinstance(source, str) else json.dumps(source)
        for name, value in elmo["settings"].items():
            yield "Setting", f"{name} = {json.dumps(value)}"
        yield "Listeners", ", ".join(elmo["listeners"]) or "none"
        if elmo["bilm"] is None:
            yield "Weights", "none yet: they are read from the source when they are first needed"
        else:
            yield from bilm_rows(elmo["bilm"])
    if found["mixes"]:
        yield "", ""
    for component, mixes in found["mixes"].items():
        for number, mix in enumerate(mixes):
            title = component if len(mixes) == 1 else f"{component} {number}"
            yield f"Mix of {title}", _describe_mix(mix)


def _describe_mix(mix: Dict[str, Any]) -> str:
    upstream = f" (listens to {mix['upstream']!r})" if mix["upstream"] else ""
    if mix["layer_weights"] != "learned":
        return f"fixed, {json.dumps(mix['layer_weights'])}{upstream}"
    if mix["weights"] is None:
        return f"not trained yet{upstream}"
    return f"{_mix(mix['weights'], mix['gamma'])}{upstream}"


def _mix(weights: List[float], gamma: float) -> str:
    listed = " ".join(f"{weight:.{N_DIGITS}f}" for weight in weights)
    return f"weights {listed}, gamma {gamma:.{N_DIGITS}f}"


def _or_none(number: Optional[int], unit: str) -> str:
    return "none" if number is None else f"{number:,} {unit}"
