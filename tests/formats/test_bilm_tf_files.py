"""bilm-tf files read and written: not a bit is lost, and a wrong file is one clear message."""

import json
import shutil
import sys

import h5py
import numpy
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.formats import load, write

from .. import oracle
from .test_bilm_tf_vectors import VARIANTS, make_variant

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


@pytest.fixture
def options():
    return oracle.make_options()


@pytest.fixture
def datasets(options):
    return oracle.make_datasets(options)


def read_datasets(path):
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def assert_same_arrays(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        assert found[name].shape == values.shape
        assert found[name].tobytes() == values.tobytes(), name


@pytest.mark.parametrize("always_project", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_file_to_bilm_to_file_is_bit_equal(tmp_path, name, always_project):
    options = oracle.make_options(**VARIANTS[name])
    datasets = oracle.make_datasets(options, always_project=always_project)
    # A negative zero is where "equal" and "bit-equal" differ.
    datasets["char_embed"][0, 0] = -0.0
    write(load(oracle.write_files(tmp_path / "a", options, datasets)), tmp_path / "b", "bilm-tf")
    assert_same_arrays(read_datasets(tmp_path / "b" / "weights.hdf5"), datasets)


@pytest.mark.parametrize("name", VARIANTS)
def test_bilm_to_file_to_bilm_is_bit_equal(tmp_path, name):
    bilm = load(oracle.write_files(tmp_path / "a", *make_variant(name)))
    write(bilm, tmp_path / "b", "bilm-tf")
    again = load(tmp_path / "b")
    assert again.config == bilm.config
    found = {key: value.numpy() for key, value in again.state_dict().items()}
    assert_same_arrays(found, {key: value.numpy() for key, value in bilm.state_dict().items()})


def test_biases_of_the_file_stay_as_they_are(tmp_path, options, datasets):
    # The 1.0 that TensorFlow adds to the forget gate is added at run time, not to the weights.
    bilm = load(oracle.write_files(tmp_path, options, datasets))
    in_gate, candidate, forget, out_gate = numpy.split(datasets[f"{CELL}/B"], 4)
    ours = bilm.forward_lstm.layers[0].bias.detach().numpy()
    numpy.testing.assert_array_equal(
        ours, numpy.concatenate([in_gate, forget, candidate, out_gate])
    )
    assert bilm.config.forget_bias == 1.0


def test_written_options_say_all_that_the_readers_need(tmp_path, bilm):
    write(bilm, tmp_path, "bilm-tf")
    options = json.loads((tmp_path / "options.json").read_text(encoding="utf-8"))
    assert options == {
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 5},
            "filters": [[1, 4], [2, 8], [3, 17]],
            "max_characters_per_token": 50,
            "n_characters": 262,
            "n_highway": 1,
        },
        "lstm": {
            "cell_clip": 3.0,
            "dim": 20,
            "n_layers": 2,
            "proj_clip": 3.0,
            "projection_dim": 12,
            "use_skip_connections": True,
        },
        "dropout": 0.1,
    }


def test_reading_draws_no_random_numbers(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    load(tmp_path)
    assert torch.equal(torch.rand(3), expected)


def test_read_bilm_is_in_evaluation_mode_and_trainable(tmp_path, options, datasets):
    bilm = load(oracle.write_files(tmp_path, options, datasets))
    assert not bilm.training
    assert all(parameter.requires_grad for parameter in bilm.parameters())


def test_other_forget_bias_cannot_be_written(tmp_path, make_bilm):
    with pytest.raises(ValueError, match=r"'forget_bias' is 0.0; .* with 1.0.* native format"):
        write(make_bilm(forget_bias=0.0), tmp_path / "out", "bilm-tf")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_cannot_be_written(tmp_path, bilm, value):
    with torch.no_grad():
        bilm.backward_lstm.layers[1].bias[3] = value
    with pytest.raises(ValueError, match=r"not written.*'backward_lstm.layers.1.bias'.* 1 values"):
        write(bilm, tmp_path / "out", "bilm-tf")
    assert not (tmp_path / "out").exists()


def test_missing_dataset(tmp_path, options, datasets):
    del datasets["CNN_high_0/b_carry"]
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(
        ValueError, match=r"weights.hdf5: missing dataset 'CNN_high_0/b_carry' of shape \(21,\)"
    ):
        load(tmp_path)


def test_unexpected_dataset(tmp_path, options, datasets):
    datasets["CNN_high_1/W_carry"] = datasets["CNN_high_0/W_carry"]
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(ValueError, match="unexpected dataset 'CNN_high_1/W_carry'"):
        load(tmp_path)


def test_projection_of_only_some_cells(tmp_path):
    options = oracle.make_options(dim=8)
    datasets = oracle.make_datasets(options)
    datasets[f"{CELL}/W_P_0"] = numpy.zeros((8, 8), dtype="float32")
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(ValueError, match=r"missing dataset .*Cell1/LSTMCell/W_P_0' of shape \(8,"):
        load(tmp_path)


def test_datasets_outside_of_the_bilm_are_ignored(tmp_path, options, datasets):
    datasets["softmax/W"] = numpy.zeros((3, 8), dtype="float32")
    load(oracle.write_files(tmp_path, options, datasets))


def test_cell_without_number_in_a_file_of_two_layers(tmp_path, options, datasets):
    datasets["RNN_0/RNN/LSTMCell/B"] = datasets.pop(f"{CELL}/B")
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(
        ValueError, match=r"missing .*Cell0/LSTMCell/B.*unexpected .*RNN/LSTMCell/B"
    ):
        load(tmp_path)


def test_one_layer_twice(tmp_path):
    options = oracle.make_options(n_layers=1)
    datasets = oracle.make_datasets(options)
    datasets["RNN_0/RNN/LSTMCell/B"] = datasets[f"{CELL}/B"]
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(ValueError, match="unexpected dataset 'RNN_0/RNN/LSTMCell/B'"):
        load(tmp_path)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"dim": 20}, r"'RNN_0.*/W_0' has shape \(16, 76\); expected \(16, 80\)"),
        ({"char_dim": 4}, r"'char_embed' has shape \(261, 5\); expected \(261, 4\)"),
        ({"filters": [[1, 4], [2, 7], [3, 10]]}, r"'CNN/W_cnn_2' has shape \(1, 4, 5, 10\); exp"),
        ({"n_layers": 1}, r"unexpected dataset 'RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B'"),
        ({"n_layers": 3}, r"missing dataset '.*Cell2/LSTMCell/W_0' of shape \(16, 76\)"),
        ({"n_layers": 10**9}, r"has 25 datasets; expected more for the 1000000000 LSTM layers"),
        ({"n_highway": 0}, r"unexpected dataset 'CNN_high_0/W_carry'"),
        ({"projection_dim": 9}, r"'CNN_proj/W_proj' has shape \(21, 8\); expected \(21, 9\)"),
    ],
)
def test_options_that_do_not_fit_the_weights(tmp_path, options, datasets, change, message):
    oracle.write_files(tmp_path, oracle.make_options(**change), datasets)
    with pytest.raises(ValueError, match=f"weights.hdf5.*{message}"):
        load(tmp_path)


def test_table_of_262_characters(tmp_path, options, datasets):
    datasets["char_embed"] = numpy.zeros((262, 5), dtype="float32")
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(ValueError, match=r"'char_embed' has shape \(262, 5\); expected \(261, 5\)"):
        load(tmp_path)


@pytest.mark.parametrize("dtype", ["float64", "int32", "S4"])
def test_wrong_type(tmp_path, options, datasets, dtype):
    datasets["CNN_proj/b_proj"] = datasets["CNN_proj/b_proj"].astype(dtype)
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(ValueError, match=r"weights.hdf5: dataset 'CNN_proj/b_proj' is of type"):
        load(tmp_path)


def test_other_byte_order(tmp_path, options, datasets):
    swapped = {name: values.astype(">f4") for name, values in datasets.items()}
    bilm = load(oracle.write_files(tmp_path / "swapped", options, swapped))
    expected = load(oracle.write_files(tmp_path / "plain", options, datasets))
    assert_same_weights(bilm, expected)


def assert_same_weights(bilm: BiLM, expected: BiLM) -> None:
    for name, values in expected.state_dict().items():
        assert torch.equal(bilm.state_dict()[name], values)


@pytest.mark.parametrize("value", [numpy.nan, -numpy.inf])
def test_nan_in_the_file(tmp_path, options, datasets, value):
    datasets[f"{CELL}/W_0"][2, 3] = value
    oracle.write_files(tmp_path, options, datasets)
    with pytest.raises(ValueError, match=rf"'{CELL}/W_0' of shape \(16, 76\) has 1 values"):
        load(tmp_path)


def test_file_cut_short(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets)
    weights = tmp_path / "weights.hdf5"
    data = weights.read_bytes()
    for size in (0, 1, 7, 8, 9, 100, 800, len(data) // 4, len(data) // 2, len(data) - 1):
        weights.write_bytes(data[:size])
        for path in (tmp_path, weights):
            with pytest.raises(ValueError, match=r"weights.hdf5 is no complete HDF5 file.*cut sho"):
                load(path)


def test_every_prefix_is_a_message(tmp_path, make_bilm):
    write(make_bilm(filters=[[1, 2]], projection_dim=2, cell_size=2), tmp_path, "bilm-tf")
    for name, n_steps in (("weights.hdf5", 80), ("options.json", 30)):
        file = tmp_path / name
        data = file.read_bytes()
        for size in range(0, len(data) - 1, len(data) // n_steps):
            file.write_bytes(data[:size])
            with pytest.raises(ValueError, match=f"{name} is no (complete|valid)"):
                load(tmp_path)
        file.write_bytes(data)
    load(tmp_path)


def test_damaged_list_of_datasets(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets)
    weights = tmp_path / "weights.hdf5"
    data = weights.read_bytes()
    assert data.count(b"SNOD") > 1
    weights.write_bytes(data.replace(b"SNOD", b"XXXX"))
    with pytest.raises(ValueError, match=r"weights.hdf5 is no complete HDF5 file.*cut short"):
        load(weights)


def test_name_that_is_no_text(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets)
    weights = tmp_path / "weights.hdf5"
    weights.write_bytes(weights.read_bytes().replace(b"b_carry", b"b_carr\xff"))
    with pytest.raises(ValueError, match=r"weights.hdf5: missing dataset 'CNN_high_0/b_carry'"):
        load(tmp_path)


def test_type_that_numpy_has_not(tmp_path, options, datasets):
    del datasets["CNN_proj/b_proj"]
    oracle.write_files(tmp_path, options, datasets)
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        space = h5py.h5s.create_simple((8,))
        h5py.h5d.create(file["CNN_proj"].id, b"b_proj", h5py.h5t.UNIX_D32LE, space)
    with pytest.raises(ValueError, match=r"dataset 'CNN_proj/b_proj' cannot be read"):
        load(tmp_path)


def test_any_damage_is_a_message_or_harmless(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets)
    weights = tmp_path / "weights.hdf5"
    data = weights.read_bytes()
    rng = numpy.random.default_rng(0)
    n_refused = 0
    for _ in range(100):
        damaged = bytearray(data)
        for position in rng.integers(len(data), size=20):
            damaged[position] = rng.integers(256)
        weights.write_bytes(damaged)
        try:
            load(weights)
        except ValueError as error:
            assert "weights.hdf5" in str(error)
            n_refused += 1
    assert n_refused > 20


@pytest.mark.parametrize("data", [b"not HDF5 at all", bytes(4096)])
def test_not_hdf5(tmp_path, options, data):
    oracle.write_files(tmp_path, options, {})
    (tmp_path / "weights.hdf5").write_bytes(data)
    with pytest.raises(ValueError, match=r"weights.hdf5 is no complete HDF5 file; its start"):
        load(tmp_path)


def test_word_vectors_are_no_weights(tmp_path, options):
    # bilm-tf's dump_token_embeddings and the weights of its word-input models look like this.
    oracle.write_files(tmp_path, options, {"embedding": numpy.zeros((9, 8), dtype="float32")})
    with pytest.raises(ValueError, match=r"'embedding' but no 'char_embed'.*word vectors"):
        load(tmp_path)


def test_h5py_is_not_installed(tmp_path, monkeypatch, options, datasets, bilm):
    oracle.write_files(tmp_path, options, datasets)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        ImportError, match=r"weights.hdf5 is a HDF5.*pip install 'spacy-elmo\[hdf5\]"
    ):
        load(tmp_path)
    with pytest.raises(ImportError, match=r"pip install 'spacy-elmo\[hdf5\]'"):
        write(bilm, tmp_path / "out", "bilm-tf")
    assert not list((tmp_path / "out").iterdir())


def test_weights_are_found_beside_embeddings(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets, "lm_weights.hdf5")
    with h5py.File(tmp_path / "a_embeddings.hdf5", "w") as file:
        file["0"] = numpy.zeros((2, 3, 8), dtype="float32")
    load(tmp_path)


def test_layout_of_nlpl(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets, "model.hdf5")
    (tmp_path / "meta.json").write_text("{}")
    (tmp_path / "vocab.txt.gz").write_bytes(b"")
    expected = load(tmp_path)
    # Its reader takes model.hdf5 before any other file.
    oracle.write_files(tmp_path, options, oracle.make_datasets(options, seed=1), "a.hdf5")
    assert_same_weights(load(tmp_path), expected)
    # What is written beside it would never be read.
    with pytest.raises(ValueError, match=r"holds model.hdf5, which readers take in place of weig"):
        write(expected, tmp_path, "bilm-tf")
    assert not (tmp_path / "weights.hdf5").exists()


@pytest.mark.parametrize("value", [[], "x", 3])
def test_metadata_that_is_no_object(tmp_path, options, datasets, value):
    oracle.write_files(tmp_path, {**options, "metadata": value}, datasets)
    with pytest.raises(ValueError, match=r"options.json: metadata is .*; expected an object"):
        load(tmp_path)


def test_metadata_is_kept(tmp_path, bilm):
    bilm.metadata = {"language": "én", "scalar_mixes": [{"gamma": 2.5}]}
    write(bilm, tmp_path, "bilm-tf")
    assert load(tmp_path).metadata == bilm.metadata


def test_two_files_of_weights(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets, "a.hdf5")
    oracle.write_files(tmp_path, options, datasets, "b.h5")
    with pytest.raises(ValueError, match=r"has 2 HDF5 files .*expected one.*one of: a.hdf5, b.h5"):
        load(tmp_path)
    load(tmp_path / "b.h5")


def test_no_file_of_weights_among_several(tmp_path, options):
    oracle.write_files(tmp_path, options, {}, "a.hdf5")
    oracle.write_files(tmp_path, options, {}, "b.hdf5")
    with pytest.raises(ValueError, match=r"has 0 HDF5 files with the dataset 'char_embed'"):
        load(tmp_path)


def test_pairs_as_allennlp_publishes_them(tmp_path):
    for size, options in (("small", oracle.make_options()), ("large", oracle.make_options(dim=9))):
        name = f"elmo_{size}_weights.hdf5"
        oracle.write_files(tmp_path, options, oracle.make_datasets(options), name)
        shutil.move(tmp_path / "options.json", tmp_path / f"elmo_{size}_options.json")
    assert load(tmp_path / "elmo_small_weights.hdf5").config.cell_size == 19
    assert load(tmp_path / "elmo_large_weights.hdf5").config.cell_size == 9
    shutil.copy(tmp_path / "elmo_small_weights.hdf5", tmp_path / "other.hdf5")
    with pytest.raises(
        ValueError, match=r"other.hdf5 needs its options beside it.*: elmo_large_options.json, elmo"
    ):
        load(tmp_path / "other.hdf5")
    (tmp_path / "elmo_large_options.json").unlink()
    load(tmp_path / "other.hdf5")


def test_weights_without_options(tmp_path, options, datasets):
    oracle.write_files(tmp_path, options, datasets)
    (tmp_path / "options.json").unlink()
    with pytest.raises(ValueError, match=r"needs its options beside it.*there is: none"):
        load(tmp_path / "weights.hdf5")
