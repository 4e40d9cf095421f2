"""The section on vectors (inference), and its panels of the figure."""

from typing import Any, Dict, Iterator, List, Optional

from .tables import Measurement, describe, table

# What is to be reached, each size and precision: times the textbook pass, warm, and the part of
# the rate at which the machine does the LSTMs' products alone with many rows.
TO_REACH = {
    ("small", "float32"): (20, 0.50),
    ("small", "bfloat16"): (35, 0.25),
    ("original", "float32"): (3.5, 0.60),
    ("original", "bfloat16"): (8, 0.35),
}
PIPE_TO_REACH = 0.85
LATENCY_TO_REACH_MS = 3.0
GROWTH_TO_REACH = 1.10
IMPORT_TO_REACH = 0.2

SYSTEMS = ("size", "system", "precision", "tokens/s, cold", "tokens/s, warm", "x textbook")
RATES = (
    "size",
    "precision",
    "MFLOP a token",
    "GFLOP/s",
    "products alone, 32 rows",
    "products alone, 512 rows",
    "ratio, 32 rows",
    "ratio, 512 rows",
)
EMBED, PIPE, TEXTBOOK = "BiLM.embed", "nlp.pipe, elmo", "textbook"


def write_section(measurement: Measurement) -> str:
    """The tables as Markdown."""
    sizes = measurement["sizes"]
    return "\n".join(
        [
            f"## Vectors\n\n{describe(measurement['machine'])}",
            table(SYSTEMS, [row for size in sizes for row in system_rows(size)]),
            "Of the LSTMs, warm, beside the machine's rate for the same products alone:\n",
            table(RATES, [row for size in sizes for row in rate_rows(size)]),
            "\n".join(write_notes(measurement)) + "\n",
            "Sentences of a call (they stand as in the text), tokens/s in float32:\n",
            table(
                ("size", "what", *map(str, batch_names(sizes))),
                [batch_row(size, batch_names(sizes)) for size in sizes],
            ),
            "Documents of growing length, without sentences, in a pipeline with only `elmo`:\n",
            table(
                ("size", "tokens", "us a token", "peak memory, MB", "of it the vectors, MB"),
                [document_row(document) for document in measurement["documents"]],
            ),
        ]
    )


def warm_rate(size: Dict[str, Any], system: str, precision: str = "float32") -> float:
    (found,) = [
        case["warm_tokens_per_second"]
        for case in size["systems"]
        if (case["system"], case["precision"]) == (system, precision)
    ]
    return float(found)


def system_rows(size: Dict[str, Any]) -> Iterator[List[str]]:
    plain = warm_rate(size, TEXTBOOK)
    for case in size["systems"]:
        cold: Optional[float] = case["cold_tokens_per_second"]
        warm = case["warm_tokens_per_second"]
        yield [
            size["size"],
            case["system"],
            case["precision"],
            "" if cold is None else f"{cold:,.0f}",
            f"{warm:,.0f}",
            f"{warm / plain:.1f}",
        ]


def ratio_to_many_rows(size: Dict[str, Any], precision: str) -> float:
    """The part of the products' best rate that a warm run reaches."""
    reached = warm_rate(size, EMBED, precision) * size["flops_a_token"]
    return float(reached / size["products_flop_per_second"][precision]["512"])


def rate_rows(size: Dict[str, Any]) -> Iterator[List[str]]:
    for precision, alone in size["products_flop_per_second"].items():
        reached = warm_rate(size, EMBED, precision) * size["flops_a_token"]
        yield [
            size["size"],
            precision,
            f"{size['flops_a_token'] / 1e6:.1f}",
            f"{reached / 1e9:,.0f}",
            *(f"{alone[rows] / 1e9:,.0f}" for rows in ("32", "512")),
            *(f"{reached / alone[rows]:.2f}" for rows in ("32", "512")),
        ]


def write_notes(measurement: Measurement) -> Iterator[str]:
    """A list: what was read, and whether what is to be reached is."""
    is_cpu = measurement["machine"]["device_type"] == "cpu"
    for size in measurement["sizes"]:
        name = size["size"]
        latency = size["latency"]
        yield (
            f"- `{name}` has {size['n_parameters'] / 1e6:.1f} million parameters and loads in "
            f"{size['load_seconds']:.2f} s. It read {size['n_tokens']:,} tokens in "
            f"{size['n_sentences']:,} sentences, {measurement['batch']} a call, with "
            f"{size['n_distinct_words']:,} distinct words. A sentence of {latency['n_tokens']} "
            f"tokens alone takes {latency['p50_ms']:.2f} ms (p50), {latency['p95_ms']:.2f} (p95)."
        )
        pipe = warm_rate(size, PIPE) / warm_rate(size, EMBED)
        yield judge(f"`{name}`: `nlp.pipe` to `BiLM.embed`", pipe, PIPE_TO_REACH)
        for precision in size["products_flop_per_second"]:
            if is_cpu and (name, precision) in TO_REACH:
                times_to_reach, ratio_to_reach = TO_REACH[name, precision]
                times = warm_rate(size, EMBED, precision) / warm_rate(size, TEXTBOOK)
                ratio = ratio_to_many_rows(size, precision)
                yield judge(f"`{name}` {precision}: times the textbook", times, times_to_reach)
                yield judge(f"`{name}` {precision}: ratio, 512 rows", ratio, ratio_to_reach)
        if name == "sm":
            what = "`sm`: ms of a short sentence (p50)"
            yield judge(what, latency["p50_ms"], LATENCY_TO_REACH_MS, at_most=True)
    of_documents = {doc["n_tokens"]: doc["us_a_token"] for doc in measurement["documents"]}
    if {1000, 100_000} <= set(of_documents):
        growth = of_documents[100_000] / of_documents[1000]
        what = "time a token, 100,000 tokens to 1,000"
        yield judge(what, growth, GROWTH_TO_REACH, at_most=True)
    what = "seconds that the import adds to spaCy's"
    yield judge(what, measurement["import_seconds"], IMPORT_TO_REACH, at_most=True)


def judge(what: str, value: float, to_reach: float, at_most: bool = False) -> str:
    is_reached = value <= to_reach if at_most else value >= to_reach
    verdict = "reached" if is_reached else "not reached"
    goal = f"{'at most ' if at_most else ''}{to_reach}"
    return f"- {what} {value:.2f}, to reach {goal}: **{verdict}**."


def batch_names(sizes: List[Dict[str, Any]]) -> List[int]:
    return sorted({batch["batch_size"] for size in sizes for batch in size["batches"]})


def batch_row(size: Dict[str, Any], names: List[int]) -> List[str]:
    rates = {batch["batch_size"]: batch["tokens_per_second"] for batch in size["batches"]}
    return [
        size["size"],
        "tokens/s",
        *(f"{rates[name]:,.0f}" if name in rates else "" for name in names),
    ]


def document_row(document: Dict[str, Any]) -> List[str]:
    return [
        "sm",
        f"{document['n_tokens']:,}",
        f"{document['us_a_token']:.1f}",
        f"{document['peak_megabytes']:,.0f}",
        f"{document['tensor_megabytes']:,.1f}",
    ]


def draw(measurement: Measurement, left: Any, right: Any) -> None:
    """Bars for tokens/s, and for the rate of a warm run beside that of its products alone.

    :param left: axes of matplotlib, as is ``right``.
    """
    sizes = measurement["sizes"]
    places = range(len(sizes))
    shown = [(EMBED, "float32"), (EMBED, "bfloat16"), (TEXTBOOK, "float32")]
    width = 0.8 / len(shown)
    for number, (system, precision) in enumerate(shown):
        heights = [warm_rate(size, system, precision) for size in sizes]
        xs = [x + (number - 1) * width for x in places]
        bars = left.bar(xs, heights, width=width, label=f"{system}, {precision}")
        left.bar_label(bars, fmt="{:,.0f}", fontsize="small")
    left.set_xticks(places, [size["size"] for size in sizes])
    left.set_ylabel("Vectors, tokens/s, warm")
    labels, heights, alone = [], [], []
    for size in sizes:
        for precision, rates in size["products_flop_per_second"].items():
            labels.append(f"{size['size']}\n{precision}")
            heights.append(warm_rate(size, EMBED, precision) * size["flops_a_token"] / 1e9)
            alone.append(rates["512"] / 1e9)
    for shift, values, label in (
        (-0.2, heights, "BiLM.embed, warm"),
        (0.2, alone, "its LSTM products alone"),
    ):
        xs = [x + shift for x in range(len(labels))]
        bars = right.bar(xs, values, width=0.4, label=label)
        right.bar_label(bars, fmt="{:,.0f}", fontsize="small")
    right.set_xticks(range(len(labels)), labels)
    right.set_ylabel("GFLOP/s")
    for axes in (left, right):
        axes.legend(frameon=False)
