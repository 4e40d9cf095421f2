"""Arguments that are not as expected are named before anything is read or written."""

import io
import os
import sys

import pytest

from spacy_elmo.embedding import embed_corpus
from spacy_elmo.embedding.layers import layer_weights, name_layers


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"layers": "bottom"}, "layers is 'bottom'; expected 'all', 'top', 'average', the number"),
        ({"layers": 3}, r"layers is 3; expected a number from 0 \(the token layer\) to 2"),
        ({"layers": -1}, "layers is -1"),
        ({"layers": [1, 2]}, r"weights of the layers are \[1.0, 2.0\]; this biLM has 3 layers"),
        ({"layers": [float("nan"), 0, 1]}, r"are \[nan, 0.0, 1.0\]; expected finite numbers"),
        ({"layers": [1, float("inf")]}, r"are \[1.0, inf\]; expected finite numbers"),
        ({"precision": "int8"}, "precision is 'int8'; expected float32 or float16"),
        ({"initial_state": "cold"}, "initial_state is 'cold'; expected one of zero, warm, carry"),
        ({"batch_tokens": 0}, "batch_tokens is 0; expected 1 or more"),
        ({"format": "csv"}, "format is 'csv'; expected one of hdf5, npz, safetensors, parquet"),
        ({"output": "out.csv"}, "The output is .*; expected a name that ends in .hdf5, .h5, .npz"),
        ({"output": "."}, "expected a name that ends in"),
        ({"output": ".", "format": "npz"}, "is a directory; expected the path of a file"),
        ({"output": io.BytesIO()}, "A stream has no name .*: give it .* npz, safetensors, parquet"),
        ({"output": io.BytesIO(), "format": "hdf5"}, "hdf5 cannot be written to a stream"),
        ({"output": io.BytesIO(), "format": "npz", "resume": True}, "a stream cannot be resumed"),
    ],
)
def test_faults(bilm, tmp_path, settings, message):
    output = settings.pop("output", "out.npz") if "output" in settings else "out.npz"
    output = tmp_path / output if isinstance(output, str) else output
    with pytest.raises(ValueError, match=message):
        embed_corpus(bilm, [["a"]], output, **settings)
    assert not list(tmp_path.iterdir())


def test_weights_of_layers():
    assert layer_weights("all", 3) is None
    assert layer_weights("top", 3) == layer_weights(2, 3) == [0, 0, 1]
    assert layer_weights("average", 4) == [0.25] * 4
    assert layer_weights((1, 2), 2) == [1, 2]


@pytest.mark.parametrize("layers", ["top", "average", 0, 1, [0.5, 0.2, 0.3], [2.0, 0.0, 0.0]])
def test_weights_are_told_as_they_were_given(layers):
    assert name_layers(layer_weights(layers, 3)) == layers


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with a path")
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_pipe_is_not_replaced(bilm, tmp_path, overwrite):
    os.mkfifo(tmp_path / "out.npz")
    (tmp_path / "link.npz").symlink_to("out.npz")
    for name in ("out.npz", "link.npz"):
        message = f"{name} is a pipe or a device; expected the path of a file, or - .* --format"
        with pytest.raises(ValueError, match=message):
            embed_corpus(bilm, [["a"]], tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "out.npz").is_fifo() and len(list(tmp_path.iterdir())) == 2


def test_the_target_of_a_link_is_written(bilm, tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link.npz", tmp_path / "there" / "target.npz"
    link.symlink_to(target)
    embed_corpus(bilm, [["a"]], link)
    before = target.read_bytes()
    with pytest.raises(FileExistsError, match="target.npz exists"):
        embed_corpus(bilm, [["a"]], link)
    embed_corpus(bilm, [["b"]], link, overwrite=True)
    assert link.is_symlink() and list((tmp_path / "there").iterdir()) == [target]
    assert target.read_bytes() != before
