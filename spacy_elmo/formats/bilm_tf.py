"""The format of bilm-tf and AllenNLP: ``options.json`` and a HDF5 file of weights.

TensorFlow adds 1.0 to the forget gate at run time, which the file does not contain; a biLM read
from it has ``forget_bias`` 1.0. The file has no place for the warm state: it is not kept. A biLM's
metadata becomes a field of ``options.json``, whose readers pass over fields they do not know.
"""

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import numpy
import torch

from ..bilm import BiLM
from .atomic import write_together
from .bilm_tf_datasets import Row, cell_path, dataset_table
from .bilm_tf_options import (
    config_from_options,
    metadata_from_options,
    options_from_bilm,
    require_sayable,
)
from .checks import check_counts, check_finite, check_names, check_shape, listed, read_json_object
from .format import Format
from .state import new_bilm, state_tensors

OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"
# The name in the archives of the NLPL repository, whose reader takes it before any other.
NLPL_WEIGHTS_FILE = "model.hdf5"
OPTIONS_PATTERN = "*options*.json"
WEIGHTS_PATTERNS = ("*.hdf5", "*.h5")
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
FORGET_BIAS = 1.0

# Groups that hold the biLM; what else a file has (a softmax, say) is not ours to judge.
KNOWN = re.compile(r"char_embed$|CNN(_|/)|RNN_")
# With one layer TensorFlow names the cell without its number. bilm-tf dumps it so, but its own
# reader and AllenNLP's look for Cell0, which is what we write.
ONE_LAYER = re.compile(r"RNN_([01])/RNN/(?:MultiRNNCell/)?LSTMCell/")


def read(path: Path) -> BiLM:
    """The biLM in a directory, or in one HDF5 file beside its options.

    :raises ValueError: a file is damaged, or the two do not fit each other; the message names
        the file, the dataset or field, and both shapes.
    :raises ImportError: h5py is not installed.
    """
    options_file, weights_file = find_files(path)
    options = read_json_object(options_file)
    config = config_from_options(options, options_file)
    with _reading(weights_file) as file:
        stored = _list_datasets(file, weights_file)
        check_counts(weights_file, "dataset", len(stored), config)
        # The options do not say whether there is a projection where sizes are equal.
        config = replace(
            config,
            token_projection=config.token_projection or _has_any(stored, "CNN_proj/"),
            cell_projection=config.cell_projection or _has_any(stored, r"RNN_\d/.*/W_P_0$"),
        )
        if config.n_layers == 1:
            stored = _number_one_layer(stored)
        table = dataset_table(config)
        why = f"{options_file.name} and which projections the file has"
        expected = {row.dataset: row.shape for row in table}
        found = [name for name in stored if KNOWN.match(name)]
        check_names(weights_file, "dataset", found, expected, why)
        for row in table:
            with _one_message(weights_file, f"dataset {row.dataset!r}"):
                shape, dtype = stored[row.dataset].shape, stored[row.dataset].dtype
            check_shape(weights_file, "dataset", row.dataset, shape, row.shape, why)
            if (dtype.kind, dtype.itemsize) != ("f", 4):
                raise ValueError(
                    f"{weights_file}: dataset {row.dataset!r} is of type {dtype}; expected float32."
                )
        bilm = new_bilm(config)
        parameters = dict(bilm.named_parameters())
        for row in table:
            _fill(parameters, row, stored[row.dataset], weights_file)
    bilm.metadata = metadata_from_options(options, options_file)
    return bilm


def write(bilm: BiLM, path: Path) -> None:
    """Write ``options.json`` and ``weights.hdf5``, both or neither.

    The warm state is not kept. A projection between equal sizes is written, but bilm-tf itself
    would not read it (AllenNLP does).

    :raises ValueError: the biLM has a part that the format does not know; or the forget gate's
        bias is one that TensorFlow does not add, so that the file would give other vectors; or a
        weight is NaN or infinite; or the path is a file, or a directory with weights that readers
        would take in place of these.
    :raises ImportError: h5py is not installed.
    """
    require_sayable(bilm.config)
    if bilm.config.forget_bias != FORGET_BIAS:
        raise ValueError(
            f"biLM setting 'forget_bias' is {bilm.config.forget_bias}; a bilm-tf file can only "
            f"hold a biLM with {FORGET_BIAS}, which its readers add. Use the native format."
        )
    if (path / NLPL_WEIGHTS_FILE).exists():
        raise ValueError(
            f"{path} holds {NLPL_WEIGHTS_FILE}, which readers take in place of {WEIGHTS_FILE}; "
            "expected another directory."
        )
    tensors = state_tensors(bilm, path)
    options = json.dumps(options_from_bilm(bilm), indent=2, ensure_ascii=False) + "\n"

    def write_options(file: Path) -> None:
        file.write_text(options, encoding="utf-8")

    def write_weights(file: Path) -> None:
        with _writing(file) as hdf5:
            for row in dataset_table(bilm.config):
                arrays = [tensors[name].numpy() for name in row.parameters]
                hdf5.create_dataset(row.dataset, data=row.transform.to_dataset(*arrays))

    write_together(path, {OPTIONS_FILE: write_options, WEIGHTS_FILE: write_weights})


def matches(path: Path) -> bool:
    """Does a directory hold options and weights, or is this one HDF5 file?"""
    if path.is_dir():
        return bool(_options_files(path) and _weights_files(path))
    with path.open("rb") as file:
        is_hdf5 = file.read(len(HDF5_MAGIC)) == HDF5_MAGIC
    return is_hdf5 or any(path.match(pattern) for pattern in WEIGHTS_PATTERNS)


def find_files(path: Path) -> Tuple[Path, Path]:
    """The options and the weights of a directory, or of one HDF5 file.

    :raises ValueError: which files are meant is not clear; the message names the candidates.
    """
    directory = path if path.is_dir() else path.parent
    weights_file = _choose_weights(path) if path.is_dir() else path
    found = _options_files(directory)
    # AllenNLP publishes pairs like elmo_..._options.json and elmo_..._weights.hdf5.
    pair = directory / f"{weights_file.stem.replace('weights', 'options')}.json"
    for choice in (pair, directory / OPTIONS_FILE, *(found if len(found) == 1 else ())):
        if choice in found:
            return choice, weights_file
    names = listed(file.name for file in found) or "none"
    raise ValueError(
        f"{weights_file} needs its options beside it, as {OPTIONS_FILE} or as the only "
        f"{OPTIONS_PATTERN}; in {directory} there is: {names}."
    )


def _choose_weights(directory: Path) -> Path:
    files = _weights_files(directory)
    if len(files) == 1:
        return files[0]
    # Embeddings that the same tools wrote may lie beside the weights.
    with_weights = []
    for file in files:
        with _reading(file) as hdf5:
            if "char_embed" in hdf5:
                with_weights.append(file)
    if len(with_weights) > 1 and directory / NLPL_WEIGHTS_FILE in with_weights:
        return directory / NLPL_WEIGHTS_FILE
    if len(with_weights) != 1:
        names = listed(file.name for file in with_weights or files)
        raise ValueError(
            f"{directory} has {len(with_weights)} HDF5 files with the dataset 'char_embed'; "
            f"expected one. Give the path of the file instead, one of: {names}."
        )
    return with_weights[0]


def _options_files(directory: Path) -> List[Path]:
    return sorted(directory.glob(OPTIONS_PATTERN))


def _weights_files(directory: Path) -> List[Path]:
    return sorted(file for pattern in WEIGHTS_PATTERNS for file in directory.glob(pattern))


def _list_datasets(file: Any, path: Path) -> Dict[str, Any]:
    import h5py

    stored: Dict[str, Any] = {}

    def collect(name: Any, item: Any) -> None:
        # A name that is not UTF-8 comes as bytes.
        if isinstance(item, h5py.Dataset) and isinstance(name, str):
            stored[name] = item

    with _one_message(path, "its list of datasets"):
        file.visititems(collect)
    if "embedding" in stored and "char_embed" not in stored:
        raise ValueError(
            f"{path} has a dataset 'embedding' but no 'char_embed': it holds word vectors, not "
            "the weights of a character model, which is what is read from such files."
        )
    return stored


def _has_any(names: Mapping[str, Any], pattern: str) -> bool:
    return any(re.match(pattern, name) for name in names)


def _number_one_layer(stored: Mapping[str, Any]) -> Dict[str, Any]:
    numbered: Dict[str, Any] = {}
    for name, dataset in stored.items():
        match = ONE_LAYER.match(name)
        full = f"{cell_path(int(match[1]), 0)}/{name[match.end() :]}" if match else name
        numbered[name if full in stored else full] = dataset
    return numbered


def _fill(parameters: Mapping[str, torch.Tensor], row: Row, dataset: Any, path: Path) -> None:
    with _one_message(path, f"dataset {row.dataset!r}"):
        array = numpy.asarray(dataset[()], dtype=numpy.float32)
    check_finite(path, "dataset", row.dataset, torch.from_numpy(array))
    with torch.no_grad():
        for name, values in zip(row.parameters, row.transform.to_parameters(array)):
            parameters[name].copy_(torch.from_numpy(values))


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    h5py = _import_h5py(path)
    with _one_message(path, "its start"):
        file = h5py.File(path, "r")
    with file:
        yield file


@contextmanager
def _writing(path: Path) -> Iterator[Any]:
    # In memory: on a full disk the HDF5 library leaves open objects that crash the process.
    with _import_h5py(path).File(path, "w", driver="core", backing_store=False) as file:
        yield file
        file.flush()
        image = file.id.get_file_image()
    path.write_bytes(image)


def _import_h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            f"{path} is a HDF5 file, for which h5py is needed: pip install 'spacy-elmo[hdf5]'"
        ) from error
    return h5py


@contextmanager
def _one_message(path: Path, place: str) -> Iterator[None]:
    try:
        yield
    # What h5py raises depends on which part of a file is damaged.
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is no complete HDF5 file; {place} cannot be read, so it was cut short, "
            f"damaged, or is something else ({error})."
        ) from error


BILM_TF = Format(
    name="bilm-tf",
    contents=f"{OPTIONS_FILE} (or {OPTIONS_PATTERN}) and {WEIGHTS_PATTERNS[0]}",
    patterns=(OPTIONS_PATTERN, *WEIGHTS_PATTERNS),
    matches=matches,
    read=read,
    write=write,
)
