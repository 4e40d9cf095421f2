"""Pipelines around a toy biLM that was saved in the native format."""

from pathlib import Path
from typing import Any, Callable

import pytest
import spacy
import torch
from spacy.language import Language
from spacy.training import Example

from spacy_elmo import BiLM

from ..conftest import TOY_SIZES, random_bilm

WIDTH = 2 * TOY_SIZES["projection_dim"]
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1", "width": WIDTH, "upstream": "elmo"}
#: ELMo at both ends of an encoder of the component's own.
JOINED = {
    "@architectures": "spacy-elmo.Tok2VecElmo.v1",
    "width": WIDTH,
    "upstream": "elmo",
    "join": "both",
    "embed": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 10,
        "attrs": ["NORM", "SHAPE"],
        "rows": [50, 20],
        "include_static_vectors": False,
    },
    "encode": {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": 14,
        "window_size": 1,
        "maxout_pieces": 2,
        "depth": 1,
    },
}

TEXTS = ["Two birds sang .", "I deposited it at the bank of the river .", "Yes"]

TRAIN_DATA = [
    ("I like green eggs", {"tags": ["N", "V", "J", "N"], "entities": []}),
    ("Ana eats blue ham in Rome", {"tags": ["N", "V", "J", "N", "P", "N"],
                                   "entities": [(0, 3, "PERSON"), (21, 25, "GPE")]}),
    ("Rome likes Ana", {"tags": ["N", "V", "N"],
                        "entities": [(0, 4, "GPE"), (11, 14, "PERSON")]}),
    ("They book a flight to Oslo", {"tags": ["N", "V", "D", "N", "P", "N"],
                                    "entities": [(22, 26, "GPE")]}),
]  # fmt: skip


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a toy biLM."""
    path = tmp_path_factory.mktemp("weights") / "toy"
    random_bilm(seed=7).save_pretrained(path)
    return path


@pytest.fixture
def make_nlp(weights: Path) -> Callable[..., Language]:
    """A blank pipeline with ``elmo`` and then the named components, which listen. One of language
    "xx" is made in a fraction of the time that the English tokenizer takes."""

    def make(*components: str, lang: str = "en", **config: Any) -> Language:
        nlp = spacy.blank(lang)
        model = {"source": str(weights), **config.pop("model", {})}
        nlp.add_pipe("elmo", config={"model": model, **config})
        for name in components:
            nlp.add_pipe(name, config={"model": {"tok2vec": LISTENER}})
        return nlp

    return make


def make_examples(nlp: Language) -> list:
    return [Example.from_dict(nlp.make_doc(text), gold) for text, gold in TRAIN_DATA]


def train(nlp: Language, steps: int = 10, learn_rate: float = 0.001, **kwargs: Any) -> dict:
    """Initialize and update; the losses of the last step."""
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    optimizer.learn_rate = learn_rate
    losses: dict = {}
    for _ in range(steps):
        losses = {}
        nlp.update(make_examples(nlp), sgd=optimizer, losses=losses, **kwargs)
    return losses


def bilm_of(nlp: Language, name: str = "elmo") -> BiLM:
    from spacy_elmo.models.elmo import bilm_of as get

    return get(nlp.get_pipe(name).model)


def parameters(nlp: Language, name: str = "elmo") -> dict:
    return {key: value.clone() for key, value in bilm_of(nlp, name).state_dict().items()}


def same(left: dict, right: dict) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)
