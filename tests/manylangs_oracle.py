"""An independent ELMoForManyLangs: plain loops over words and characters, written from the
description of that tool's format alone. It knows nothing of the package.

A model is a :class:`Model`; tensors are float32 arrays by the names that the tool gives them.
Computed in float64.
"""

import json
from dataclasses import dataclass
from typing import Any, Dict, Optional

import numpy
import torch

from .oracle import sigmoid

Arrays = Dict[str, Any]


@dataclass
class Model:
    network: Dict[str, Any]
    words: Optional[Dict[str, int]]
    characters: Optional[Dict[str, int]]
    embedder: Arrays
    encoder: Arrays


def character_ids(model, word):
    """Ids of a word's characters: <eow>, the word, <bow>, for convolutions the padding."""
    ids = model.characters
    is_cnn = model.network["token_embedder"]["name"] == "cnn"
    size = model.network["token_embedder"]["max_characters_per_token"] if is_cnn else 10**6
    if word in ("<bos>", "<eos>"):
        inner = [ids[word]]
    else:
        inner = [ids.get(character, ids["<oov>"]) for character in word[: size - 2]]
    found = [ids["<eow>"], *inner, ids["<bow>"]]
    return found + [ids["<pad>"]] * (size - len(found)) if is_cnn else found


def plain_lstm(tensors, prefix, layer, inputs):
    """Outputs of one direction of a torch LSTM, inputs in its reading order."""
    weight_ih, weight_hh, bias_ih, bias_hh = (
        tensors[f"{prefix}{part}_{layer}"].astype("float64")
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    size = weight_hh.shape[1]
    hidden, cell = numpy.zeros(size), numpy.zeros(size)
    outputs = []
    for x in inputs:
        gates = weight_ih @ x + bias_ih + weight_hh @ hidden + bias_hh
        in_gate, forget, out_gate = (sigmoid(gates[k * size : (k + 1) * size]) for k in (0, 1, 3))
        cell = forget * cell + in_gate * numpy.tanh(gates[2 * size : 3 * size])
        hidden = out_gate * numpy.tanh(cell)
        outputs.append(hidden)
    return outputs


def characters_vector(model, word):
    options, tensors = model.network["token_embedder"], model.embedder
    table = tensors["char_emb_layer.embedding.weight"].astype("float64")
    characters = [table[i] for i in character_ids(model, word)]
    if options["name"] == "lstm":
        ahead = plain_lstm(tensors, "char_lstm.", "l0", characters)
        back = plain_lstm(tensors, "char_lstm.", "l0_reverse", characters[::-1])
        return numpy.concatenate([ahead[-1], back[-1]])
    pooled = []
    for number, (width, count) in enumerate(options["filters"]):
        kernel = tensors[f"convolutions.{number}.weight"].astype("float64")
        best = numpy.full(count, -numpy.inf)
        for begin in range(len(characters) - width + 1):
            value = tensors[f"convolutions.{number}.bias"].astype("float64")
            for offset in range(width):
                value = value + kernel[:, :, offset] @ characters[begin + offset]
            best = numpy.maximum(best, value)
        pooled.extend(
            numpy.maximum(best, 0) if options["activation"] == "relu" else numpy.tanh(best)
        )
    x = numpy.array(pooled)
    for number in range(options["n_highway"]):
        layer = f"highways._layers.{number}"
        both = tensors[f"{layer}.weight"].astype("float64") @ x + tensors[f"{layer}.bias"]
        gate = sigmoid(both[len(x) :])
        x = gate * x + (1 - gate) * numpy.maximum(both[: len(x)], 0)
    return x


def token_vector(model, word):
    """The token layer of one word. Shape: (projection_dim,)"""
    parts = []
    if model.words is not None:
        cut = word
        if model.characters is not None and model.network["token_embedder"]["name"] == "cnn":
            cut = word[: model.network["token_embedder"]["max_characters_per_token"] - 2]
        table = model.embedder["word_emb_layer.embedding.weight"].astype("float64")
        parts.append(table[model.words.get(cut, model.words["<oov>"])])
    if model.characters is not None:
        parts.append(characters_vector(model, word))
    weight = model.embedder["projection.weight"].astype("float64")
    return weight @ numpy.concatenate(parts) + model.embedder["projection.bias"]


def elmo_layer(model, name, inputs):
    options, tensors = model.network["encoder"], model.encoder
    size = options["dim"]
    hidden, cell = numpy.zeros(options["projection_dim"]), numpy.zeros(size)
    outputs = []
    for x in inputs:
        gates = tensors[f"{name}.input_linearity.weight"].astype("float64") @ x
        gates = gates + tensors[f"{name}.state_linearity.weight"].astype("float64") @ hidden
        gates = gates + tensors[f"{name}.state_linearity.bias"]
        in_gate, forget, out_gate = (sigmoid(gates[k * size : (k + 1) * size]) for k in (0, 1, 3))
        cell = in_gate * numpy.tanh(gates[2 * size : 3 * size]) + forget * cell
        if options["cell_clip"]:
            cell = numpy.clip(cell, -options["cell_clip"], options["cell_clip"])
        hidden = tensors[f"{name}.state_projection.weight"].astype("float64") @ (
            out_gate * numpy.tanh(cell)
        )
        if options["proj_clip"]:
            hidden = numpy.clip(hidden, -options["proj_clip"], options["proj_clip"])
        outputs.append(hidden)
    return outputs


def embed_sentence(model, sentence):
    """Token layer and LSTM layers from a zero state (of an ``lstm`` encoder the last one only).
    Shape: (n_layers + 1, n_tokens, 2 * projection_dim)"""
    options = model.network["encoder"]
    tokens = [token_vector(model, word) for word in ["<bos>", *sentence, "<eos>"]]
    layers = [[numpy.concatenate([x, x]) for x in tokens]]
    if options["name"] == "lstm":
        x = tokens
        for number in range(options["n_layers"]):
            ahead = plain_lstm(model.encoder, "encoder.", f"l{number}", x)
            back = plain_lstm(model.encoder, "encoder.", f"l{number}_reverse", x[::-1])[::-1]
            x = [numpy.concatenate(pair) for pair in zip(ahead, back)]
        weight, bias = model.encoder["projection.weight"], model.encoder["projection.bias"]
        project = [weight.astype("float64") @ y + bias for y in (*ahead, *back)]
        pairs = zip(project[: len(tokens)], project[len(tokens) :])
        layers.append([numpy.concatenate(pair) for pair in pairs])
    else:
        ahead, back = tokens, tokens[::-1]
        for number in range(options["n_layers"]):
            new_ahead = elmo_layer(model, f"forward_layer_{number}", ahead)
            new_back = elmo_layer(model, f"backward_layer_{number}", back)
            if number > 0:
                new_ahead = [y + x for y, x in zip(new_ahead, ahead)]
                new_back = [y + x for y, x in zip(new_back, back)]
            ahead, back = new_ahead, new_back
            layers.append([numpy.concatenate(pair) for pair in zip(ahead, back[::-1])])
    return numpy.array([rows[1:-1] for rows in layers])


#: What a strip() would lose, and code points of one to four bytes.
CHARACTERS = [
    *"abcdehinoprtv.'",
    "é",
    "ß",
    "川",
    "岸",
    "\N{GRINNING FACE}",
    "\u3000",
    "\u00a0",
    "\u2009",
    "\x85",
    "\u2028",
    " ",
    "\r",
]
WORDS = ["the", "bank", "river", "川岸", ".", "\u3000", "\u00a0", "\x85", "a b", "d" * 10]

SENTENCES = [
    ["the", "bank", "of", "the", "river", "."],
    ["川岸", "é", "\u3000", "\u00a0", "\x85", "unknown", "\N{GRINNING FACE}z"],
    ["d" * 60, "", " ", "a b", "<oov>"],
    ["."],
]


def make_model(seed=0, embedder="cnn", encoder="elmo", word_dim=7, char_dim=5, **changes):
    """Random weights of small sizes, no two of them equal, large enough to reach the clips."""
    network = {
        "encoder": {
            "name": encoder,
            "projection_dim": 8,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": 11,
            "n_layers": 2,
        },
        "token_embedder": {
            "name": embedder,
            "activation": "relu",
            "filters": [[1, 4], [2, 6], [3, 9]],
            "n_highway": 2,
            "word_dim": word_dim,
            "char_dim": char_dim,
            "max_characters_per_token": 12,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 10},
        "dropout": 0.1,
    }
    places = {name: block for block in list(network.values())[:2] for name in block}
    for name, value in changes.items():
        places[name][name] = value
    words = {name: n for n, name in enumerate(["<oov>", "<bos>", "<eos>", "<pad>", *WORDS])}
    special = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    characters = {name: n for n, name in enumerate([*CHARACTERS, *special])}
    model = Model(network, words if word_dim else None, characters if char_dim else None, {}, {})
    rng = numpy.random.default_rng(seed)

    def add(tensors, name, *shape, scale=2.0):
        bound = 1.0 if "emb" in name else scale / numpy.prod(shape[1:] or (1,)) ** 0.5
        tensors[name] = rng.uniform(-bound, bound, shape).astype("float32")

    options, sizes, total = network["token_embedder"], network["encoder"], word_dim
    if word_dim:
        add(model.embedder, "word_emb_layer.embedding.weight", len(words), word_dim)
    if char_dim:
        add(model.embedder, "char_emb_layer.embedding.weight", len(characters), char_dim)
        if embedder == "lstm":
            total += 2 * char_dim
            add_lstm(add, model.embedder, "char_lstm.", "l0", char_dim, char_dim)
        else:
            n_filters = sum(count for _, count in options["filters"])
            total += n_filters
            for number, (width, count) in enumerate(options["filters"]):
                add(model.embedder, f"convolutions.{number}.weight", count, char_dim, width)
                add(model.embedder, f"convolutions.{number}.bias", count)
            for number in range(options["n_highway"]):
                layer = f"highways._layers.{number}"
                add(model.embedder, f"{layer}.weight", 2 * n_filters, n_filters)
                add(model.embedder, f"{layer}.bias", 2 * n_filters)
    projection, dim = sizes["projection_dim"], sizes["dim"]
    add(model.embedder, "projection.weight", projection, total)
    add(model.embedder, "projection.bias", projection)
    for number in range(sizes["n_layers"]):
        if encoder == "lstm":
            n_inputs = projection if number == 0 else 2 * dim
            add_lstm(add, model.encoder, "encoder.", f"l{number}", n_inputs, dim)
            continue
        for direction in ("forward", "backward"):
            layer = f"{direction}_layer_{number}"
            add(model.encoder, f"{layer}.input_linearity.weight", 4 * dim, projection)
            add(model.encoder, f"{layer}.state_linearity.weight", 4 * dim, projection)
            add(model.encoder, f"{layer}.state_linearity.bias", 4 * dim)
            add(model.encoder, f"{layer}.state_projection.weight", projection, dim, scale=6.0)
    if encoder == "lstm":
        add(model.encoder, "projection.weight", projection, dim)
        add(model.encoder, "projection.bias", projection)
    return model


def add_lstm(add, tensors, prefix, layer, n_inputs, size):
    for suffix in ("", "_reverse"):
        add(tensors, f"{prefix}weight_ih_{layer}{suffix}", 4 * size, n_inputs)
        add(tensors, f"{prefix}weight_hh_{layer}{suffix}", 4 * size, size)
        add(tensors, f"{prefix}bias_ih_{layer}{suffix}", 4 * size)
        add(tensors, f"{prefix}bias_hh_{layer}{suffix}", 4 * size)


def write_model(directory, model, name="cnn.json", config_path=None, is_old=True):
    """Write a model as the tool does; ``is_old`` for the files of torch before 1.6, as published
    models have them."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {"config_path": config_path or f"/home/author/configs/{name}", "seed": 1}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / name).write_text(json.dumps(model.network), encoding="utf-8")
    for file, ids in (("word.dic", model.words), ("char.dic", model.characters)):
        if ids is not None:
            write_dictionary(directory / file, ids)
    for file, arrays in (("token_embedder.pkl", model.embedder), ("encoder.pkl", model.encoder)):
        write_tensors(directory / file, arrays, is_old)
    return directory


def write_dictionary(path, ids):
    lines = [f"{entry}\t{number}\n" for entry, number in ids.items()]
    path.write_bytes("".join(lines).encode("utf-8"))


def write_tensors(path, arrays, is_old=True):
    tensors = {name: torch.as_tensor(values) for name, values in arrays.items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=not is_old)


def read_model(directory, name):
    """Read what :func:`write_model`, or the tool itself, wrote."""

    def read_ids(path):
        lines = path.read_bytes().decode("utf-8").split("\n")[:-1]
        return {entry: int(n) for entry, _, n in (line.rpartition("\t") for line in lines)}

    def read_arrays(path):
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        return {key: values.numpy() for key, values in tensors.items()}

    network = json.loads((directory / name).read_text(encoding="utf-8"))
    options = network["token_embedder"]
    return Model(
        network,
        read_ids(directory / "word.dic") if options["word_dim"] else None,
        read_ids(directory / "char.dic") if options["char_dim"] else None,
        read_arrays(directory / "token_embedder.pkl"),
        read_arrays(directory / "encoder.pkl"),
    )
