"""``spacy elmo info`` of weights: what they are, and what they lack. (Of pipelines:
``tests/pipeline/test_description.py``.)"""

import gzip
import json

import pytest

from spacy_elmo.bilm.kernel import Variant
from spacy_elmo.formats import save, write

from .. import oracle
from ..formats.allennlp_files import make_config, make_state_dict, write_archive, write_model
from ..formats.test_archives import make_zip
from .commands import info, invoke, one_line


def test_without_a_source_it_lists_what_comes_with_the_package():
    printed = invoke("info").output
    assert "en_elmo_sm" in printed and "language en, width 256, 3 layers" in printed
    assert list(json.loads(invoke("info", "--json").output)) == ["en_elmo_sm"]


@pytest.mark.parametrize("is_compiled", [True, False])
def test_it_tells_how_lstm_layers_run(is_compiled, monkeypatch):
    low, full = Variant(0, "fast_low", 16, 2), Variant(3, "fast", 16, 1)
    slow = Variant(4, "slow", 4, 1)
    found = [low, full, slow] if is_compiled else []
    monkeypatch.setattr("spacy_elmo.cli.info.variants", lambda: found)
    (line,) = [line for line in invoke("info").output.splitlines() if "LSTM layers" in line]
    if is_compiled:
        assert "compiled, fast for float32, fast_low for bfloat16" in line
    else:
        assert "by torch's operations: the package was built without a C compiler" in line


def test_a_bundled_model_goes_by_its_name():
    found, _ = info("en_elmo_sm")
    assert (found["format"], found["stored_as"], found["warm_state"]) == ("native", "float16", True)


def test_native(tmp_path, bilm):
    bilm.warm_up()
    bilm.metadata = {"perplexity": 12.5}
    save(bilm, tmp_path, precision="float16")
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nbank\n")
    (tmp_path / "softmax.safetensors").write_bytes(b"not looked at")
    found, text = info(tmp_path)
    n_parameters = sum(parameter.numel() for parameter in bilm.parameters())
    assert found["path"] == str(tmp_path) and found["format"] == "native"
    assert found["stored_as"] == "float16"
    assert (found["width"], found["n_layers"]) == (24, 3)
    assert found["n_parameters"] == n_parameters == sum(found["parameters"].values())
    assert found["settings"] == bilm.config.to_dict()
    assert found["metadata"] == {"perplexity": 12.5}
    assert (found["warm_state"], found["vocabulary"], found["softmax"]) == (True, 4, True)
    assert found["missing"] == found["notes"] == []
    assert set(found["files"]) == {path.name for path in tmp_path.iterdir()}
    assert found["files"]["vocab.txt"] == 20
    for expected in (
        "Stored as float16",
        "Vectors width 24, 3 layers",
        f"Parameters {n_parameters:,} (token layer ",
        "Setting cell_size = 20",
        "Metadata perplexity = 12.5",
        "Vocabulary 4 entries",
    ):
        assert expected in text
    assert "Missing" not in text


@pytest.mark.parametrize("make", [lambda path, folder: folder, make_zip], ids=["folder", "zip"])
def test_hdf5_and_what_it_lacks(tmp_path, bilm, make):
    write(bilm, tmp_path / "model", "bilm-tf")
    (tmp_path / "model" / "vocab.txt.gz").write_bytes(gzip.compress(b"<S>\n</S>\n<UNK>\na\nb\n"))
    found, text = info(make(tmp_path / "193", tmp_path / "model"))
    assert found["format"] == "bilm-tf" and found["stored_as"] == "float32"
    assert found["missing"] == ["warm_state", "softmax"]
    assert found["vocabulary"] == 5
    assert set(found["files"]) == {"options.json", "weights.hdf5", "vocab.txt.gz"}
    assert 'Missing warm state (initial_state = "warm" makes one from' in text
    assert "Missing softmax (needed for perplexity, not for vectors)" in text


@pytest.mark.parametrize(
    "sizes, words, characters",
    [
        ({"words": {"dim": 7}, "code_points": 9}, 5, "9 (code points and marks)"),
        ({"words": {"dim": 7}, "char_encoder": None, "filters": [], "n_highway": 0}, 5, None),
        ({}, None, "261 (UTF-8 bytes and marks)"),
    ],
)
def test_token_layers(tmp_path, make_bilm, sizes, words, characters):
    save(make_bilm(**sizes), tmp_path)
    found, text = info(tmp_path)
    assert (found["words"], found["characters"]) == (words, characters)
    assert ("Word table 5 entries" in text) == (words is not None)
    assert (f"Characters {characters}, 50 a token" in text) == (characters is not None)


def test_model_of_allennlp(tmp_path):
    options = oracle.make_options()
    mixes = [([0.0, 0.0, 0.0], 1.5), ([9.0, 0.0, 0.0], -1.0)]
    state = make_state_dict(options, oracle.make_datasets(options), mixes=mixes)
    config = make_config(do_layer_norm=True)
    directory = write_model(tmp_path / "model", state, config)
    found, text = info(write_archive(tmp_path / "model.tar.gz", directory))
    assert found["format"] == "allennlp"
    assert [mix["gamma"] for mix in found["metadata"]["scalar_mixes"]] == [1.5, -1.0]
    assert len(found["notes"]) == 1
    assert "Learned mix 0: weights 0.3333 0.3333 0.3333, gamma 1.5000, layers normed" in text
    assert "the options of its ELMo are not in the model" in text


def test_faults_are_one_message(tmp_path, bilm):
    def assert_fails(path, message):
        done = invoke("info", path)
        assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
        assert message in one_line(done.output)

    assert_fails(tmp_path / "nowhere", "nowhere does not exist. Expected a directory, an archive")
    (tmp_path / "empty").mkdir()
    assert_fails(tmp_path / "empty", "Looked for allennlp (config.json and weights.th of a model")
    write(bilm, tmp_path / "a", "bilm-tf")
    (tmp_path / "a" / "vocab.txt.gz").write_bytes(gzip.compress(b"bank\n" * 99)[:-9])
    assert_fails(tmp_path / "a", "vocab.txt.gz is no complete gzip file")
    (tmp_path / "a" / "vocab.txt.gz").unlink()
    (tmp_path / "a" / "weights.hdf5").write_bytes(b"")
    assert_fails(tmp_path / "a", "weights.hdf5 is no complete HDF5 file")
