"""Training of biLMs that have a table of words, alone or before the characters."""

import gzip

import numpy
import pytest
import spacy
import torch

from spacy_elmo import BiLM
from spacy_elmo.formats import write
from spacy_elmo.training import load_language_model, train
from spacy_elmo.training.config import TrainingConfig

from ..conftest import random_bilm
from .configs import Recorder, StopAt, make_quick_config, read_models
from .conftest import WORDS

DIM = 5
ALONE = {"char_encoder": None, "filters": [], "char_embedding_dim": 4}
LAYERS = {
    "words": ALONE,
    "joint": {"filters": [[1, 4], [2, 6]], "char_embedding_dim": 4},
    "words and LSTM": {"char_encoder": "lstm", "filters": [], "char_embedding_dim": 4},
}


def make_table_config(directory, layer="joint", frozen=False, words=None, changes=None):
    """A small config of a biLM with a word table; ``words`` is the block [words], if any."""
    config = make_quick_config(directory, {"training.max_steps": 2, **(changes or {})})
    config["bilm"] |= LAYERS[layer] | {"words": {"dim": DIM, "frozen": frozen}}
    if words is not None:
        config["words"] = words
    return config


def make_vectors(words, dim=DIM, seed=0):
    random = numpy.random.default_rng(seed)
    return {word: random.normal(size=dim).astype("float32") for word in words}


def write_vectors(path, vectors, header=True):
    dim = len(next(iter(vectors.values())))
    lines = [f"{len(vectors)} {dim}"] if header else []
    lines += [f"{word} {' '.join(map(repr, map(float, v)))} " for word, v in vectors.items()]
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def write_pipeline(path, vectors):
    nlp = spacy.blank("en")
    for word, vector in vectors.items():
        nlp.vocab.set_vector(word, vector)
    nlp.to_disk(path)
    return str(path)


def table_of(path):
    """The vectors of a trained model by word."""
    layer = BiLM.from_pretrained(path / "model-last").token_layer
    return dict(zip(layer.reader.words, layer.word_embedding.weight.detach().numpy()))


@pytest.mark.parametrize("layer", LAYERS)
def test_it_learns_and_comes_back_from_disk(tmp_path, layer):
    recorder = Recorder()
    config = make_table_config(tmp_path, layer, changes={"training.max_steps": 100})
    config["training"]["max_epochs"] = 0
    text = "the old boat runs by the bank\n" * 40 + "a river\n"
    (tmp_path / "train.txt").write_text(text, encoding="utf-8")
    train(config, tmp_path / "out", reporter=recorder)
    losses = [step.loss for step in recorder.steps]
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    model, _ = load_language_model(tmp_path / "out" / "model-last")
    reader = model.bilm.token_layer.reader
    # Without a block [words]: the words that the text has twice.
    words = ["the", "old", "boat", "runs", "by", "bank"]
    assert sorted(reader.words) == sorted(["<S>", "</S>", "<UNK>", *words])
    sentences = [["the", "bank", "unseen"], ["the", "bank", "unknown"]]
    one, two = model.bilm.embed(sentences)
    is_alone = layer == "words"
    assert (abs(one[0, 2] - two[0, 2]).max() < 1e-6) == is_alone
    assert abs(one[0, 0] - two[0, 0]).max() < 1e-6


def test_every_part_gets_gradients_and_unk_learns(tmp_path):
    config = make_table_config(tmp_path, words={"min_count": 15}, changes={"training.max_steps": 1})
    train(config, tmp_path / "one")
    config["training"]["max_steps"] = 9
    train(config, tmp_path / "nine")
    one, nine = table_of(tmp_path / "one"), table_of(tmp_path / "nine")
    assert one.keys() == nine.keys() and 4 < len(one) < len(WORDS)
    for word in one:
        assert abs(one[word] - nine[word]).max() > 1e-3, word


@pytest.mark.parametrize("layer, frozen", [("words", True), ("joint", False)])
def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path, layer, frozen):
    """Also where the file of first vectors is gone or elsewhere."""
    file = write_vectors(tmp_path / "v.vec", make_vectors(WORDS))
    changes = {"training.max_steps": 8}
    config = make_table_config(tmp_path, layer, frozen, {"vectors": file}, changes)
    train(config, tmp_path / "whole")
    result = train(config, tmp_path / "stopped", reporter=StopAt(4))
    assert result.is_interrupted
    config["words"]["vectors"] = write_vectors(tmp_path / "moved.txt.gz", make_vectors(WORDS))
    train(config, tmp_path / "stopped", resume=True)
    assert read_models(tmp_path / "stopped") == read_models(tmp_path / "whole")


def test_a_run_with_other_words_is_not_gone_on_with(tmp_path):
    config = make_table_config(tmp_path, words={"path": None})
    train(config, tmp_path / "out")
    file = tmp_path / "words.txt"
    file.write_text("<S>\n</S>\n<UNK>\nriver\n", encoding="utf-8")
    config["words"]["path"] = str(file)
    config["training"]["max_steps"] = 3
    with pytest.raises(ValueError, match="of a run with another word table"):
        train(config, tmp_path / "out", resume=True)


@pytest.mark.parametrize("kind", ["header", "no header", "gz", "pipeline"])
def test_frozen_vectors_stay_as_they_are(tmp_path, kind):
    vectors = make_vectors(["the", "bank", "東京", "elsewhere"])
    place = tmp_path / ("v.vec.gz" if kind == "gz" else "v.vec")
    if kind == "pipeline":
        source = write_pipeline(tmp_path / "pipeline", vectors)
    else:
        source = write_vectors(place, vectors, header=kind != "no header")
    recorder = Recorder()
    config = make_table_config(tmp_path, "words", True, {"vectors": source})
    train(config, tmp_path / "out", reporter=recorder)
    table = table_of(tmp_path / "out")
    # The text has three of the words; the others are unknown.
    assert set(table) == {"<S>", "</S>", "<UNK>", "the", "bank", "東京"}
    for word in ("the", "bank", "東京"):
        numpy.testing.assert_array_equal(table[word], vectors[word])
    assert f"First vectors from {source}: 3 of 6 entries of the word table" in recorder.notes


def test_words_of_the_vectors_are_known_where_the_text_has_none_of_them(tmp_path):
    vectors = make_vectors(["elsewhere", "the", "<UNK>", "never", "last"])
    source = write_vectors(tmp_path / "v.vec", vectors)
    block = {"vectors": source, "entries": "vectors", "max_size": 3}
    train(make_table_config(tmp_path, "joint", True, block), tmp_path / "out")
    table = table_of(tmp_path / "out")
    assert list(table) == ["<S>", "</S>", "<UNK>", "elsewhere", "the", "never"]
    numpy.testing.assert_array_equal(table["never"], vectors["never"])


def test_first_vectors_are_trained_on_and_the_others_are_like_them(tmp_path):
    source = write_vectors(tmp_path / "v.vec", make_vectors(["the", "bank"]))
    changes = {"training.optimizer.learn_rate": 1e-15, "training.max_steps": 1}
    config = make_table_config(tmp_path, "joint", False, {"vectors": source}, changes)
    train(config, tmp_path / "still")
    still = table_of(tmp_path / "still")
    assert len(still) > 10
    numpy.testing.assert_allclose(still["the"], make_vectors(["the", "bank"])["the"], atol=1e-6)
    spread = numpy.std([still[w] for w in still if w not in ("the", "bank", "<UNK>")])
    assert 0.5 < spread / numpy.std(list(make_vectors(["the", "bank"]).values())) < 2
    config["training"]["optimizer"]["learn_rate"] = 0.01
    train(config, tmp_path / "moved")
    assert abs(table_of(tmp_path / "moved")["the"] - still["the"]).max() > 1e-3


def test_a_model_brings_its_words_to_a_run_that_starts_from_it(tmp_path):
    train(make_table_config(tmp_path), tmp_path / "out")
    start = tmp_path / "out" / "model-last"
    config = make_quick_config(tmp_path, {"training.init": str(start)})
    config["bilm"] = {"words": {"dim": DIM, "frozen": True}}
    (tmp_path / "train.txt").write_text("quite other words", encoding="utf-8")
    config["training"]["max_steps"] = 2
    train(config, tmp_path / "next")
    before, after = table_of(tmp_path / "out"), table_of(tmp_path / "next")
    assert list(before) == list(after)
    for word in before:
        numpy.testing.assert_array_equal(after[word], before[word])
    config["words"] = {}
    with pytest.raises(
        ValueError, match=r"block \[words\], but the model of \[training\] init, .*b"
    ):
        train(config, tmp_path / "third")


def test_code_points_can_be_trained_on(tmp_path):
    """As a model of ELMoForManyLangs has them."""
    bilm = random_bilm(code_points=9, words={"dim": 7}, scale=0.5)
    bilm.save_pretrained(tmp_path / "start")
    config = make_quick_config(tmp_path, {"training.init": str(tmp_path / "start")})
    del config["bilm"]
    config["training"]["max_steps"] = 2
    train(config, tmp_path / "out")
    again = BiLM.from_pretrained(tmp_path / "out" / "model-last")
    assert again.config == bilm.config
    name = "token_layer.char_embedding.weight"
    assert not torch.equal(again.state_dict()[name], bilm.state_dict()[name])


def test_a_published_format_cannot_say_it(tmp_path, make_bilm):
    with pytest.raises(ValueError, match=r"this biLM, words is WordTable\(dim=7.* native format"):
        write(make_bilm(words={"dim": 7}), tmp_path / "out", "bilm-tf")
    assert not (tmp_path / "out").exists()


FAULTS = {
    "dim": (
        {"words": {"vectors": "v.vec"}, "bilm": {"words": {"dim": 6}}},
        r"\[bilm.words\] dim is 6; expected 5, the size of the vectors of \[words\] vectors",
    ),
    "no table": (
        {"words": {"min_count": 2}, "bilm": {"words": None}},
        r"has a block \[words\], but no word table; expected a block \[bilm.words\]",
    ),
    "frozen and random": (
        {"bilm": {"words": {"dim": 5, "frozen": True}}},
        r"\[bilm.words\] frozen is true, but \[words\] vectors is null",
    ),
    "nothing there": (
        {"words": {"vectors": "nowhere"}},
        r"\[words\] vectors: nowhere is no file, no directory and no installed package",
    ),
    "path": ({"words": {"path": "no.txt"}}, r"\[words\] path is 'no.txt'; expected a vocabulary"),
    "entries": ({"words": {"entries": "all"}}, r"\[words\] entries is 'all'; expected 'text' or"),
    "entries of nothing": (
        {"words": {"entries": "vectors"}},
        r"\[words\] entries .* vectors is nul",
    ),
    "min_count": ({"words": {"min_count": 0}}, r"\[words\] min_count is 0"),
    "max_size": ({"words": {"max_size": -1}}, r"\[words\] max_size is -1"),
    "vectors": ({"words": {"vectors": 5}}, r"\[words\] vectors is 5; expected a file of vectors"),
    "unknown": ({"words": {"size": 5}}, r"\[words\] 'size' is unknown; the settings are path, ent"),
    "encoder": ({"bilm": {"encoder": "lstm"}}, r"\[bilm\] encoder is 'lstm'; expected 'elmo'"),
    "code points": ({"bilm": {"code_points": 90}}, r"\[bilm\] code_points is 90; expected null"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named_before_work_starts(tmp_path, monkeypatch, name):
    changes, message = FAULTS[name]
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path / "v.vec", make_vectors(["the"]))
    config = make_table_config(tmp_path, words=changes.get("words"))
    config["bilm"] |= changes.get("bilm", {})
    with pytest.raises(ValueError, match=message):
        TrainingConfig.from_dict(config)


def test_no_word_is_frequent_enough(tmp_path):
    config = make_table_config(tmp_path, words={"min_count": 9999})
    with pytest.raises(
        ValueError, match=r"\[words\] min_count is 9999: the vocabulary has 3 entries"
    ):
        train(config, tmp_path / "out")


def test_no_word_in_common(tmp_path):
    source = write_vectors(tmp_path / "v.vec", make_vectors(["elsewhere"]))
    config = make_table_config(tmp_path, words={"vectors": source})
    with pytest.raises(ValueError, match=r"\[words\] vectors: .*v.vec has no vector of any of the"):
        train(config, tmp_path / "out")
