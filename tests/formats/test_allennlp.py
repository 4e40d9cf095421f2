"""The ELMo inside a model of AllenNLP: its vectors, its mixes, and what a faulty model says."""

import json
import pickle
import tarfile
import warnings

import numpy
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.formats import load, write

from .. import oracle
from .allennlp_files import (
    PLACE,
    make_config,
    make_state_dict,
    write_archive,
    write_model,
)
from .test_bilm_tf_files import read_datasets

SENTENCES = [["The", "bank", "of", "the", "river"], ["<S>", "é" * 30, "x" * 60], ["a"], []]
ASSUMED = "the options of its ELMo are not in the model"

# What AllenNLP's options can say; see oracle.make_options.
VARIANTS = {
    "as usual": {},
    "two highways, three layers": {"n_highway": 2, "n_layers": 3},
    "one layer, no highway": {"n_highway": 0, "n_layers": 1},
    "equal sizes": {"projection_dim": 21, "dim": 21},
}


@pytest.fixture
def options():
    return oracle.make_options()


@pytest.fixture
def datasets(options):
    return oracle.make_datasets(options)


@pytest.fixture
def state(options, datasets):
    return make_state_dict(options, datasets)


def assert_vectors(bilm, options, datasets):
    for sentence, layers in zip(SENTENCES, bilm.embed(SENTENCES)):
        expected, _ = oracle.embed_sentence(options, datasets, sentence)
        numpy.testing.assert_allclose(layers, expected, atol=1e-5, rtol=0)


def make(name, **more):
    options = oracle.make_options(**VARIANTS[name], **more)
    return options, oracle.make_datasets(options, always_project=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_vectors_equal_the_oracle(tmp_path, name):
    options, datasets = make(name)
    mixes = [([0.0] * (options["lstm"]["n_layers"] + 1), 1.0)]
    state = make_state_dict(options, datasets, mixes=mixes)
    path = write_archive(tmp_path / "model.tar.gz", write_model(tmp_path / "model", state))
    with pytest.warns(UserWarning, match=f"^weights.th: {ASSUMED}.* activation relu"):
        bilm = BiLM.from_pretrained(path)
    assert_vectors(bilm, options, datasets)
    assert not bilm.training


def test_options_in_the_archive_are_used(tmp_path):
    options, datasets = make(
        "as usual", activation="tanh", cell_clip=0.5, proj_clip=None, max_characters_per_token=10
    )
    state = make_state_dict(options, datasets)
    path = write_archive(
        tmp_path / "model.tar.gz", write_model(tmp_path / "model", state, options=options)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bilm = load(path)
    assert_vectors(bilm, options, datasets)


def test_options_beside_the_weights_are_used(tmp_path, state):
    options, datasets = make("as usual", activation="tanh")
    write_model(tmp_path, make_state_dict(options, datasets))
    (tmp_path / "options.json").write_text(json.dumps(options), encoding="utf-8")
    assert_vectors(load(tmp_path), options, datasets)
    assert_vectors(load(tmp_path / "weights.th"), options, datasets)


@pytest.mark.filterwarnings(f"ignore:.*{ASSUMED}")
@pytest.mark.parametrize("place", [PLACE, "_elmo.", "a.b.c.", ""])
@pytest.mark.parametrize("zipped", [True, False])
def test_place_in_the_model_and_layout_of_the_file(tmp_path, options, datasets, place, zipped):
    state = make_state_dict(options, datasets, place, [([0.0, 1.0, 2.0], 0.5)])
    bilm = load(write_model(tmp_path, state, zipped=zipped))
    assert_vectors(bilm, options, datasets)
    assert bilm.metadata["scalar_mixes"][0]["gamma"] == 0.5


@pytest.mark.filterwarnings(f"ignore:.*{ASSUMED}")
def test_bilm_without_the_module_around_it(tmp_path, options, datasets, state):
    inner = {
        name.removeprefix(f"{PLACE}_elmo_lstm."): values
        for name, values in state.items()
        if name.startswith(f"{PLACE}_elmo_lstm.")
    }
    bilm = load(write_model(tmp_path, inner))
    assert_vectors(bilm, options, datasets)
    assert bilm.metadata == {}


@pytest.mark.filterwarnings(f"ignore:.*{ASSUMED}")
@pytest.mark.parametrize("layer_norm", [None, False, True])
def test_mixes_are_read(tmp_path, options, datasets, layer_norm):
    mixes = [([0.5, -1.0, 2.0], 1.25), ([3.0, 0.0, 0.0], -0.5)]
    config = make_config(**({} if layer_norm is None else {"do_layer_norm": layer_norm}))
    state = make_state_dict(options, datasets, mixes=mixes)
    found = load(write_model(tmp_path, state, config)).metadata["scalar_mixes"]
    assert len(found) == 2
    for mix, (scalars, gamma) in zip(found, mixes):
        exponents = numpy.exp(scalars)
        numpy.testing.assert_allclose(mix["weights"], exponents / exponents.sum(), rtol=1e-6)
        assert mix["gamma"] == gamma
        assert mix["layer_norm"] is bool(layer_norm)


@pytest.mark.filterwarnings(f"ignore:.*{ASSUMED}")
def test_hdf5_of_it_is_the_original(tmp_path, options, datasets, state):
    write(load(write_model(tmp_path / "a", state)), tmp_path / "b", "bilm-tf")
    found = read_datasets(tmp_path / "b" / "weights.hdf5")
    assert found.keys() == datasets.keys()
    for name, values in datasets.items():
        # Adding 1.0 to the forget bias lost what lay below its precision; the sum is the same.
        same = numpy.array_equal if not name.endswith("/B") else numpy.allclose
        assert same(found[name], values), name
        if name.endswith("/B"):
            assert numpy.array_equal(found[name] + numpy.float32(1), values + numpy.float32(1))
    again = load(tmp_path / "b")
    assert again.metadata["scalar_mixes"][0]["gamma"] == 1.0
    assert_vectors(again, options, datasets)


@pytest.mark.filterwarnings(f"ignore:.*{ASSUMED}")
def test_what_is_not_of_the_bilm_is_left(tmp_path, options, datasets, state):
    state[f"{PLACE}_elmo_lstm._word_embedding.weight"] = torch.ones(7, 8)
    state[f"{PLACE}_projection.weight"] = torch.ones(4, 16)
    state["encoder._module.bias"] = torch.full((3,), float("nan"))
    assert_vectors(load(write_model(tmp_path, state)), options, datasets)


@pytest.mark.filterwarnings(f"ignore:.*{ASSUMED}")
def test_one_module_under_two_names(tmp_path, options, datasets, state):
    """As torch saves a module that two others share."""
    twice = {**state, **{f"_copy.{name}": values for name, values in state.items()}}
    assert_vectors(load(write_model(tmp_path / "a", twice)), options, datasets)
    name = f"_copy.{PLACE}_elmo_lstm._token_embedder._projection.bias"
    twice[name] = twice[name] + 1
    write_model(tmp_path / "b", twice)
    with pytest.raises(ValueError, match=r"more than one biLM, whose weights differ: 'text_f"):
        load(tmp_path / "b")


def test_model_without_an_elmo(tmp_path):
    write_model(tmp_path, {"encoder.weight": torch.ones(2)})
    with pytest.raises(ValueError, match=r"weights.th holds no ELMo: .* It has: encoder.weight\."):
        load(tmp_path)


def test_config_is_missing_or_damaged(tmp_path, state):
    write_model(tmp_path, state)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is no valid JSON"):
        load(tmp_path)
    (tmp_path / "config.json").unlink()
    for path in (tmp_path, tmp_path / "weights.th"):
        with pytest.raises(ValueError, match=r"weights.th needs its config.json beside it"):
            load(path)


def test_options_that_differ(tmp_path, options, state):
    write_model(tmp_path, state, options=options)
    (tmp_path / "options.json").write_text("{}")
    with pytest.raises(ValueError, match=r"2 files of options that differ; .*options.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"dim": 20},
            r"forward_layer_0.input_linearity.weight' has shape \(76, 8\); expe",
        ),
        ({"n_layers": 3}, r"missing parameter '_elmo_lstm.forward_layer_2.input_linearity.weight'"),
        ({"n_layers": 10**9}, r"has \d+ parameters; expected more for the 1000000000 LSTM layers"),
        ({"n_highway": 0}, r"unexpected parameter '_token_embedder._highways._layers.0.bias'"),
    ],
)
def test_options_that_do_not_fit_the_weights(tmp_path, state, change, message):
    write_model(tmp_path, state, options=oracle.make_options(**change))
    with pytest.raises(ValueError, match=f"weights.th.*{message}"):
        load(tmp_path)


LSTM = f"{PLACE}_elmo_lstm._elmo_lstm"
TOKEN = f"{PLACE}_elmo_lstm._token_embedder"


@pytest.mark.filterwarnings(f"ignore:.*{ASSUMED}")
@pytest.mark.parametrize(
    "name, change, message",
    [
        (f"{LSTM}.backward_layer_1.state_linearity.bias", None, r"missing parameter .* \(76,\)"),
        (f"{LSTM}.forward_layer_0.state_projection.weight", None, r"is missing; expected 2 dim"),
        (f"{TOKEN}._projection.bias", lambda x: x[:-1], r"has shape \(7,\); expected \(8,\)"),
        (f"{TOKEN}.char_conv_1.weight", lambda x: x[0], r"has shape \(5, 2\); expected 3 dimens"),
        (f"{TOKEN}._char_embedding_weights", lambda x: x[1:], r"\(261, 5\); expected \(262, 5\)"),
        (f"{TOKEN}._projection.bias", lambda x: x.double(), r"is of type torch.float64"),
        (f"{TOKEN}._projection.bias", lambda x: x.int(), r"is of type torch.int32"),
        (f"{TOKEN}._projection.bias", lambda x: x.to_sparse(), r"\(torch.sparse_coo\); expected"),
        (f"{TOKEN}._projection.bias", lambda x: x / 0, r"has 8 values that are NaN or infinite"),
        (
            f"{PLACE}scalar_mix_0.scalar_parameters.2",
            None,
            r"missing parameter .*mix of 3 layers",
        ),
        (f"{PLACE}scalar_mix_0.gamma", lambda x: x / 0, r"gamma' of shape \(1,\) has 1 values"),
        (f"{PLACE}scalar_mix_0.gamma", lambda x: x[0], r"gamma' has shape \(\); expected \(1,\)"),
        (f"{LSTM}.forward_layer_7.state_linearity.bias", torch.ones, r"unexpected parameter"),
        (f"{TOKEN}.char_conv_0.weight", lambda x: x.repeat(1, 1, 60), r"widths up to max_char"),
    ],
)
def test_faulty_parameter(tmp_path, state, name, change, message):
    if change is None:
        del state[name]
    else:
        state[name] = change(state[name] if name in state else 2)
    write_model(tmp_path, state)
    with pytest.raises(ValueError, match=f"weights.th: .*{message}"):
        load(tmp_path)


class Bomb:
    """A pickle of this writes a file when it is read without care."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_in_a_pickle_runs(tmp_path, state, zipped):
    flag = tmp_path / "it_ran"
    write_model(tmp_path / "a", {**state, "bomb": Bomb(flag)}, zipped=zipped)
    write_model(tmp_path / "b", Bomb(flag), zipped=zipped)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "config.json").write_text("{}")
    (tmp_path / "c" / "weights.th").write_bytes(pickle.dumps(Bomb(flag), protocol=2))
    for folder in "abc":
        with pytest.raises(ValueError, match=r"weights.th holds something other than tensors"):
            load(tmp_path / folder)
    assert not flag.exists()
    pickle.loads((tmp_path / "c" / "weights.th").read_bytes()).close()
    assert flag.exists()


def test_the_oldest_layout_is_refused(tmp_path, state):
    """torch before 2.6 unpickles it without care, whatever it is told."""
    write_model(tmp_path, state)
    (tmp_path / "weights.th").unlink()
    with tarfile.open(tmp_path / "weights.th", "w") as archive:
        archive.add(tmp_path / "config.json", "pickle")
    with pytest.raises(ValueError, match=r"weights.th is no file of torch tensors \(\d+ bytes\)"):
        load(tmp_path)


@pytest.mark.parametrize(
    "values, message",
    [
        ([torch.ones(2)], r" holds a list; expected tensors by name"),
        (torch.ones(2), r" holds a Tensor; expected tensors by name"),
        ({"a": torch.ones(2), "epoch": 3}, r": 'epoch' is a int; expected tensors"),
        ({"model": {"a": torch.ones(2)}}, r": 'model' is a dict; expected tensors"),
        ({3: torch.ones(2)}, r": 3 is a Tensor; expected tensors"),
    ],
)
def test_other_things_than_tensors_by_name(tmp_path, values, message):
    write_model(tmp_path, values)
    with pytest.raises(ValueError, match=f"weights.th{message}"):
        load(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
def test_file_cut_short(tmp_path, state, zipped):
    write_model(tmp_path, state, zipped=zipped)
    file = tmp_path / "weights.th"
    data = file.read_bytes()
    for size in (*range(0, 200, 23), *range(200, len(data), len(data) // 20), len(data) - 1):
        file.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"weights.th (is no|holds) .* cut short"):
            load(tmp_path)


def test_any_damage_is_a_message_or_harmless(tmp_path, options, datasets, state):
    write_model(tmp_path, state, options=options, zipped=False)
    file = tmp_path / "weights.th"
    data = file.read_bytes()
    rng = numpy.random.default_rng(0)
    n_refused = 0
    for _ in range(60):
        damaged = bytearray(data)
        # What is no number of a weight stands at the start.
        for position in rng.integers(4000, size=3):
            damaged[position] = rng.integers(256)
        file.write_bytes(damaged)
        try:
            load(tmp_path)
        except ValueError as error:
            assert "weights.th" in str(error)
            n_refused += 1
    assert n_refused > 30
