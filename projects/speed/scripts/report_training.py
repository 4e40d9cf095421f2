"""The section on the training step, and its panels of the figure."""

from typing import Any, Dict, Iterator, List, Tuple

from .tables import Measurement, describe, table

# What the trainer is to reach at size sm on a CPU: in float32 this part of the rate at which the
# machine does the step's products alone; with bfloat16, where the CPU has AMX, this many times the
# tokens/s of float32.
RATIO_TO_REACH = 0.45
SPEEDUP_TO_REACH = 2.2

RATES = (
    "size",
    "precision",
    "seconds a step",
    "tokens/s",
    "MFLOP a token",
    "GFLOP/s",
    "GFLOP/s of the products alone",
    "ratio",
)


def write_section(measurement: Measurement) -> str:
    """The tables as Markdown."""
    results = list(iter_results(measurement))
    part_names = list(results[0][1]["parts_seconds"])
    return "\n".join(
        [
            f"## Training step\n\n{describe(measurement['machine'])}",
            table(RATES, [rate_row(*result) for result in results]),
            "\n".join(write_notes(measurement)) + "\n",
            "Shares of the parts of a step:\n",
            table(["size", "precision", *part_names], [share_row(*result) for result in results]),
            *(table_products(size) for size in measurement["sizes"]),
        ]
    )


def iter_results(measurement: Measurement) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Each size and precision: the name of the size, and what was found."""
    for size in measurement["sizes"]:
        for found in size["precisions"]:
            yield size["size"], found


def rate_row(size: str, found: Dict[str, Any]) -> List[str]:
    return [
        size,
        found["precision"],
        f"{found['step_seconds']:.3g}",
        f"{found['tokens_per_second']:,.0f}",
        f"{found['mflop_a_token']:.1f}",
        f"{found['gflop_per_second']:,.0f}",
        f"{found['products_gflop_per_second']:,.0f}",
        f"{found['ratio']:.2f}",
    ]


def share_row(size: str, found: Dict[str, Any]) -> List[str]:
    seconds = found["parts_seconds"].values()
    return [size, found["precision"], *(f"{part / sum(seconds):.1%}" for part in seconds)]


def write_notes(measurement: Measurement) -> Iterator[str]:
    """A list: what a step has, and whether what is to be reached is."""
    machine, options = measurement["machine"], measurement["options"]
    for size in measurement["sizes"]:
        float32, bfloat16 = size["precisions"]
        speedup = bfloat16["tokens_per_second"] / float32["tokens_per_second"]
        yield (
            f"- `{size['size']}` has {size['n_parameters'] / 1e6:.1f} million parameters and "
            f"{size['n_words']:,} words to predict. A step reads {float32['tokens_a_step']:,} "
            f"tokens ({float32['positions_a_step']:,} with the marks of sentences) in both "
            f"directions, {float32['distinct_words_a_step']:,} distinct words."
        )
        yield f"- bfloat16 makes {speedup:.2f} times the tokens/s of float32."
        if size["size"] == "sm" and machine["device_type"] == "cpu" and not options:
            yield judge("`sm`: float32 ratio", float32["ratio"], RATIO_TO_REACH)
            if machine["has_amx"]:
                yield judge("`sm`: bfloat16 to float32", speedup, SPEEDUP_TO_REACH)
    if options:
        changed = ", ".join(f"`{name} = {value}`" for name, value in options.items())
        yield f"- The settings are those of `spacy elmo init-bilm`, but {changed}."


def judge(what: str, value: float, to_reach: float) -> str:
    verdict = "reached" if value >= to_reach else "not reached"
    return f"- {what} {value:.2f}, to reach {to_reach}: **{verdict}**."


def table_products(size: Dict[str, Any]) -> str:
    """The products of a step and the rate of each, which stand above as one rate."""
    precisions = size["precisions"]
    rows: List[List[str]] = []
    for number, product in enumerate(size["products"]):
        shape = " x ".join(f"{product[name]:,}" for name in ("rows", "inner", "columns"))
        flops, count = product["flops"], product["count"]
        seconds = [count * found["seconds_of_each_product"][number] for found in precisions]
        rates = [f"{flops / second / 1e9:,.0f}" for second in seconds]
        rows.append([product["what"], shape, str(count), f"{flops / 1e9:.2f}", *rates])
    names = [f"GFLOP/s, {found['precision']}" for found in precisions]
    title = f"Products of a step of `{size['size']}`, each alone (d: gradient of):\n\n"
    return title + table(["product", "shape", "count", "GFLOP in all", *names], rows)


def draw(measurement: Measurement, left: Any, right: Any) -> None:
    """Bars for tokens/s, and for the rate of a step beside that of its products alone.

    :param left: axes of matplotlib, as is ``right``.
    """
    results = list(iter_results(measurement))
    places = range(len(results))
    bars = left.bar(places, [found["tokens_per_second"] for _, found in results], width=0.6)
    left.bar_label(bars, fmt="{:,.0f}")
    left.set_ylabel("Training, tokens/s")
    width = 0.4
    for shift, key, label in (
        (-width / 2, "gflop_per_second", "training step"),
        (width / 2, "products_gflop_per_second", "its matrix products alone"),
    ):
        heights = [found[key] for _, found in results]
        bars = right.bar([x + shift for x in places], heights, width=width, label=label)
        right.bar_label(bars, fmt="{:,.0f}")
    right.set_ylabel("GFLOP/s")
    right.legend(frameon=False, loc="upper left")
    for axes in (left, right):
        axes.set_xticks(places, [f"{size}\n{found['precision']}" for size, found in results])
