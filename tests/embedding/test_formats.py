"""What stands in the files: the vectors of each line under its number, for other tools to read."""

import io
import json
import zipfile

import h5py
import numpy
import pyarrow.parquet as pq
import pytest

from spacy_elmo.embedding import embed_corpus
from spacy_elmo.embedding.blocks import Block
from spacy_elmo.embedding.sentences import Sentence
from spacy_elmo.embedding.sinks import SINKS, Contents, hdf5, npz, safetensors
from spacy_elmo.embedding.spool import make_spool

from .reading import LINES, NAMES, SENTENCES, read_arrays

LAYERS = {
    "all": lambda layers: layers,
    "top": lambda layers: layers[-1],
    "average": lambda layers: layers.mean(0),
    0: lambda layers: layers[0],
    (0.5, -1.0, 2.0): lambda layers: 0.5 * layers[0] - layers[1] + 2 * layers[2],
}


@pytest.fixture
def expected(bilm):
    return bilm.embed(SENTENCES, initial_state="warm")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def assert_alike(found, expected, tolerance=1e-5):
    for number, array in enumerate(expected):
        if number in found or array.size:
            assert found[number].shape == array.shape
            assert numpy.abs(found[number] - array).max(initial=0) < tolerance


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layers", LAYERS)
def test_every_line_has_its_vectors(bilm, text, tmp_path, expected, name, layers):
    """Batches are by length and blocks of few lines, the order is that of the text."""
    result = embed_corpus(bilm, text, tmp_path / name, layers=layers, batch_tokens=16)
    assert result.n_sentences == len(LINES) and result.n_tokens == sum(map(len, SENTENCES))
    found = read_arrays(tmp_path / name)
    with_rows = {number for number, words in enumerate(SENTENCES) if words}
    assert set(found) == (with_rows if name == "out.parquet" else set(range(len(LINES))))
    assert_alike(found, [LAYERS[layers](array) for array in expected])
    assert {array.dtype for array in found.values()} == {numpy.dtype("float32")}
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", name}


@pytest.mark.parametrize("name", NAMES)
def test_half_precision(bilm, text, tmp_path, expected, name):
    embed_corpus(bilm, text, tmp_path / name, precision="float16")
    found = read_arrays(tmp_path / name)
    assert {array.dtype for array in found.values()} == {numpy.dtype("float16")}
    assert_alike(found, [array.astype("float16") for array in expected], tolerance=0.01)


def test_a_value_too_large_for_half_precision_is_named(bilm, tmp_path):
    message = r"Sentence 0 has a value of \S+, which float16 cannot hold. Set precision"
    with pytest.raises(ValueError, match=message):
        weights = [1e6, 0, 0]
        embed_corpus(bilm, [["a"]], tmp_path / "a.npz", layers=weights, precision="float16")
    assert not list(tmp_path.iterdir())


def test_hdf5_has_the_layout_of_allennlp(bilm, text, tmp_path):
    embed_corpus(bilm, text, tmp_path / "out.hdf5")
    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert set(file) == {str(number) for number in range(len(LINES))} | {"sentence_to_index"}
        assert file["0"].shape == (3, 3, bilm.width) and file["2"].shape == (3, 0, bilm.width)
        assert file["sentence_to_index"].shape == (1,)
        keys = json.loads(file["sentence_to_index"][0])
    assert keys == {line.strip(): str(number) for number, line in enumerate(LINES)}
    assert keys["a / b"] == "1"


def test_the_text_can_be_forgotten(bilm, text, tmp_path):
    embed_corpus(bilm, text, tmp_path / "out.hdf5", keep_sentences=False)
    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert "sentence_to_index" not in file and len(file) == len(LINES)
    embed_corpus(bilm, text, tmp_path / "out.parquet", keep_sentences=False)
    assert pq.read_schema(tmp_path / "out.parquet").names == [
        "sentence",
        "token",
        "layer_0",
        "layer_1",
        "layer_2",
    ]


def test_parquet_has_the_words(bilm, text, tmp_path):
    embed_corpus(bilm, text, tmp_path / "out.parquet", layers="top")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["text"].to_pylist() == [word for words in SENTENCES for word in words]
    assert (
        str(table.schema.field("vector").type) == f"fixed_size_list<element: float>[{bilm.width}]"
    )


@pytest.mark.parametrize("name", ["out.npz", "out.safetensors", "out.parquet"])
def test_a_stream_gets_the_bytes_of_a_file(bilm, text, tmp_path, name):
    embed_corpus(bilm, text, tmp_path / name, batch_tokens=16)
    stream = io.BytesIO()
    format = name.partition(".")[2]
    embed_corpus(bilm, text, stream, format=format, batch_tokens=16)
    if format == "parquet":
        stream.seek(0)
        assert pq.read_table(stream).equals(pq.read_table(tmp_path / name))
    else:
        assert stream.getvalue() == (tmp_path / name).read_bytes()


def test_a_stream_that_fails_gets_no_end(bilm, monkeypatch):
    """Nothing that was cut off may look complete."""
    stream = io.BytesIO()

    def stop(what, n, total):
        if what == "embed" and n > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_corpus(bilm, SENTENCES, stream, format="parquet", batch_tokens=16, progress=stop)
    data = stream.getvalue()
    assert data.startswith(b"PAR1") and not data.endswith(b"PAR1")


def test_only_blank_lines(bilm, tmp_path):
    for name in NAMES:
        result = embed_corpus(bilm, [[], []], tmp_path / name)
        assert result.n_sentences == 2 and result.n_tokens == 0
        found = read_arrays(tmp_path / name)
        shapes = [array.shape for array in found.values()]
        assert shapes == [] if name == "out.parquet" else [(3, 0, bilm.width)] * 2


def test_whitespace_tokens_get_zeros(bilm, tmp_path):
    """As the elmo component has it: words behave as if the whitespace were not there."""
    embed_corpus(bilm, [["a", " ", "b", "\n", ""]], tmp_path / "out.npz")
    (found,) = read_arrays(tmp_path / "out.npz").values()
    (words,) = bilm.embed([["a", "b"]], initial_state="warm")
    assert numpy.abs(found[:, [0, 2]] - words).max() < 1e-5
    assert not found[:, [1, 3, 4]].any()


def test_zero_and_carried_states(bilm, tmp_path):
    for initial_state in ("zero", "carry"):
        embed_corpus(
            bilm,
            SENTENCES,
            tmp_path / "out.npz",
            initial_state=initial_state,
            batch_tokens=16,
            overwrite=True,
        )
        expected = bilm.embed(SENTENCES, initial_state=initial_state)
        assert_alike(read_arrays(tmp_path / "out.npz"), expected)


def make_contents(tmp_path, bilm, sentences):
    spool = make_spool((Sentence("", words) for words in sentences), tmp_path / "spool")
    dtype = numpy.dtype("float32")
    return Contents(spool, 3, bilm.width, dtype, keep_sentences=True, settings="{}")


def test_an_npz_file_beyond_4_gib(bilm, tmp_path):
    """A hole in the file takes the place of what was written before."""
    begin = 2**32 + 100
    with (tmp_path / "output").open("wb") as file:
        file.truncate(begin)
    (tmp_path / "directory").touch()
    state = {"size": begin, "directory_size": 0, "n_entries": 0}
    sink = npz.NpzSink(make_contents(tmp_path, bilm, [["a"]]), tmp_path, state)
    array = numpy.arange(6, dtype="float32").reshape(2, 3)
    sink.write(Block(0, [Sentence("", [])], [array]))
    path = sink.finish()
    sink.close()
    with zipfile.ZipFile(path) as file, file.open("0.npy") as entry:
        assert (numpy.lib.format.read_array(entry) == array).all()


@pytest.mark.slow
def test_an_npz_file_of_many_entries(bilm, tmp_path):
    """More than 16 bits can count."""
    n = 70_000
    sink = npz.NpzSink(make_contents(tmp_path, bilm, [["a"]]), tmp_path)
    array = numpy.zeros((2, 0), dtype="float32")
    sink.write(Block(0, [Sentence("", [])] * n, [array] * n))
    path = sink.finish()
    sink.close()
    with zipfile.ZipFile(path) as file:
        assert file.namelist() == [f"{number}.npy" for number in range(n)]


def test_limits_of_formats_are_told_before_anything_runs(bilm, tmp_path, monkeypatch):
    monkeypatch.setattr(safetensors, "MAX_HEADER_BYTES", 800)
    with pytest.raises(ValueError, match=r"no place for more than \d+ such .* Write .hdf5, .npz"):
        embed_corpus(bilm, SENTENCES, tmp_path / "out.safetensors")
    monkeypatch.setattr(hdf5, "MAX_SENTENCES_BYTES", 100)
    with pytest.raises(ValueError, match=r"The sentences take \S+ bytes; .*--forget-sentences"):
        embed_corpus(bilm, SENTENCES, tmp_path / "out.hdf5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module, name", [("h5py", "out.hdf5"), ("pyarrow", "out.parquet")])
def test_a_missing_package_is_named(bilm, tmp_path, monkeypatch, module, name):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ImportError, match=r"Writing .* files needs .* pip install spacy-elmo\["):
        embed_corpus(bilm, SENTENCES, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_every_format_tells_what_it_was_made_of(bilm, tmp_path):
    for format, sink in SINKS.items():
        path = tmp_path / f"a.{format}"
        embed_corpus(bilm, [["a"]], path)
        assert json.loads(sink.stored_settings(path))["format"] == format
