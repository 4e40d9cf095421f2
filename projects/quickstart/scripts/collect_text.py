"""Collect English prose that every Python installation carries, as text to train a biLM on.

It reads pydoc's reference topics and the docstrings of the standard library and of the installed
packages. It parses, never imports: the same installation always gives the same bytes, offline.
"""

import argparse
import ast
import gc
import gzip
import hashlib
import inspect
import os
import re
import sys
import sysconfig
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

MEGABYTE = 1_000_000
MIN_BYTES = MEGABYTE  # A model learns next to nothing from less, so it is better to stop.
MIN_WORDS = 6
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "testing", "__pycache__"}
# The name of a source file or of a topic, and its paragraphs.
Document = tuple[str, list[str]]

UNDERLINED = re.compile(r"^.*\n[ \t]*([-=~^*#\"'+.])\1{2,}[ \t]*$", re.MULTILINE)
NOT_PROSE = re.compile(
    r"^(?:>>>|\.\.(?: |$)|[-*+•#|:@]|\(?\w{1,3}[.)] |\[\w+\]|(?:[\w*`]+, )*[\w.*`]+ ?: )"
    r"|::?$|^[A-Z]\w+( \w+)?:|^-{2}|\t| {3}"
)
MARKUP = [
    (re.compile(r":[\w:+-]+:`[~!.]*([^`<]+?)(?: *<[^`>]*>)?`"), r"\1"),
    (re.compile(r"``(.+?)``"), r"\1"),
    (re.compile(r"`[~!.]*([^`<]+?)(?: *<[^`>]*>)?`_{0,2}"), r"\1"),
    (re.compile(r"\[([^\]]+)\]\([^)]*\)"), r"\1"),
    (re.compile(r" ?\[[\w#*]+\]_"), ""),
    (re.compile(r"(?<![\w*])(\*{1,3}|__)(?=\S)([^*]+?)(?<=\S)\1(?![\w*])"), r"\2"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"(?<=\w)- (?!and |or |to )(?=\w)"), "-"),  # a word broken between two lines
]
CODE_LIKE = re.compile(
    r"https?:|[\\{}|`<>@$^~=*]|\[\[|__|\.\. |--\w| : |XXX|TODO|\b(?:e\.g|i\.e)\.$"
)
ODD_WORD = re.compile(r"\w[_./(\[]\w|\(\)|[A-Za-z]\d|\w[A-Z]|^\W*\d|^\W+$|^\W*[b-zB-HJ-Z]\W*$")
SENTENCE = re.compile(r"^[\"'(]?[A-Z][\w'-]*[ ,].*[a-z0-9)\"'][.!?][\"')]*$")
FUNCTION_WORD = re.compile(r"\b(?:the|an?|of|to|is|are|be|and|in|for|that|this|it|with|if)\b")


def digest(name: str) -> int:
    """Hash a name to 64 bits: unlike `hash`, the same in every process and on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode("utf8")).digest()[:8], "big")


def source_files() -> list[tuple[str, Path]]:
    """Find the source files, with their names below the root.

    The hashed order mixes the packages, so that a size limit takes something from all of them.
    """
    paths = sysconfig.get_paths()
    files: dict[str, Path] = {}
    for root in (Path(paths[key]) for key in ("stdlib", "purelib", "platlib")):
        for folder, folders, names in os.walk(root):
            folders[:] = set(folders) - SKIPPED_FOLDERS
            for path in (Path(folder, name) for name in names if name.endswith(".py")):
                files.setdefault(path.relative_to(root).as_posix(), path)
    return sorted(files.items(), key=lambda item: digest(item[0]))


def read_texts(name: str, path: Path) -> dict[str, list[str]]:
    """Read the documentation of a file by document; none where the file does not parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if name != "pydoc_data/topics.py":
        return {name: list(docstrings(tree))}
    values = (node.value for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)))
    topics = [ast.literal_eval(value) for value in values if isinstance(value, ast.Dict)]
    return {f"{name}/{topic}": [text] for texts in topics for topic, text in texts.items()}


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module in source order."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node, clean=False) or ""
        # Only statements hold definitions; to walk the expressions too would double the time.
        for field in ("finalbody", "orelse", "handlers", "body"):
            stack.extend(reversed(getattr(node, field, [])))


def prose(text: str) -> Iterator[str]:
    """Yield the paragraphs of prose in a docstring, each on one line and without its markup.

    Blank lines and changes of the indentation divide paragraphs. The latter part the names and
    types of parameters from their descriptions. A paragraph with any line of code, of a list or
    of a table is left out as a whole.
    """
    text = unicodedata.normalize("NFC", inspect.cleandoc(text))
    lines = UNDERLINED.sub("\n", text).splitlines()
    for _, run in groupby(lines, key=lambda line: line.strip() and line.find(line.strip())):
        block = [line.strip() for line in run]
        paragraph = "" if any(map(NOT_PROSE.search, block)) else " ".join(block)
        for pattern, replacement in MARKUP:
            paragraph = pattern.sub(replacement, paragraph)
        if is_prose(paragraph.strip()):
            yield paragraph.strip()


def is_prose(text: str) -> bool:
    """Tell whether a paragraph reads as English sentences rather than as code, math or a list."""
    words = text.split(" ")
    return (
        len(words) >= MIN_WORDS
        and SENTENCE.match(text) is not None
        and CODE_LIKE.search(text) is None
        and sum(char.isalpha() for char in text) >= 0.75 * len(text)
        and sum(char.isascii() for char in text) >= 0.98 * len(text)
        and sum(bool(ODD_WORD.search(word)) for word in words) <= 0.2 * len(words)
        and len(FUNCTION_WORD.findall(text)) >= max(1, len(words) // 20)
        and max(map(len, words)) <= 40
        and text.count('"') % 2 == 0
    )


def collect(max_bytes: int, dev_part: float) -> tuple[list[Document], list[Document]]:
    """Gather training and held-out documents, until there is enough to train on.

    No paragraph comes twice in the whole collection, so none that is held out is trained on.
    """
    train: list[Document] = []
    dev: list[Document] = []
    seen: set[str] = set()
    documents = (item for file in source_files() for item in read_texts(*file).items())
    for name, texts in documents:
        found = dict.fromkeys(line for text in texts for line in prose(text))
        document = (name, [line for line in found if line not in seen])
        seen.update(found)
        held_out = digest(f"held out: {name}") < dev_part * 2**64
        max_bytes -= 0 if held_out else len(render([document]))
        if max_bytes < 0:
            break
        (dev if held_out else train).append(document)
    return [doc for doc in train if doc[1]], [doc for doc in dev if doc[1]]


def render(docs: list[Document]) -> bytes:
    """Make the text: one paragraph a line, and a blank line after each document."""
    return "".join("\n".join([*lines, "\n"]) for _, lines in docs if lines).encode("utf8")


def write(path: Path, docs: list[Document]) -> None:
    """Write the text whole or not at all, and print its size and its main sources."""
    data = render(docs)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    # Without the time stamp of gzip, equal text is equal bytes.
    temporary.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    temporary.replace(path)
    words: Counter[str] = Counter()
    for name, lines in docs:
        words[name.split("/")[0].removesuffix(".py")] += sum(len(line.split()) for line in lines)
    total, count = sum(words.values()), sum(len(lines) for _, lines in docs)
    main_sources = (f"{name} {100 * n / total:.0f}%" for name, n in words.most_common(8))
    print(f"{path}: {len(docs)} documents, {count} paragraphs, {total} words,", end=" ")
    print(f"{len(data) / MEGABYTE:.2f} MB; mainly {', '.join(main_sources)}")


def main() -> None:
    """Read the options, collect the text and write it."""
    parser = argparse.ArgumentParser(description="Collect the prose of the Python installation.")
    parser.add_argument("--train", type=Path, default=Path("corpus/text/train.txt.gz"))
    parser.add_argument("--dev", type=Path, default=Path("corpus/text/dev.txt"))
    parser.add_argument("--max-mb", type=float, default=6.0, help="most MB of training text")
    parser.add_argument("--dev-part", type=float, default=0.03, help="part of files held out")
    args = parser.parse_args()
    # The sources of others hold invalid escapes, of which the parser would warn.
    warnings.simplefilter("ignore")
    # Syntax trees have no cycles: looking for them takes a quarter of the time for nothing.
    gc.disable()
    max_bytes = int(args.max_mb * MEGABYTE)
    train, dev = collect(max_bytes, args.dev_part)
    if (found := len(render(train))) < min(MIN_BYTES, 0.9 * max_bytes):
        sys.exit(f"found only {found / MEGABYTE:.2f} MB of prose to train on, 1 MB is the least")
    if not dev:
        sys.exit(f"found nothing to hold out: --dev-part {args.dev_part} is too small")
    write(args.train, train)
    write(args.dev, dev)


if __name__ == "__main__":
    main()
