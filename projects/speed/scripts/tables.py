"""What the sections of the report share."""

from typing import Any, Dict, List, Sequence

Measurement = Dict[str, Any]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the columns from the third on hold numbers."""
    rule = ["---", "---", *["---:"] * (len(header) - 2)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (header, rule, *rows))


def describe(machine: Dict[str, Any]) -> str:
    """The machine in words."""
    n_threads = machine["n_threads"]
    parts: List[str] = [
        machine["device"],
        f"{n_threads} thread{'s' if n_threads != 1 else ''}",
        f"torch {machine['torch']}",
        f"Python {machine['python']}",
        machine["system"],
    ]
    text = ", ".join(parts) + ".\n"
    if machine["device_type"] == "cpu" and not machine["has_amx"]:
        text += "\nThis CPU has no AMX, with which bfloat16 gains most.\n"
    return text
