"""Every way to say which files are meant."""

from pathlib import Path

import pytest

from spacy_elmo.training.text.corpus import build_text_corpus_v1
from spacy_elmo.training.text.paths import compression_of, find_files, kind_of

NAMES = ["b.txt", "deep/er/c.txt.gz", "a.jsonl.xz", "deep/d.spacy", "deep/e.txt.zst"]


@pytest.fixture
def tree(tmp_path):
    for name in [*NAMES, "notes.md", ".hidden.txt", ".git/f.txt", "deep/z.tar.gz"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Text.")
    return tmp_path


def names_of(files, tree):
    return [str(path.relative_to(tree)) for path in files]


def test_a_directory_gives_its_text_files_at_any_depth_sorted_by_name(tree):
    assert names_of(find_files(tree), tree) == sorted(NAMES, key=Path)
    assert find_files(str(tree)) == find_files(tree)


@pytest.mark.parametrize(
    "pattern, names",
    [
        ("*.txt", ["b.txt"]),
        ("**/*.txt.gz", ["deep/er/c.txt.gz"]),
        ("deep/[de].*", ["deep/d.spacy", "deep/e.txt.zst"]),
        ("*.m?", ["notes.md"]),
        ("**/e*", ["deep/e.txt.zst"]),
    ],
)
def test_a_pattern_gives_the_files_that_match_and_no_directory(tree, pattern, names):
    assert names_of(find_files(str(tree / pattern)), tree) == names


def test_lists_are_read_in_their_order(tree):
    paths = [str(tree / "deep" / "*.spacy"), tree / "b.txt", str(tree / "deep" / "er")]
    assert names_of(find_files(paths), tree) == ["deep/d.spacy", "b.txt", "deep/er/c.txt.gz"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tree):
    (tree / "a[1].txt").write_text("Text.")
    (tree / "a1.txt").write_text("Text.")
    assert names_of(find_files(str(tree / "a[1].txt")), tree) == ["a[1].txt"]


def test_the_home_directory_can_be_written_as_a_tilde(tree, monkeypatch):
    monkeypatch.setenv("HOME", str(tree))
    assert names_of(find_files("~/b.txt"), tree) == ["b.txt"]


@pytest.mark.parametrize(
    "name, kind, compression",
    [
        ("a.txt", ".txt", ""),
        ("a.jsonl.zst", ".jsonl", ".zst"),
        ("a.spacy.gz", ".spacy", ".gz"),
        ("corpus.en.xz", ".txt", ".xz"),
        ("README", ".txt", ""),
    ],
)
def test_names_say_how_a_file_is_read(name, kind, compression):
    assert kind_of(Path(name)) == kind
    assert compression_of(Path(name)) == compression


def test_what_stands_for_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="path is None; expected a text file"):
        build_text_corpus_v1(path=None)
    with pytest.raises(ValueError, match="path is 'nowhere.txt', which does not exist"):
        build_text_corpus_v1(path="nowhere.txt")
    with pytest.raises(ValueError, match=r"a directory without .txt, .jsonl, .spacy files, also"):
        build_text_corpus_v1(path=str(tmp_path))
    with pytest.raises(ValueError, match=r"path is '.*none\*.txt', a pattern that no file match"):
        build_text_corpus_v1(path=str(tmp_path / "**" / "none*.txt"))
    with pytest.raises(ValueError, match=r"path is '.*gone', which does not exist"):
        build_text_corpus_v1(path=[str(tmp_path / "gone")])
