"""Maps of the contexts of a word, as SVG."""

import math
from collections import Counter
from typing import List, Sequence, Tuple
from xml.etree.ElementTree import Element

from .contexts import Context, as_text
from .markup import tag
from .neighbours import Floats

# Units of the drawing, which is as wide as the page lets it be.
WIDTH, HEIGHT, MARGIN = 640, 420, 28
# Marks whose centres are nearer than this are said to coincide.
COINCIDE = 3.0
# Distance of marks that are spread out because they coincide.
SPREAD = 11.0
GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
# Tokens on either side in the title of a mark.
N_AROUND = 25

N_COLOURS = 6
SHAPES = (
    "M-6,0a6,6 0 1,0 12,0a6,6 0 1,0 -12,0z",
    "M-5.5,-5.5h11v11h-11z",
    "M0,-7.5L7,5.5H-7z",
    "M0,-7.5L7,0L0,7.5L-7,0z",
    "M0,7.5L7,-5.5H-7z",
)
PLAIN = "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"


def mark(sense_number: int) -> Element:
    """The mark of a sense, -1 for contexts without a label. Colours and shapes repeat after
    different numbers, so that 30 senses have marks of their own."""
    if sense_number < 0:
        return tag("path", class_="mark plain", d=PLAIN)
    colour = f"mark colour-{sense_number % N_COLOURS}"
    return tag("path", class_=colour, d=SHAPES[sense_number % len(SHAPES)])


def icon(sense_number: int) -> Element:
    """The mark of a sense for use in a line of text."""
    return tag("svg", mark(sense_number), class_="icon", viewBox="-9 -9 18 18", aria_hidden="true")


def place(points: Floats) -> List[Tuple[float, float]]:
    """Where the marks of points stand: one scale for both axes, and those that coincide spread
    out around their place like the seeds of a sunflower."""
    largest = max(Counter(_gather(_fit(points, MARGIN))).values())
    spread = min(SPREAD, (HEIGHT / 2 - 2 * MARGIN) / math.sqrt(largest))
    # Room at the border for the largest group.
    centres = _gather(_fit(points, MARGIN + spread * math.sqrt(largest - 1)))
    placed: List[Tuple[float, float]] = []
    for number, (x, y) in enumerate(centres):
        place_in_group = centres[:number].count((x, y))
        radius, angle = spread * math.sqrt(place_in_group), place_in_group * GOLDEN_ANGLE
        placed.append((x + radius * math.cos(angle), y + radius * math.sin(angle)))
    return placed


def _fit(points: Floats, margin: float) -> List[Tuple[float, float]]:
    """Points in units of the drawing, inside its margins."""
    low, high = points.min(axis=0), points.max(axis=0)
    sizes = (WIDTH - 2 * margin, HEIGHT - 2 * margin)
    scales = [size / float(extent) for size, extent in zip(sizes, high - low) if extent > 0]
    scale = min(scales, default=0.0)
    fitted = (points - (low + high) / 2) * scale
    return [(WIDTH / 2 + float(x), HEIGHT / 2 - float(y)) for x, y in fitted]


def _gather(places: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
    """Move each place to the first one that it coincides with."""
    gathered: List[Tuple[float, float]] = []
    for place in places:
        near = (centre for centre in gathered if math.dist(centre, place) < COINCIDE)
        gathered.append(next(near, place))
    return gathered


def draw_map(
    points: Floats,
    contexts: Sequence[Context],
    senses: Sequence[str],
    ids: Sequence[str],
    neighbours: Sequence[Sequence[int]],
    title: str,
) -> Element:
    """The map of one layer. Each mark is a link to its context.

    :param points: *Shape:* (n_contexts, 2)
    :param senses: the labels, in the order of their marks.
    :param ids: what the marks link to, one a context.
    :param neighbours: the numbers of each context's nearest others.
    """
    numbers = {sense: number for number, sense in enumerate(senses)}
    svg = tag("svg", class_="map", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="group", aria_label=title)
    svg.append(tag("g", class_="lines"))
    # Marks without a label are drawn first, so that they hide none of the others.
    order = sorted(range(len(contexts)), key=lambda number: bool(contexts[number].sense))
    places = place(points)
    for number in order:
        context, (x, y) = contexts[number], places[number]
        label = f"{context.sense}: " if context.sense else ""
        link = tag(
            "a",
            tag("title", label + as_text(context, N_AROUND)),
            mark(numbers.get(context.sense, -1)),
            href=f"#{ids[number]}",
            class_="point",
            transform=f"translate({x:.1f} {y:.1f})",
            data_near=" ".join(ids[other] for other in neighbours[number]),
        )
        svg.append(link)
    return svg
