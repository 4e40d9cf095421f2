"""Models of AllenNLP as its ELMo modules store them, made from the datasets of a bilm-tf file by a
mapping of its own, block by block."""

import io
import json
import tarfile

import numpy
import torch

PLACE = "text_field_embedder.token_embedder_elmo._elmo."
FTA = "fta/model.text_field_embedder.token_embedders.elmo."


def blocks(array, size):
    """Columns of a bilm-tf gate matrix, or values of its bias, by gate."""
    return {
        gate: array[..., i * size : (i + 1) * size]
        for i, gate in enumerate(["input", "candidate", "forget", "output"])
    }


def make_state_dict(options, datasets, place=PLACE, mixes=(([0.0, 0.0, 0.0], 1.0),)):
    """The parameters of a model with an ELMo and, after it, a layer of its own."""
    state = {}

    def add(name, array):
        array = numpy.ascontiguousarray(array, dtype="float32")
        state[place + name] = torch.from_numpy(array.copy())

    token, size = "_elmo_lstm._token_embedder", options["lstm"]["dim"]
    characters = datasets["char_embed"]
    add(f"{token}._char_embedding_weights", numpy.vstack([characters[:1] * 0, characters]))
    for i, (width, count) in enumerate(options["char_cnn"]["filters"]):
        kernel = numpy.empty((count, characters.shape[1], width))
        for at in range(width):
            kernel[:, :, at] = datasets[f"CNN/W_cnn_{i}"][0, at].T
        add(f"{token}.char_conv_{i}.weight", kernel)
        add(f"{token}.char_conv_{i}.bias", datasets[f"CNN/b_cnn_{i}"])
    for i in range(options["char_cnn"].get("n_highway") or 0):
        layer, group = f"{token}._highways._layers.{i}", f"CNN_high_{i}"
        new, carry = datasets[f"{group}/W_transform"].T, datasets[f"{group}/W_carry"].T
        # y = g x + (1 - g) f(x), so g is 1 - bilm-tf's gate, and sigmoid(-z) = 1 - sigmoid(z).
        add(f"{layer}.weight", numpy.vstack([new, -carry]))
        add(
            f"{layer}.bias",
            numpy.hstack([datasets[f"{group}/b_transform"], -datasets[f"{group}/b_carry"]]),
        )
    add(f"{token}._projection.weight", datasets["CNN_proj/W_proj"].T)
    add(f"{token}._projection.bias", datasets["CNN_proj/b_proj"])
    for direction, number in (("forward", 0), ("backward", 1)):
        for layer in range(options["lstm"]["n_layers"]):
            path = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            name = f"_elmo_lstm._elmo_lstm.{direction}_layer_{layer}"
            matrix = blocks(datasets[f"{path}/W_0"], size)
            bias = blocks(datasets[f"{path}/B"], size)
            order = ["input", "forget", "candidate", "output"]
            rows = numpy.vstack([matrix[gate].T for gate in order])
            n_inputs = options["lstm"]["projection_dim"]
            add(f"{name}.input_linearity.weight", rows[:, :n_inputs])
            add(f"{name}.state_linearity.weight", rows[:, n_inputs:])
            bias["forget"] = bias["forget"] + numpy.float32(1)
            add(f"{name}.state_linearity.bias", numpy.hstack([bias[gate] for gate in order]))
            add(f"{name}.state_projection.weight", datasets[f"{path}/W_P_0"].T)
    for i, (scalars, gamma) in enumerate(mixes):
        add(f"scalar_mix_{i}.gamma", [gamma])
        for j, scalar in enumerate(scalars):
            add(f"scalar_mix_{i}.scalar_parameters.{j}", [scalar])
    state["tag_projection_layer._module.weight"] = torch.ones(3, 4)
    return state


def make_config(**elmo):
    """A model's config, whose paths exist nowhere."""
    block = {
        "type": "elmo_token_embedder",
        "options_file": "https://example.com/elmo/options.json",
        "weight_file": "/home/someone/elmo/weights.hdf5",
        **elmo,
    }
    return {
        "dataset_reader": {"type": "conll2003"},
        "model": {
            "type": "crf_tagger",
            "text_field_embedder": {"token_embedders": {"elmo": block}},
        },
        "trainer": {"parameter_groups": [["a.*", {}]]},
    }


def write_model(directory, state, config=None, options=None, zipped=True):
    """A model's directory, ``fta`` holding the options where the archive has them."""
    directory.mkdir(parents=True, exist_ok=True)
    config = make_config() if config is None else config
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.save(state, directory / "weights.th", _use_new_zipfile_serialization=zipped)
    if options is not None:
        file = directory / f"{FTA}options_file"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(options), encoding="utf-8")
        (directory / f"{FTA}weight_file").write_bytes(b"not looked at")
    return directory


def write_archive(path, directory):
    """``model.tar.gz`` of a model's directory, with the other things that such archives hold."""
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                archive.add(file, str(file.relative_to(directory)))
        for name in ("vocabulary/labels.txt", "vocabulary/non_padded_namespaces.txt"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path
