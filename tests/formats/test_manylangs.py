"""Models of ELMoForManyLangs: read as that tool read them, against a plain forward pass."""

import json
import shutil
import warnings
import zipfile

import numpy
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.formats import from_bytes, load, manylangs_network, to_bytes, write

from .. import manylangs_oracle
from ..manylangs_oracle import SENTENCES, make_model, write_model

ATOL = 1e-5

VARIANTS = {
    "word and characters": {},
    "characters": {"word_dim": 0},
    "words": {"char_dim": 0},
    "no highway, tanh": {"n_highway": 0, "activation": "tanh"},
    "no clips, one layer": {"cell_clip": 0, "proj_clip": None, "n_layers": 1},
    "equal sizes": {"projection_dim": 11, "dim": 11},
    "LSTM over characters": {"embedder": "lstm"},
    "LSTM over characters alone": {"embedder": "lstm", "word_dim": 0},
    "LSTM encoder": {"encoder": "lstm"},
    "LSTM encoder of three layers, words": {"encoder": "lstm", "char_dim": 0, "n_layers": 3},
    "LSTM twice": {"embedder": "lstm", "encoder": "lstm", "n_layers": 1},
}


@pytest.fixture
def directory(tmp_path):
    return write_model(tmp_path / "model", make_model())


@pytest.mark.parametrize("name", VARIANTS)
def test_layers_equal_the_oracle(tmp_path, name):
    model = make_model(**VARIANTS[name])
    bilm = load(write_model(tmp_path, model))
    assert not bilm.training
    for together, sentence in zip(bilm.embed(SENTENCES), SENTENCES):
        expected = manylangs_oracle.embed_sentence(model, sentence)
        numpy.testing.assert_allclose(together, expected, atol=ATOL, rtol=0)
        (alone,) = bilm.embed([sentence])
        numpy.testing.assert_allclose(alone, expected, atol=ATOL, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_native_format_and_bytes_keep_everything(tmp_path, name):
    bilm = load(write_model(tmp_path / "theirs", make_model(**VARIANTS[name])))
    bilm.warm_up()
    bilm.save_pretrained(tmp_path / "ours")
    for again in (load(tmp_path / "ours"), from_bytes(to_bytes(bilm))):
        assert again.config == bilm.config
        weights = again.state_dict()
        assert weights.keys() == bilm.state_dict().keys()
        for name, value in bilm.state_dict().items():
            assert torch.equal(weights[name], value), name
        for state in ("zero", "warm", "carry"):
            pairs = zip(
                again.embed(SENTENCES, initial_state=state),
                bilm.embed(SENTENCES, initial_state=state),
            )
            for found, expected in pairs:
                # A state that is carried makes more of a difference in rounding.
                numpy.testing.assert_allclose(found, expected, atol=10 * ATOL, rtol=0)


@pytest.mark.parametrize("name", ["word and characters", "LSTM twice"])
def test_a_state_that_is_carried_joins_two_sentences(tmp_path, name):
    """The first half of a sentence leaves what the forward direction of the second half needs."""
    bilm = load(write_model(tmp_path, make_model(**VARIANTS[name])))
    first, second = bilm.embed([["the", "bank"], ["the", "river"]], initial_state="carry")
    alone = bilm.embed([["the", "bank"], ["the", "river"]])
    numpy.testing.assert_allclose(first, alone[0], atol=ATOL)
    assert abs(second - alone[1])[1:].max() > 0.01


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("config_path", ["cnn.json", "configs/cnn.json", "C:\\models\\cnn.json"])
def test_files_of_any_torch_and_any_author(tmp_path, is_old, config_path):
    model = make_model()
    directory = write_model(tmp_path, model, config_path=config_path, is_old=is_old)
    (layers,) = load(directory).embed(SENTENCES[:1])
    expected = manylangs_oracle.embed_sentence(model, SENTENCES[0])
    numpy.testing.assert_allclose(layers, expected, atol=ATOL, rtol=0)


def test_network_in_a_folder_of_the_model(directory):
    (directory / "configs").mkdir()
    shutil.move(directory / "cnn.json", directory / "configs" / "own.json")
    (directory / "config.json").write_text('{"config_path": "configs/own.json"}')
    assert load(directory).width == 16


def test_one_file_and_archives(tmp_path, directory):
    expected = load(directory).embed(SENTENCES)
    archive = tmp_path / "179.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in directory.iterdir():
            file.write(path, path.name)
        file.writestr("classifier.pkl", "not looked at")
    shutil.make_archive(str(tmp_path / "179"), "gztar", tmp_path, "model")
    for path in (directory / "encoder.pkl", archive, tmp_path / "179.tar.gz"):
        for found, theirs in zip(BiLM.from_pretrained(path).embed(SENTENCES), expected):
            numpy.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize("changes", [{}, {"word_dim": 0}])
def test_missing_network_of_a_known_name(tmp_path, monkeypatch, changes):
    """Here the known file describes small sizes; word_dim as the weights have it."""
    monkeypatch.setattr(manylangs_network, "PUBLISHED", make_model().network)
    name = manylangs_network.PUBLISHED_NAMES[0]
    model = make_model(**changes)
    directory = write_model(tmp_path, model, name, config_path=f"/no/such/place/{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = load(directory)
    (directory / name).unlink()
    with pytest.warns(UserWarning, match=f"has no {name}, which config.json names .*are used"):
        found = load(directory)
    assert found.config == expected.config


@pytest.mark.parametrize("name", manylangs_network.PUBLISHED_NAMES)
def test_the_published_sizes(tmp_path, name):
    (tmp_path / "config.json").write_text(json.dumps({"config_path": f"/x/{name}"}))
    tensors = [f"{part}_emb_layer.embedding.weight" for part in ("word", "char")]
    with pytest.warns(UserWarning):
        network, source = manylangs_network.find_network(tmp_path, tensors)
    config = manylangs_network.config_from_network(network, source, 1000, 200)
    assert (config.token_dim, config.width, config.cell_size) == (2148, 1024, 4096)
    assert (config.char_embedding_dim, config.words.dim, config.forget_bias) == (50, 100, 0)


def test_dictionaries_keep_what_a_strip_would_lose(directory):
    reader = load(directory).token_layer.reader
    for odd in ("\u3000", "\u00a0", "\x85"):
        assert odd in reader.words and odd in reader.code_points
    assert "\u2028" in reader.code_points and "\r" in reader.code_points


def test_an_id_alone_is_the_ideographic_space(directory):
    expected = load(directory).embed([["\u3000", "a"]])
    file = directory / "char.dic"
    file.write_bytes(file.read_bytes().replace("\u3000\t".encode(), b""))
    numpy.testing.assert_array_equal(load(directory).embed([["\u3000", "a"]])[0], expected[0])


def test_a_word_that_is_spelled_like_our_own_marks(tmp_path):
    model = make_model()
    model.words = {("<UNK>" if word == "bank" else word): n for word, n in model.words.items()}
    bilm = load(write_model(tmp_path, model))
    words = bilm.token_layer.word_embedding.weight
    rows = bilm.token_layer.reader.find_rows(["<UNK>", "nowhere", "<S>", "</S>"]).tolist()
    assert rows == [0, 0, 1, 2] and len(words) == len(model.words)


def test_the_published_format_is_read_only(tmp_path, directory):
    with pytest.raises(ValueError, match="was not written: .* is read only.* native format"):
        write(load(directory), tmp_path / "out", "manylangs")
    with pytest.raises(ValueError, match="A bilm-tf file holds .*; of this biLM, code_points is"):
        write(load(directory), tmp_path / "out", "bilm-tf")
    assert not (tmp_path / "out").exists()


def test_gradients_reach_every_part(directory):
    bilm = load(directory).train()
    layers, _ = bilm(SENTENCES)
    sum(part.square().sum() for part in layers).backward()
    for name, parameter in bilm.named_parameters():
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().sum() > 0, name
