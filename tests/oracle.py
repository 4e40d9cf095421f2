"""An independent biLM: plain loops over words and characters, written from the description of
bilm-tf's format alone. It knows nothing of the package, which is what makes it a judge.

Weights are a dict of the datasets of a bilm-tf HDF5 file, sizes the object of its options.json.
Computed in float64.
"""

import json

import numpy

N_CHARACTERS = 261
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260
MARKS = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


def sigmoid(x):
    return 1.0 / (1.0 + numpy.exp(-x))


def character_ids(word, max_characters):
    """Ids of one word at full length: begin, bytes, end, padding."""
    if word in MARKS:
        inner = [MARKS[word]]
    else:
        inner = []
        for character in word:
            if 0xD800 <= ord(character) <= 0xDFFF:
                continue
            for byte in character.encode("utf-8"):
                inner.append(byte)
        inner = inner[: max_characters - 2]
    ids = [BEGIN_WORD] + inner + [END_WORD]
    while len(ids) < max_characters:
        ids.append(PADDING)
    return ids


def token_vector(options, datasets, word):
    """The token layer of one word. Shape: (projection_dim,)"""
    cnn = options["char_cnn"]
    ids = character_ids(word, cnn["max_characters_per_token"])
    characters = [datasets["char_embed"][i].astype("float64") for i in ids]
    pooled = []
    for number, (width, count) in enumerate(cnn["filters"]):
        kernel = datasets[f"CNN/W_cnn_{number}"].astype("float64")
        bias = datasets[f"CNN/b_cnn_{number}"].astype("float64")
        best = numpy.full(count, -numpy.inf)
        for begin in range(len(ids) - width + 1):
            value = bias.copy()
            for offset in range(width):
                value += characters[begin + offset] @ kernel[0, offset]
            best = numpy.maximum(best, value)
        if cnn["activation"] == "relu":
            best = numpy.maximum(best, 0.0)
        else:
            best = numpy.tanh(best)
        pooled.extend(best)
    x = numpy.array(pooled)
    for number in range(cnn.get("n_highway") or 0):
        group = f"CNN_high_{number}"
        gate = sigmoid(x @ datasets[f"{group}/W_carry"] + datasets[f"{group}/b_carry"])
        new = x @ datasets[f"{group}/W_transform"] + datasets[f"{group}/b_transform"]
        x = gate * numpy.maximum(new, 0.0) + (1.0 - gate) * x
    if "CNN_proj/W_proj" in datasets:
        x = x @ datasets["CNN_proj/W_proj"].astype("float64") + datasets["CNN_proj/b_proj"]
    return x


def lstm_layer(options, datasets, cell_path, inputs, hidden, cell):
    """Outputs of one LSTM layer, without a skip connection, and its state at the end."""
    lstm = options["lstm"]
    matrix = datasets[f"{cell_path}/W_0"].astype("float64")
    bias = datasets[f"{cell_path}/B"].astype("float64")
    projection = datasets.get(f"{cell_path}/W_P_0")
    size = lstm["dim"]
    outputs = []
    for x in inputs:
        gates = numpy.concatenate([x, hidden]) @ matrix + bias
        in_gate = sigmoid(gates[:size])
        candidate = numpy.tanh(gates[size : 2 * size])
        forget_gate = sigmoid(gates[2 * size : 3 * size] + 1.0)
        out_gate = sigmoid(gates[3 * size :])
        cell = forget_gate * cell + in_gate * candidate
        if lstm.get("cell_clip"):
            cell = numpy.clip(cell, -lstm["cell_clip"], lstm["cell_clip"])
        hidden = out_gate * numpy.tanh(cell)
        if projection is not None:
            hidden = hidden @ projection.astype("float64")
            if lstm.get("proj_clip"):
                hidden = numpy.clip(hidden, -lstm["proj_clip"], lstm["proj_clip"])
        outputs.append(hidden)
    return outputs, hidden, cell


def zero_state(options):
    """The state before anything was read: for each direction and layer, hidden and cell."""
    lstm = options["lstm"]
    return [
        [
            (numpy.zeros(lstm["projection_dim"]), numpy.zeros(lstm["dim"]))
            for _ in range(lstm.get("n_layers", 1))
        ]
        for _ in range(2)
    ]


def embed_sentence(options, datasets, sentence, state=None):
    """All layers of one sentence, shape (n_layers + 1, n_tokens, 2 * projection_dim), and the
    state after it."""
    words = ["<S>", *sentence, "</S>"]
    tokens = [token_vector(options, datasets, word) for word in words]
    state = state or zero_state(options)
    n_layers = options["lstm"].get("n_layers", 1)
    halves = [[tokens], [tokens]]
    final = []
    for direction in (0, 1):
        x = tokens if direction == 0 else tokens[::-1]
        final.append([])
        for layer in range(n_layers):
            path = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            hidden, cell = state[direction][layer]
            y, hidden, cell = lstm_layer(options, datasets, path, x, hidden, cell)
            if layer > 0 and options["lstm"]["use_skip_connections"]:
                y = [output + input_ for output, input_ in zip(y, x)]
            final[direction].append((hidden, cell))
            halves[direction].append(y if direction == 0 else y[::-1])
            x = y
    layers = []
    for ahead, back in zip(*halves):
        rows = [numpy.concatenate([a, b]) for a, b in zip(ahead, back)]
        layers.append(rows[1:-1])
    shape = (n_layers + 1, len(sentence), 2 * options["lstm"]["projection_dim"])
    return numpy.array(layers).reshape(shape), final


def embed_stream(options, datasets, sentences, state=None):
    """All layers of sentences that are read one after the other, the state carried on, and the
    state after the last."""
    results = []
    for sentence in sentences:
        layers, state = embed_sentence(options, datasets, sentence, state)
        results.append(layers)
    return results, state


def make_options(**changes):
    """Small options in which no two sizes are equal; a change is named by the last part of its
    field (``n_layers=3``), and ``...`` leaves the field out."""
    options = {
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 5},
            "filters": [[1, 4], [2, 7], [4, 10]],
            "max_characters_per_token": 50,
            "n_characters": 262,
            "n_highway": 1,
        },
        "lstm": {
            "cell_clip": 3,
            "dim": 19,
            "n_layers": 2,
            "proj_clip": 3,
            "projection_dim": 8,
            "use_skip_connections": True,
        },
    }
    places = {name: group for group in options.values() for name in group}
    for name, value in changes.items():
        if name == "char_dim":
            options["char_cnn"]["embedding"]["dim"] = value
        elif value is ...:
            del places[name][name]
        else:
            places.get(name, options)[name] = value
    return options


def make_datasets(options, seed=0, scale=2.0, always_project=False):
    """Random weights for options, large enough to reach the clips.

    ``always_project`` gives a projection where bilm-tf has none, between equal sizes.
    """
    rng = numpy.random.default_rng(seed)
    cnn, lstm = options["char_cnn"], options["lstm"]
    n_filters = sum(count for _, count in cnn["filters"])
    projection, size = lstm["projection_dim"], lstm["dim"]
    datasets = {}

    def add(name, *shape):
        n_inputs = 1 if len(shape) == 1 else int(numpy.prod(shape[:-1]))
        bound = 1.0 if name == "char_embed" else scale / n_inputs**0.5
        # What a projection gets lies within 1, so only large weights take it to the clip.
        bound *= 3 if name.endswith("W_P_0") else 1
        datasets[name] = rng.uniform(-bound, bound, shape).astype("float32")

    add("char_embed", N_CHARACTERS, cnn["embedding"]["dim"])
    for number, (width, count) in enumerate(cnn["filters"]):
        add(f"CNN/W_cnn_{number}", 1, width, cnn["embedding"]["dim"], count)
        add(f"CNN/b_cnn_{number}", count)
    for number in range(cnn.get("n_highway") or 0):
        for name in ("carry", "transform"):
            add(f"CNN_high_{number}/W_{name}", n_filters, n_filters)
            add(f"CNN_high_{number}/b_{name}", n_filters)
    if n_filters != projection or always_project:
        add("CNN_proj/W_proj", n_filters, projection)
        add("CNN_proj/b_proj", projection)
    for direction in (0, 1):
        for layer in range(lstm.get("n_layers", 1)):
            path = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            add(f"{path}/W_0", 2 * projection, 4 * size)
            add(f"{path}/B", 4 * size)
            if size != projection or always_project:
                add(f"{path}/W_P_0", size, projection)
    return datasets


def write_files(directory, options, datasets, weights="weights.hdf5"):
    """Write options.json and a HDF5 file of the datasets; returns the directory."""
    import h5py

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "options.json").write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(directory / weights, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return directory
