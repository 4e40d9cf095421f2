"""What all tests share: a toy biLM of unusual sizes, and the place of reference data."""

import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import pytest
import torch

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.kernel import variants

# Toy sizes are too small to share among threads, here and in the processes that tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

ROOT = Path(__file__).parent.parent

#: Every size is different and none is a default, so that no two can be taken for each other.
TOY_SIZES: Dict[str, Any] = {
    "filters": [[1, 4], [2, 8], [3, 17]],
    "char_embedding_dim": 5,
    "projection_dim": 12,
    "cell_size": 20,
    "n_layers": 2,
    "n_highway": 1,
}


#: Dictionaries of biLMs that have tables of words or of code points.
TOY_WORDS = ["<S>", "</S>", "<UNK>", "the", "bank"]
TOY_CODE_POINTS = ["<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>", "a", "b", "é"]


def random_bilm(seed: int = 0, scale: float = 3.0, **sizes: Any) -> BiLM:
    """A biLM with random weights that are large enough to reach the clips."""
    torch.manual_seed(seed)
    config = BiLMConfig.from_dict({**TOY_SIZES, **sizes})
    bilm = BiLM(
        config,
        words=TOY_WORDS if config.words else None,
        code_points=TOY_CODE_POINTS if config.code_points else None,
    )
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.uniform_(-scale, scale).mul_(parameter.shape[-1] ** -0.5)
    return bilm.eval()


@pytest.fixture(autouse=True, scope="session")
def shard_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep no tokenized text in the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPACY_ELMO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def make_bilm() -> Callable[..., BiLM]:
    return random_bilm


@pytest.fixture
def bilm(make_bilm: Callable[..., BiLM]) -> BiLM:
    return make_bilm()


@pytest.fixture(params=["compiled", "torch"])
def either_recurrence(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """LSTM layers run by the compiled recurrence, and by torch's operations."""
    if request.param == "torch":
        monkeypatch.setattr("spacy_elmo.bilm.lstm.find_variant", lambda dtype, device: None)
    elif not variants():
        pytest.skip("the package was built without a C compiler (GCC or Clang)")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference fixtures and data, which is no part of the repository."""
    path = Path(os.environ.get("SPACY_ELMO_SHARED", ROOT.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"reference data not found at {path} (set SPACY_ELMO_SHARED)")
    return path
