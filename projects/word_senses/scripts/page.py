"""The page: one HTML file that needs nothing else."""

from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence
from xml.etree.ElementTree import Element

import numpy

from .contexts import Context, as_text, split_context
from .maps import draw_map, icon
from .markup import append, tag, to_html
from .neighbours import Floats

ASSETS = Path(__file__).parent.parent / "assets"

# The browser itself refuses whatever is not in the file.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)
# Tokens on either side of a neighbour.
N_AROUND = 6


@dataclass
class View:
    """What a layer says of the contexts of a word.

    :param points: where they stand on the map. *Shape:* (n_contexts, 2)
    :param shares: of the variance, which the map's axes show.
    :param similarities: cosines. *Shape:* (n_contexts, n_contexts)
    :param neighbours: the numbers of each context's nearest others.
    :param agreement: of the nearest neighbour and of the ``k`` nearest, or none.
    """

    points: Floats
    shares: Sequence[float]
    similarities: Floats
    neighbours: List[List[int]]
    agreement: Optional[Sequence[float]]


@dataclass
class Word:
    """What the page shows of a word.

    :param views: one a layer, and one of their average.
    :param chance: agreement by chance, or none where fewer than two senses are labelled.
    """

    word: str
    contexts: List[Context]
    views: List[View]
    chance: Optional[float]

    @property
    def senses(self) -> List[str]:
        return list(dict.fromkeys(context.sense for context in self.contexts if context.sense))


@dataclass
class Page:
    """All of it.

    :param names: of the views, static vectors first.
    :param k: how many nearest neighbours are counted.
    :param first_view: the one to show first.
    :param missing: words that the text has not.
    """

    words: List[Word]
    names: List[str]
    source: str
    k: int
    first_view: int
    missing: Sequence[str] = ()


def write_page(page: Page) -> str:
    """The page as HTML."""
    style = (ASSETS / "page.css").read_text(encoding="utf-8") + _view_rules(len(page.names))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "Word senses: " + ", ".join(word.word for word in page.words)),
        tag("style", style),
    )
    main = tag("main", _introduction(page), id="main")
    for number, word in enumerate(page.words, start=1):
        main.append(_word_section(page, word, f"w{number}"))
    skip = tag("a", "Skip to the words", class_="skip", href="#w1")
    script = tag("script", (ASSETS / "page.js").read_text(encoding="utf-8"))
    return to_html(tag("html", head, tag("body", skip, _bar(page), main, script), lang="en"))


def _view_rules(n_views: int) -> str:
    """Only the chosen layer is shown; without ``:has`` all of them are."""
    rules = "".join(
        f"html:has(#view-{number}:checked) .view-{number}{{display:block}}"
        for number in range(n_views)
    )
    return "@supports selector(:has(*)){.view{display:none}" + rules + "}"


def _bar(page: Page) -> Element:
    words = tag("nav", aria_label="Words")
    for number, word in enumerate(page.words, start=1):
        words.append(tag("a", word.word, href=f"#w{number}"))
    layers = tag("fieldset", tag("legend", "Layer"))
    for number, name in enumerate(page.names):
        button = tag("input", type="radio", name="view", id=f"view-{number}")
        if number == page.first_view:
            button.set("checked", "checked")
        layers.append(tag("label", button, tag("span", name)))
    return tag("header", words, layers, class_="bar")


def _introduction(page: Page) -> Element:
    section = tag(
        "section",
        tag("h1", "Word senses in context"),
        tag(
            "p",
            "Each mark is one occurrence of a word. Its place comes from the vector that the biLM ",
            tag("code", page.source),
            " gives the word in that sentence, so that occurrences in similar contexts stand "
            "together. Choose a layer above. Point at a mark to read its sentence and those of its "
            "nearest neighbours, or go to it with Tab and the arrow keys; select it to keep them.",
        ),
        tag(
            "p",
            "The maps are the first two principal components (PCA) of the word's vectors in one "
            "layer, scaled to length 1; marks that would cover each other are spread out a "
            "little. A map shows only a part of the differences. Neighbours are counted in all "
            "dimensions, by cosine. Layer 0 is the static vector: it knows the letters of the "
            "word and nothing of its context, so that it tells senses apart only where they are "
            "spelled differently (Apple and apple, plants and plant). The average of all layers is "
            "what the component writes to ",
            tag("code", "doc.tensor"),
            " by default.",
        ),
        class_="introduction",
    )
    if page.missing:
        append(section, tag("p", "Not in the text: " + ", ".join(page.missing) + "."))
    append(section, *_summary(page))
    return section


def _summary(page: Page) -> List[Element]:
    labelled = [word for word in page.words if word.chance is not None]
    heading = tag("h2", "Do neighbours have the same sense?", id="agreement")
    if not labelled:
        text = "No word has labels of two senses in this text, so there is nothing to compare."
        return [heading, tag("p", text)]
    text = (
        f"How many of the {page.k} nearest labelled neighbours of an occurrence have its label, "
        "on average over the labelled occurrences of a word. Where vectors are equal, as static "
        "ones are, neighbours are chosen by chance."
    )
    head = tag("tr", *_heads("Word", "Occurrences", "Senses", "By chance", *page.names))
    # A narrow screen leaves these out.
    for detail in head[1:3]:
        detail.set("class", "detail")
    body = tag("tbody")
    for word in labelled:
        n_labelled = sum(bool(context.sense) for context in word.contexts)
        row = tag("tr", tag("th", word.word, scope="row"))
        numbers = (n_labelled, len(word.senses))
        append(row, *(tag("td", str(number), class_="detail") for number in numbers))
        append(row, tag("td", f"{word.chance:.2f}"), *_figures(word, 1))
        body.append(row)
    table = tag("table", tag("thead", head), body)
    return [heading, tag("p", text), _scrolling(table, "Agreement of all words")]


def _scrolling(table: Element, name: str) -> Element:
    """A table that is wider than the screen can be scrolled, with the keyboard as well."""
    return tag("div", table, class_="scroll", role="region", aria_label=name, tabindex="0")


def _heads(*names: str) -> List[Element]:
    return [tag("th", name, scope="col") for name in names]


def _figures(word: Word, which: int) -> List[Element]:
    """A cell a view, the best ones marked."""
    values = [f"{view.agreement[which]:.2f}" for view in word.views if view.agreement]
    return [tag("td", tag("strong", value) if value == max(values) else value) for value in values]


def _word_section(page: Page, word: Word, name: str) -> Element:
    ids = [f"{name}-{number}" for number in range(1, len(word.contexts) + 1)]
    heading = tag("h2", word.word, id=f"{name}-title")
    legend = tag("ul", class_="legend")
    for number, sense in [*enumerate(word.senses), (-1, "")]:
        count = sum(context.sense == sense for context in word.contexts)
        if count:
            legend.append(tag("li", icon(number), f"{sense or 'no label'} ({count})"))
    maps = tag("div", class_="maps")
    for view_number, (view, layer) in enumerate(zip(word.views, page.names)):
        title = f"{word.word}, {layer}"
        drawing = draw_map(view.points, word.contexts, word.senses, ids, view.neighbours, title)
        caption = tag("figcaption", tag("b", title), ". " + _explain(view))
        maps.append(tag("figure", drawing, caption, class_=f"view view-{view_number}"))
    panel = tag("div", class_="panel", aria_live="polite")
    hint = "Point at a mark, or select one, to see its sentence and neighbours."
    append(panel, tag("p", hint, class_="hint"), *_agreement(page, word))
    contexts = tag("ol", class_="contexts")
    for number in range(len(word.contexts)):
        contexts.append(_context_item(page, word, number, ids))
    n_contexts = len(word.contexts)
    noun = "context" if n_contexts == 1 else "contexts"
    summary = f"{n_contexts} {noun} of {word.word}, with neighbours"
    every = tag("details", tag("summary", summary), contexts)
    shown = tag("div", maps, panel, class_="shown")
    return tag("section", heading, legend, shown, every, id=name, aria_labelledby=f"{name}-title")


def _explain(view: View) -> str:
    if not any(view.shares):
        return "All vectors are equal: a static vector is the same in every context."
    across, upwards = view.shares
    return f"PCA: {across:.0%} of the variance from left to right, {upwards:.0%} upwards."


def _agreement(page: Page, word: Word) -> List[Element]:
    if word.chance is None:
        return [tag("p", "Fewer than two senses of this word are labelled.", class_="figures")]
    body = tag("tbody")
    for text, which in (("nearest", 0), (f"{page.k} nearest", 1)):
        row = tag("tr", tag("th", text, scope="row"), tag("td", f"{word.chance:.2f}"))
        body.append(append(row, *_figures(word, which)))
    head = tag("tr", *_heads("Counted", "By chance", *page.names))
    caption = tag("caption", "Neighbours with the same label")
    table = tag("table", caption, tag("thead", head), body)
    return [tag("div", _scrolling(table, f"Agreement of {word.word}"), class_="figures")]


def _context_item(page: Page, word: Word, number: int, ids: Sequence[str]) -> Element:
    context = word.contexts[number]
    before, occurrence, after = split_context(context)
    sentence = tag("p", *_sense(word, context), before, tag("mark", occurrence), after)
    item = tag("li", sentence, id=ids[number])
    for view_number, view in enumerate(word.views):
        found = tag("ol")
        for other in view.neighbours[number]:
            near = word.contexts[other]
            cosine = f"{view.similarities[number, other]:.2f}"
            link = tag("a", as_text(near, N_AROUND), href=f"#{ids[other]}")
            found.append(tag("li", tag("span", cosine, class_="cosine"), *_sense(word, near), link))
        note = f"Nearest, {page.names[view_number]} (cosine{_tied(view, number)}):"
        item.append(tag("div", tag("p", note), found, class_=f"view view-{view_number}"))
    return item


def _tied(view: View, number: int) -> str:
    """What to say where more contexts than are shown are as near as those that are."""
    shown = view.neighbours[number]
    if not shown:
        return ""
    row = view.similarities[number]
    others = numpy.delete(row, number)
    n_near = int((others >= row[shown[-1]]).sum())
    return f"; {n_near} are as near as these" if n_near > len(shown) else ""


def _sense(word: Word, context: Context) -> List[Element]:
    if not context.sense:
        return [icon(-1)]
    number = word.senses.index(context.sense)
    return [tag("span", icon(number), context.sense, class_="sense")]
