"""The project that shows word senses: contexts, figures by closed form, and the page."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import permutations, product

import numpy
import pytest
import spacy
from numpy.testing import assert_allclose

from projects.word_senses.scripts import collect, embed, report
from projects.word_senses.scripts.contexts import (
    Context,
    as_text,
    read_contexts,
    split_context,
    write_contexts,
)
from projects.word_senses.scripts.labelled_text import read_labelled
from projects.word_senses.scripts.maps import HEIGHT, N_COLOURS, SHAPES, WIDTH, place
from projects.word_senses.scripts.neighbours import agreement, chance, cosines, nearest, project
from spacy_elmo import BiLM

from .. import word_senses_set
from ..conftest import ROOT, random_bilm

PROJECT = ROOT / "projects" / "word_senses"
WORDS = "bank,bass,apple,plant,spring,light"
VOID = {"meta", "input", "br", "hr", "img", "link", "area", "base", "col", "source", "wbr"}
HOSTILE = "</title><script>alert('bank & <b>')</script>"


def run(module, monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["script", *map(str, args)])
    module.main()


# Contexts


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.fixture(scope="module")
def own_text(nlp):
    return read_labelled(PROJECT / "assets" / "senses.txt", nlp)


def test_the_projects_text_has_some_sentences_of_each_sense(own_text):
    counts = Counter((context.word, context.sense) for context in own_text)
    assert list(dict.fromkeys(word for word, _ in counts)) == WORDS.split(",")
    for word in WORDS.split(","):
        assert len([sense for of, sense in counts if of == word]) >= 2
    assert all(8 <= count <= 15 for count in counts.values())
    assert all(context.tokens[context.index].lower() == context.word for context in own_text)
    sentences = Counter(as_text(context) for context in own_text)
    assert max(sentences.values()) == 1


def test_the_set_of_bank_shore_and_loan_is_no_part_of_the_projects_text(own_text):
    names = {"RIVER_BANK": "bank", "MONEY_BANK": "bank", "SHORE": "shore", "LOAN": "loan"}
    known = {tuple(context.tokens) for context in own_text}
    sentences = []
    for name, word in names.items():
        occurrences = getattr(word_senses_set, name)
        assert len(occurrences) == 10
        assert all(one.tokens[one.index] == word for one in occurrences)
        sentences += [tuple(one.tokens) for one in occurrences]
    assert len(set(sentences)) == len(sentences) and not known & set(sentences)


def test_labelled_text_labels_each_occurrence(tmp_path, nlp):
    path = tmp_path / "text.txt"
    path.write_text("\ufeff# Bank: river: edge\n\nBank by bank.\n#bank:money\nA bank", "utf-8")
    assert read_labelled(path, nlp) == [
        Context("Bank", "river: edge", ["Bank", "by", "bank", "."], 0),
        Context("Bank", "river: edge", ["Bank", "by", "bank", "."], 2),
        Context("bank", "money", ["A", "bank"], 1),
    ]


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.txt", "A bank.", "line 1: expected a line '# word: sense' above"),
        ("a.txt", "# bank river\nA bank.", "line 1: '# bank river'; expected '# word: sense'"),
        ("a.txt", "# bank:\nA bank.", "line 1: '# bank:'; expected '# word: sense'"),
        ("a.txt", "# bank: river\nTwo banks.", "line 2: 'Two banks.' has no word 'bank'"),
        ("a.jsonl", '{"lemma": "bank"}', r"a.jsonl, line 1: .*; expected {\"lemma\""),
        ("a.jsonl", "bank", "a.jsonl, line 1: 'bank'; expected"),
        ("a.txt.gz", "# bank: river", "a.txt.gz cannot be read"),
    ],
)
def test_what_labelled_text_cannot_say_is_named(tmp_path, nlp, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        read_labelled(tmp_path / name, nlp)


@pytest.mark.parametrize(
    "changed", [{"index": 3}, {"index": -1}, {"tokens": "A bank"}, {"sense": 1}, {"tokens": [1]}]
)
def test_labelled_json_is_checked(tmp_path, nlp, changed):
    value = {"lemma": "bank", "sense": "river", "tokens": ["A", "bank", "."], "index": 1}
    path = tmp_path / "text.jsonl"
    path.write_text(json.dumps(value), encoding="utf-8")
    assert read_labelled(path, nlp) == [Context("bank", "river", value["tokens"], 1)]
    path.write_text(json.dumps({**value, **changed}), encoding="utf-8")
    with pytest.raises(SystemExit, match="expected {"):
        read_labelled(path, nlp)


def test_a_missing_labelled_text_is_named(tmp_path, nlp):
    with pytest.raises(SystemExit, match="no file .*nothing.txt.*--vars.labelled"):
        read_labelled(tmp_path / "nothing.txt", nlp)


def test_without_zstandard_the_extra_is_named(tmp_path, nlp, monkeypatch):
    (tmp_path / "text.txt.zst").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r"pip install spacy-elmo\[zstd\]"):
        read_labelled(tmp_path / "text.txt.zst", nlp)


def test_the_sample_of_semcor_can_be_read(shared, nlp):
    contexts = read_labelled(shared / "data" / "wsd" / "semcor-words.jsonl.gz", nlp)
    assert len(contexts) == 10_862
    assert len({context.word for context in contexts}) == 97  # one of 98 is noun and verb


@pytest.mark.parametrize(
    "text, n_around, expected",
    [
        (
            "`` Is n't it ( the bank ) ? '' he said .",
            0,
            ("“Isn't it (the ", "bank", ")?” he said."),
        ),
        ("a b c d bank e f g h .", 1, ("… d ", "bank", " e …")),
        ("a b bank .", 1, ("a b ", "bank", ".")),
        ("bank", 3, ("", "bank", "")),
    ],
)
def test_a_context_as_text(text, n_around, expected):
    tokens = text.split()
    context = Context("bank", "", tokens, tokens.index("bank"))
    assert split_context(context, n_around) == expected
    assert as_text(context, n_around) == "".join(expected)


def test_contexts_survive_their_file(tmp_path):
    contexts = [Context("bank", "é", ["Bank\u2028", '"'], 0), Context("bank", "", ["bank"], 0)]
    write_contexts(tmp_path / "new" / "contexts.jsonl", contexts)
    assert read_contexts(tmp_path / "new" / "contexts.jsonl") == contexts


def test_collected_contexts_are_labelled_and_plain(tmp_path, monkeypatch, capsys):
    (tmp_path / "labelled.txt").write_text("# bank: river\nA bank.\nThe bank.\nOur bank.", "utf-8")
    (tmp_path / "text").mkdir()
    text = "Bank on it. A bank is a bank. A bank is a bank.\nNo word of it."
    (tmp_path / "text" / "plain.txt").write_text(text, "utf-8")
    output = tmp_path / "contexts.jsonl"
    texts = ["--labelled", tmp_path / "labelled.txt", "--text", tmp_path / "text"]
    options = ["--per-sense", 2, "--output", output]
    run(collect, monkeypatch, "--words", " bank ,,shore,bank", *texts, *options)
    found = [(context.sense, as_text(context), context.index) for context in read_contexts(output)]
    # Two of three at even distances, and the same sentence once.
    labelled = [("river", "A bank.", 1), ("river", "The bank.", 1)]
    assert found == [*labelled, ("", "Bank on it.", 0), ("", "A bank is a bank.", 1)]
    assert "shore: 0 labelled contexts, 0 without a label" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, message",
    [
        (["--words", ",", "--labelled", "{text}"], "words are ','.*--vars.words bank,bass"),
        (["--words", "shore", "--labelled", "{text}"], "none of the words shore"),
        (["--words", "bank"], "no text: give --vars.labelled"),
        (["--words", "bank", "--text", "{text}.txt"], "does not exist.*--vars.text"),
        (["--words", "bank", "--labelled", "{text}", "--per-sense", "0"], "per-sense is 0"),
    ],
)
def test_what_cannot_be_collected_is_named(tmp_path, monkeypatch, options, message):
    (tmp_path / "text").write_text("# bank: river\nA bank.", encoding="utf-8")
    options = [option.replace("{text}", str(tmp_path / "text")) for option in options]
    with pytest.raises(SystemExit, match=message):
        run(collect, monkeypatch, *options, "--output", tmp_path / "contexts.jsonl")
    assert not (tmp_path / "contexts.jsonl").exists()


# Figures


def by_permutations(similarities, labels, k):
    """Agreement as the mean over all orders in which equally near neighbours can stand."""
    shares = []
    for number, row in enumerate(similarities):
        others = [other for other in range(len(labels)) if other != number]
        for order in permutations(others):
            chosen = sorted(order, key=lambda other: -row[other])[:k]
            shares.append(numpy.mean([labels[other] == labels[number] for other in chosen]))
    return numpy.mean(shares)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_agreement_chooses_among_ties_at_random(k):
    levels = numpy.random.default_rng(k).choice([0.1, 0.5, 0.9], (5, 5))
    similarities = numpy.triu(levels) + numpy.triu(levels, 1).T
    labels = ["a", "b", "a", "a", "b"]
    expected = by_permutations(similarities, labels, k)
    assert agreement(similarities, labels, k) == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_equal_vectors_agree_by_chance(k):
    labels = ["a"] * 3 + ["b"] * 5 + ["c"]
    # What is equal up to rounding is equal.
    noise = numpy.random.default_rng(0).normal(scale=1e-7, size=(9, 8))
    expected = (3 * 2 + 5 * 4) / (9 * 8)
    assert chance(labels) == pytest.approx(expected)
    assert agreement(
        cosines(
            numpy.ones((9, 8)) + noise,
        ),
        labels,
        k,
    ) == pytest.approx(expected)


def test_agreement_of_groups_that_lie_apart():
    angles = numpy.radians([0, 1, 3, 90, 91, 93])
    similarities = cosines(numpy.stack([numpy.cos(angles), numpy.sin(angles)], axis=1))
    apart, mixed = list("aaabbb"), list("abaaab")
    assert agreement(similarities, apart, 2) == 1.0
    # Three of five neighbours are of the other group, two of one's own.
    assert agreement(similarities, apart, 5) == pytest.approx(2 / 5)
    assert agreement(similarities, apart, 99) == pytest.approx(2 / 5)
    # Of "aba" and "aab": neighbours share 1, 0, 1 and 1, 1, 0 of two labels.
    assert agreement(similarities, mixed, 2) == pytest.approx(4 / 2 / 6)


@pytest.mark.parametrize("labels, k", [(["a"], 1), (["a", "b"], 0)])
def test_agreement_needs_neighbours(labels, k):
    with pytest.raises(ValueError, match="expected 2 or more, and 1 or more"):
        agreement(numpy.ones((len(labels), len(labels))), labels, k)


def test_cosines_and_nearest_neighbours():
    vectors = numpy.random.default_rng(0).normal(size=(12, 4))
    vectors[5] = 0
    similarities = cosines(vectors)
    assert (similarities[5] == 0).all()
    for one, other in product(range(12), repeat=2):
        if 5 not in (one, other):
            norms = numpy.linalg.norm(vectors[one]) * numpy.linalg.norm(vectors[other])
            expected = vectors[one] @ vectors[other] / norms
            assert similarities[one, other] == pytest.approx(expected, abs=1e-5)
    for number, found in enumerate(nearest(similarities, 3)):
        row = numpy.delete(similarities[number], number)
        assert list(similarities[number, found]) == sorted(row, reverse=True)[:3]
        assert number not in found
    assert [len(found) for found in nearest(similarities, 99)] == [11] * 12


def test_neighbours_that_are_equally_near_are_not_the_first_ones():
    found = nearest(numpy.ones((40, 40)), 5)
    assert len(set(sum(found, []))) < 40 and max(sum(found, [])) > 5


def test_principal_components_keep_the_distances_of_a_plane():
    generator = numpy.random.default_rng(0)
    plane = numpy.linalg.qr(generator.normal(size=(10, 3)))[0].T
    angles = generator.uniform(0, 0.6, 30)
    # A circle, which normalizing leaves alone.
    circle = numpy.stack([numpy.cos(angles), numpy.sin(angles), numpy.zeros(30)], axis=1)
    vectors = 3 * circle @ plane
    points, shares = project(vectors)
    assert sum(shares) == pytest.approx(1) and shares[0] > shares[1] > 0
    assert_allclose(
        numpy.linalg.norm(points[:, None] - points, axis=2),
        numpy.linalg.norm(circle[:, None] - circle, axis=2),
        atol=1e-12,
    )
    assert_allclose(points.mean(axis=0), 0, atol=1e-12)
    order = generator.permutation(30)
    assert_allclose(project(vectors[order])[0], points[order], atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_equal_vectors_have_no_direction(n):
    noise = numpy.random.default_rng(0).normal(scale=1e-7, size=(n, 8))
    points, shares = project(numpy.ones((n, 8)) + noise)
    assert (points == 0).all() and shares == (0.0, 0.0)


@pytest.mark.parametrize("n_equal", [1, 12, 500])
def test_marks_stand_inside_the_map_and_apart(n_equal):
    points = numpy.array([[0.0, 0.0], [4.0, 1.0], *[[4.0, 0.0]] * n_equal])
    places = place(points)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places)
    assert len({(round(x, 1), round(y, 1)) for x, y in places}) == len(places)
    # One scale for both axes; y points upwards.
    (x0, y0), (x1, y1), (x2, y2) = places[:3]
    assert (y2 - y1) * 4 == pytest.approx(x1 - x0) and y0 == pytest.approx(y2)


# The page


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bilm")
    random_bilm().save_pretrained(folder)
    return folder


CONTEXTS = [
    Context("bank", "river", ["The", "bank", "of", "a", "river", "."], 1),
    Context("bank", "river", ["A", "boat", "at", "the", "bank", "."], 4),
    Context("bank", "money", ["My", "bank", "lends", "money", "."], 1),
    Context("bank", "money", [HOSTILE, "bank", "&amp;", '"'], 1),
    Context("bank", "", ["Bank", "on", "it", "."], 0),
    Context("<i>shore</i>", "", ["On", "<i>shore</i>", "."], 1),
]
PAGE_WORDS = "bank,<i>shore</i>,loan"


@pytest.fixture(scope="module")
def made(source, tmp_path_factory):
    """A folder with the page of ``CONTEXTS``."""
    folder = tmp_path_factory.mktemp("senses")
    contexts, vectors = folder / "contexts.jsonl", folder / "vectors.npy"
    write_contexts(contexts, CONTEXTS)
    with pytest.MonkeyPatch.context() as patch:
        run(embed, patch, contexts, "--source", source, "--output", vectors)
        given = ["--words", PAGE_WORDS, "--source", "a<biLM>", "--neighbours", 3]
        run(report, patch, contexts, vectors, *given, "--output", folder / "page.html")
    return folder


@pytest.fixture(scope="module")
def html(made):
    return (made / "page.html").read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Collects elements and their text, and checks that every element is closed in its place."""

    def __init__(self, html):
        super().__init__()
        self.elements = []
        self._open = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def find(self, tag, **attributes):
        wanted = {"tag": tag, **attributes}.items()
        return [element for element in self.elements if wanted <= element.items()]


@pytest.fixture(scope="module")
def page(html):
    return Reader(html)


def test_vectors_are_the_layers_of_the_words(made, source):
    bilm = BiLM.from_pretrained(source)
    expected = bilm.embed([context.tokens for context in CONTEXTS], initial_state="warm")
    found = numpy.load(made / "vectors.npy")
    assert found.shape == (6, 3, 24)
    for context, layers, vectors in zip(CONTEXTS, expected, found):
        assert_allclose(vectors, layers[:, context.index], atol=1e-5)


def test_the_page_needs_nothing_else(page, html):
    assert not re.search(r"https?:|//[a-z]+\.[a-z]|url\(|@import|fetch\(|XMLHttp|import\(", html)
    for element in page.elements:
        assert not {"src", "srcset", "action", "style", "xlink:href"} & element.keys()
        assert element["tag"] not in ("link", "img", "iframe", "object", "base", "form")
    (policy,) = page.find("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none';")


def test_text_is_escaped(page, html):
    assert len(page.find("script")) == 1 and "alert" not in page.find("script")[0]["text"]
    assert page.find("b") and all("bank" in one["text"] for one in page.find("b")[:1])
    assert not page.find("i")
    assert "<i>shore</i>" not in html and html.count("</title><script>") == 0
    (title, *_) = page.find("title")
    assert title["text"] == "Word senses: bank, <i>shore</i>"
    assert page.find("code")[0]["text"] == "a<biLM>"


def test_links_lead_somewhere(page):
    ids = [element["id"] for element in page.elements if "id" in element]
    assert len(set(ids)) == len(ids)
    for element in page.find("a"):
        assert element["href"][0] == "#" and element["href"][1:] in ids
    for element in page.elements:
        assert set(element.get("data-near", "").split()) <= set(ids)
    for button in page.find("input"):
        assert f"html:has(#{button['id']}:checked) ." in page.find("style")[0]["text"]


def test_every_occurrence_is_on_the_page_and_on_every_map(page):
    for number, context in enumerate(CONTEXTS):
        name = f"w1-{number + 1}" if context.word == "bank" else "w2-1"
        (item,) = page.find("li", id=name)
        assert as_text(context) in item["text"]
        points = [one for one in page.find("a", href=f"#{name}") if one.get("class") == "point"]
        assert len(points) == 4
        label = f"{context.sense}: " if context.sense else ""
        assert all(point["text"] == label + as_text(context) for point in points)
    assert "Not in the text: loan." in page.find("main")[0]["text"]
    assert "bank, layer 2. PCA: " in page.find("section", id="w1")[0]["text"]
    assert "All vectors are equal" in page.find("section", id="w2")[0]["text"]
    assert "1 context of <i>shore</i>" in page.find("section", id="w2")[0]["text"]


def test_neighbours_and_agreement_are_those_of_the_vectors(page, made):
    vectors = numpy.load(made / "vectors.npy")[:5]
    labels = ["river", "river", "money", "money"]
    views = [*numpy.moveaxis(vectors, 1, 0), vectors.mean(axis=1)]
    row = [element["text"] for element in page.find("td")][:7]
    figures = [f"{agreement(cosines(view[:4]), labels, 3):.2f}" for view in views]
    assert row == ["4", "2", "0.33", *figures]
    assert row[3] == row[2]  # static vectors
    points = [one for one in page.find("a", href="#w1-1") if one.get("class") == "point"]
    for point, view in zip(points, views):
        found = [int(name.split("-")[1]) - 1 for name in point["data-near"].split()]
        expected = numpy.sort(cosines(view)[0, 1:])[::-1][:3]
        assert list(cosines(view)[0, found]) == list(expected)
    text = page.find("li", id="w1-1")[0]["text"]
    # Three others have "bank" as well, and one has "Bank".
    assert "Nearest, layer 0 (static) (cosine):" in text and "as near as these" not in text


def test_ties_of_shown_neighbours_are_told(made):
    contexts = read_contexts(made / "contexts.jsonl")
    layers = numpy.load(made / "vectors.npy")
    found = report.write_page(report.make_page(contexts, layers, ["bank"], "x", 2))
    assert found.count("Nearest, layer 0 (static) (cosine; 3 are as near as these):") == 4


def test_without_two_senses_nothing_is_compared(made, monkeypatch, capsys):
    contexts = [replace(context, sense="") for context in CONTEXTS]
    layers = numpy.load(made / "vectors.npy")
    found = report.write_page(report.make_page(contexts, layers, ["bank"], "x", 2))
    assert "No word has labels of two senses" in found and "By chance" not in found
    assert "Fewer than two senses of this word are labelled." in found


def test_thirty_senses_have_marks_of_their_own():
    assert len({(n % N_COLOURS, n % len(SHAPES)) for n in range(30)}) == 30


def luminance(colour):
    parts = [int(colour[begin : begin + 2], 16) / 255 for begin in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_read_in_light_and_dark():
    """The ratios of WCAG 2.1: 4.5 for text, 3 for marks."""
    style = (PROJECT / "assets" / "page.css").read_text(encoding="utf-8")
    themes = [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in style.split("@media")[:2]]
    assert len(themes[0]) == len(themes[1]) == 15
    for theme in themes:
        marks = {name for name in theme if name.startswith("colour-")}
        pairs = [(name, ground, 3) for name in marks for ground in ("surface", "ground")]
        for name, ground in product(("text", "quiet", "accent"), ("ground", "surface")):
            pairs.append((name, ground, 4.5))
        for name, ground, ratio in [*pairs, ("glow-text", "glow", 4.5)]:
            low, high = sorted([luminance(theme[name]), luminance(theme[ground])])
            assert (high + 0.05) / (low + 0.05) >= ratio, (name, ground)


@pytest.mark.parametrize(
    "options, n_vectors, message",
    [
        (["--neighbours", "0"], 6, "--neighbours is 0"),
        ([], 5, r"has 5 vectors, .* 6 contexts.*Run the step 'embed' again"),
    ],
)
def test_what_cannot_be_reported_is_named(made, tmp_path, monkeypatch, options, n_vectors, message):
    numpy.save(tmp_path / "vectors.npy", numpy.load(made / "vectors.npy")[:n_vectors])
    files = [made / "contexts.jsonl", tmp_path / "vectors.npy"]
    given = ["--words", "bank", "--source", "x", "--output", tmp_path / "page.html", *options]
    with pytest.raises(SystemExit, match=message):
        run(report, monkeypatch, *files, *given)
    assert not (tmp_path / "page.html").exists()


# The browser


@pytest.fixture
def chromium(tmp_path):
    """Runs headless Chromium on a page, and gives what it prints."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt install chromium)")
    off = ("gpu", "quic", "background-networking", "component-update", "sync")
    flags = ["--headless", "--no-sandbox", "--no-first-run", "--enable-logging=stderr"]
    flags += [f"--disable-{name}" for name in off]

    def run_chromium(address, *options):
        profile = tmp_path / "profile"
        command = [program, *flags, f"--user-data-dir={profile}", *options, address]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
        assert done.returncode == 0, done.stderr
        # Errors of the script, and what the page's policy refuses.
        assert "CONSOLE" not in done.stderr
        return done.stdout

    return run_chromium


def test_the_page_in_a_browser(made, chromium):
    found = Reader(chromium((made / "page.html").as_uri() + "#w1-4", "--dump-dom"))
    text = found.find("body")[0]["text"]
    assert all(as_text(context) in text for context in CONTEXTS)
    # The address names a context: the script opens the list, fills the panel and draws lines.
    (shown,) = found.find("div", **{"data-context": "w1-4"})
    assert as_text(CONTEXTS[3]) in shown["text"] and "Nearest, average (cosine" in shown["text"]
    opened = ["open" in details for details in found.find("details")]
    assert opened == [True, False]
    assert len(found.find("line")) == 4 * 3
    assert len(found.find("a", **{"class": "point chosen"})) == 4
    # One mark of each map can be reached with the tabulator.
    assert len(found.find("a", tabindex="0")) == 2 * 4


@pytest.mark.slow
@pytest.mark.parametrize("size", ["1280,1000", "400,850"])
def test_the_page_on_a_screen(made, tmp_path, chromium, size):
    picture = tmp_path / "page.png"
    options = [f"--screenshot={picture}", f"--window-size={size}", "--hide-scrollbars"]
    chromium((made / "page.html").as_uri(), *options)
    assert picture.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_the_project_runs(source, tmp_path):
    made = ("corpus", "word_senses.html", "project.lock", "__pycache__")
    folder = tmp_path / "word_senses"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*made))
    command = [sys.executable, "-m", "spacy", "project", "run", "all", ".", "--vars.source"]
    done = subprocess.run(
        [*command, str(source)], cwd=folder, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = Reader((folder / "word_senses.html").read_text(encoding="utf-8"))
    assert len(found.find("h2")) == 1 + len(WORDS.split(","))
    for word in WORDS.split(","):
        assert f"\n| {word} | " in done.stdout
