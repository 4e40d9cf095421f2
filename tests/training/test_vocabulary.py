"""The vocabulary: how it is built, bilm-tf's file format, and faults by line."""

import pytest

from spacy_elmo.training import Vocabulary

SPECIAL = ["<S>", "</S>", "<UNK>"]


def test_words_stand_by_falling_count_and_equal_counts_by_word():
    vocabulary = Vocabulary.from_counts({"b": 2, "rare": 1, "the": 9, "a": 2})
    assert vocabulary.words == [*SPECIAL, "the", "a", "b", "rare"]
    assert [vocabulary.id_of(word) for word in ("the", "a", "rare")] == [3, 4, 6]


def test_max_size_and_min_count_cap_the_vocabulary():
    counts = {f"w{n}": n for n in range(1, 101)}
    assert len(Vocabulary.from_counts(counts, max_size=10)) == 13
    assert len(Vocabulary.from_counts(counts, min_count=91)) == 13
    assert Vocabulary.from_counts(counts, max_size=2).words[3:] == ["w100", "w99"]


@pytest.mark.parametrize("word", ["nowhere", *SPECIAL])
def test_words_that_are_not_there_and_special_entries_are_unknown_in_text(word):
    assert Vocabulary.from_counts({"the": 1}).id_of(word) == 2


def test_a_text_word_that_spells_a_special_entry_is_no_second_one():
    assert Vocabulary.from_counts({"<S>": 5, "<UNK>": 4, "the": 1}).words == [*SPECIAL, "the"]


def test_round_trip_of_the_file(tmp_path):
    vocabulary = Vocabulary.from_counts({"the": 3, "Ærø": 2, "東京": 1, "\u200b": 1, "a\u2028b": 1})
    vocabulary.to_disk(tmp_path / "vocab.txt")
    assert Vocabulary.from_disk(tmp_path / "vocab.txt").words == vocabulary.words
    lines = (tmp_path / "vocab.txt").read_text(encoding="utf-8").split("\n")
    assert lines[:4] == [*SPECIAL, "the"] and lines[-1] == ""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_bilm_tf_files_are_read(tmp_path, ending):
    path = tmp_path / "vocab.txt"
    entries = [*SPECIAL, "the", "!!!MAXTERMID", "bank"]
    path.write_bytes(ending.join(entries).encode())
    assert Vocabulary.from_disk(path).words == [*SPECIAL, "the", "bank"]


@pytest.mark.parametrize(
    "lines, line, message",
    [
        ([*SPECIAL, "the", "", "of"], 5, "a blank entry"),
        ([*SPECIAL, "the", ""], 5, "a blank entry"),
        ([*SPECIAL, "the", "", "", ""], 5, "a blank entry"),
        (["", *SPECIAL, "the"], 1, "''; expected '<S>'"),
        ([*SPECIAL, "the", "  ", "of"], 5, "a blank entry"),
        ([*SPECIAL, "the", "of "], 5, "'of ' has blanks around it"),
        ([*SPECIAL, "\tthe"], 4, "'.tthe' has blanks around it"),
        ([*SPECIAL, "the", "of", "the"], 6, "'the' stands there twice, first as id 3"),
        ([*SPECIAL, "the", "<UNK>"], 5, "'<UNK>' stands there twice"),
        (["<S>", "</S>", "the", "of"], 3, "'the'; expected '<UNK>'"),
        (["the", "of"], 1, "'the'; expected '<S>'"),
        (["<s>", "</s>", "<unk>", "the"], 1, "'<s>'; expected '<S>'"),
    ],
)
def test_faults_are_named_by_file_and_line(tmp_path, lines, line, message):
    """Pitfall 12."""
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{entry}\n" for entry in lines), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"vocab\.txt, line {line}: {message}"):
        Vocabulary.from_disk(path)


def test_lines_are_counted_with_those_that_are_skipped(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\n!!!MAXTERMID\nthe\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 6: a blank entry"):
        Vocabulary.from_disk(path)


def test_bad_bytes_are_named_by_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"<S>\n</S>\n<UNK>\ncaf\xe9\n")
    with pytest.raises(ValueError, match=r"line 4: b'caf\\xe9' is not UTF-8"):
        Vocabulary.from_disk(path)


@pytest.mark.parametrize("content", [b"", b"<S>\n</S>\n<UNK>\n"])
def test_a_file_without_words_is_refused(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"vocab\.txt has \d entries; expected <S>"):
        Vocabulary.from_disk(path)


def test_entries_given_in_memory_are_checked_too():
    with pytest.raises(ValueError, match="vocabulary entry 5: 'the' stands there twice"):
        Vocabulary([*SPECIAL, "the", "the"])
    with pytest.raises(ValueError, match="vocabulary entry 4: 'a.nb' has .* a line break"):
        Vocabulary([*SPECIAL, "a\nb"])


def test_words_that_no_file_can_hold_are_unknown():
    """A corpus of ready tokens can have them."""
    odd = [" bank", "bank\u00a0", "two\nlines", "half \ud83d", " "]
    vocabulary = Vocabulary.from_counts(dict.fromkeys([*odd, "New York"], 2))
    assert vocabulary.words == [*SPECIAL, "New York"]
    assert {vocabulary.id_of(word) for word in odd} == {2}


def test_a_byte_order_mark_is_no_part_of_the_first_entry(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{w}\n" for w in [*SPECIAL, "a"]), "utf-8-sig")
    assert Vocabulary.from_disk(tmp_path / "vocab.txt").words == [*SPECIAL, "a"]
