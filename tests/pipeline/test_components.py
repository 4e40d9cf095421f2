"""Every component of spaCy that takes a ``tok2vec`` learns on a frozen biLM, and keeps what it
learned when it is saved and when its listener is replaced."""

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy
import pytest
import spacy
from spacy.kb import InMemoryLookupKB
from spacy.tokens import Span
from spacy.training import Example

from spacy_elmo.models import layer_weights

from .conftest import JOINED, LISTENER, parameters, same

TEXTS = ["I like green eggs", "We saw old ships"]
#: Always in the batch: no token, one token, only spaces, which is one token as well.
ODD_TEXTS = ["", "Yes", " \n "]


class Case(NamedTuple):
    """A component: its factory, its config beside ``tok2vec``, and annotations of both texts, of
    one token and of none."""

    factory: str
    config: Dict[str, Any]
    gold: Tuple[Dict[str, Any], Dict[str, Any]]
    one_token: Dict[str, Any]
    empty: Dict[str, Any] = {}


def textcat(architecture: str, factory: str = "textcat", **model: Any) -> Case:
    labels = {"FOOD": 1.0, "OTHER": 0.0}, {"FOOD": 0.0, "OTHER": 1.0}
    model = {"@architectures": architecture, **model}
    gold = tuple({"cats": cats} for cats in labels)
    return Case(factory, {"model": model}, gold, gold[1], gold[1])


def spans(factory: str, key: str, **model: Any) -> Case:
    gold = {"spans": {key: [(2, 6, "X")]}}, {"spans": {key: [(3, 10, "Y")]}}
    return Case(factory, {"model": model}, gold, {"spans": {key: []}}, {"spans": {key: []}})


#: spaCy's reduction to the maximum, the first or the last row refuses Docs without tokens.
REDUCE = {
    f"use_reduce_{kind}": kind == "mean" for kind in ("first", "last", "max", "mean")
}  # fmt: skip
BOW = {
    "@architectures": "spacy.TextCatBOW.v3",
    "exclusive_classes": True,
    "length": 64,
    "ngram_size": 1,
    "no_output_layer": False,
}
LEMMAS = {"lemmas": ["I", "like", "green", "egg"]}, {"lemmas": ["we", "see", "old", "ship"]}
ENTITIES = {"entities": [(0, 1, "PRON")]}, {"entities": [(0, 2, "PRON")]}
LINKS = (
    {**ENTITIES[0], "links": {(0, 1): {"Q1": 1.0, "Q2": 0.0}}, "sent_starts": [1, 0, 0, 0]},
    {**ENTITIES[1], "links": {(0, 2): {"Q1": 0.0, "Q2": 1.0}}, "sent_starts": [1, 0, 0, 0]},
)
TREE = {"heads": [1, 1, 3, 1], "deps": ["nsubj", "ROOT", "amod", "obj"]}
MORPHS = {"morphs": ["A=1", "B=2", "A=1", ""], "pos": ["NOUN", "VERB", "ADJ", "NOUN"]}

CASES = {
    "tagger": Case("tagger", {}, ({"tags": list("NVJN")},) * 2, {"tags": ["N"]}),
    "morphologizer": Case("morphologizer", {}, (MORPHS,) * 2, {"morphs": [""], "pos": ["X"]}),
    "senter": Case("senter", {}, ({"sent_starts": [1, 0, 0, 0]},) * 2, {"sent_starts": [1]}),
    "parser": Case("parser", {"min_action_freq": 1}, (TREE,) * 2, {"heads": [0], "deps": ["ROOT"]}),
    "ner": Case("ner", {}, ENTITIES, {"entities": []}, {"entities": []}),
    "spancat": spans("spancat", "sc"),
    "spancat_singlelabel": spans("spancat_singlelabel", "sc"),
    "span_finder": spans("span_finder", "sc"),
    "trainable_lemmatizer": Case(
        "trainable_lemmatizer", {"min_tree_freq": 1}, LEMMAS, {"lemmas": ["x"]}
    ),
    "entity_linker": Case("entity_linker", {}, LINKS, {"sent_starts": [1]}),
    "TextCatEnsemble.v2": textcat("spacy.TextCatEnsemble.v2", linear_model=BOW),
    "TextCatCNN.v2": textcat("spacy.TextCatCNN.v2", exclusive_classes=True),
    "TextCatReduce.v1": textcat("spacy.TextCatReduce.v1", exclusive_classes=True, **REDUCE),
    "TextCatParametricAttention.v1": textcat(
        "spacy.TextCatParametricAttention.v1", exclusive_classes=True
    ),
    "textcat_multilabel": textcat(
        "spacy.TextCatReduce.v1", "textcat_multilabel", exclusive_classes=False, **REDUCE
    ),
}

# Half of them with a listener alone, half with ELMo at both ends of an encoder of their own: every
# kind of model gets each at some place, and the table stays quick.
JOINED_CASES = [
    "morphologizer",
    "ner",
    "spancat",
    "entity_linker",
    "TextCatEnsemble.v2",
    "TextCatParametricAttention.v1",
    "textcat_multilabel",
]


@pytest.mark.filterwarnings("ignore:.*W036")
@pytest.mark.parametrize("name", CASES)
def test_a_component_learns_and_keeps_its_predictions(make_nlp, name, tmp_path):
    case, nlp = CASES[name], make_nlp(lang="xx")
    n_mixes = 2 if name in JOINED_CASES else 1
    add(nlp, case, JOINED if n_mixes == 2 else LISTENER)
    component = nlp.get_pipe(case.factory)
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: examples(nlp, case))
    optimizer.learn_rate = 0.005
    before = parameters(nlp)
    history = []
    for _ in range(8):
        losses = {}
        nlp.update(examples(nlp, case), sgd=optimizer, losses=losses)
        history.append(float(losses[case.factory]))
        assert losses["elmo"] == 0.0
    assert history[-1] < history[0]
    assert same(parameters(nlp), before)
    mixes = layer_weights(component)
    assert len(mixes) == n_mixes
    for mix in mixes:
        assert mix.gamma != 1.0 and len(set(mix.weights)) > 1
        assert sum(mix.weights) == pytest.approx(1)

    expected = outputs(nlp, case)
    nlp.to_disk(tmp_path / "saved")
    from_bytes = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for loaded in (spacy.load(tmp_path / "saved"), from_bytes):
        assert_alike(outputs(loaded, case), expected, tolerance=0)

    # Pitfall 18: a stand-in for the listener predicts the same, and its config says what it is.
    listening = dict(nlp.get_pipe("elmo").listener_map)
    nlp.replace_listeners("elmo", case.factory, ["model.tok2vec"])
    assert case.factory in listening and case.factory not in nlp.get_pipe("elmo").listener_map
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path / "replaced")
    for replaced in (nlp, spacy.load(tmp_path / "replaced")):
        assert_alike(outputs(replaced, case), expected, tolerance=1e-5)


def add(nlp, case: Case, tok2vec: Dict[str, Any]) -> None:
    model = {**case.config.get("model", {}), "tok2vec": tok2vec}
    component = nlp.add_pipe(case.factory, config={**case.config, "model": model})
    if case.factory == "entity_linker":
        component.set_kb(knowledge_base)


def knowledge_base(vocab) -> InMemoryLookupKB:
    kb = InMemoryLookupKB(vocab, entity_vector_length=3)
    kb.add_entity("Q1", freq=1, entity_vector=[1, 0, 0])
    kb.add_entity("Q2", freq=1, entity_vector=[0, 1, 0])
    for alias in ("I", "We"):
        kb.add_alias(alias, entities=["Q1", "Q2"], probabilities=[0.4, 0.4])
    return kb


def examples(nlp, case: Case) -> List[Example]:
    gold = [*case.gold, case.empty, case.one_token, case.one_token]
    return [
        Example.from_dict(nlp.make_doc(text), annotation)
        for text, annotation in zip(TEXTS + ODD_TEXTS, gold)
    ]


def outputs(nlp, case: Case) -> List[Any]:
    """What the component's model gives for all texts, before anything is rounded to a label."""
    component = nlp.get_pipe(case.factory)
    docs = [example.predicted for example in examples(nlp, case)]
    if case.factory == "entity_linker":
        for doc in docs[:2]:
            doc.set_ents([Span(doc, 0, 1, label="PRON")])
    if "elmo" in nlp.pipe_names:
        docs = list(nlp.get_pipe("elmo").pipe(docs))
    if case.factory in ("parser", "ner"):
        return [component.model.get_ref("tok2vec").predict(docs)]
    if case.factory.startswith("spancat"):
        return [component.predict(docs)[1]]
    output = component.model.predict(docs)
    return output if isinstance(output, list) else [output]


def assert_alike(found: List[Any], expected: List[Any], tolerance: float) -> None:
    assert len(found) == len(expected) and any(array.any() for array in expected)
    for left, right in zip(found, expected):
        assert numpy.allclose(left, right, rtol=0, atol=tolerance)
