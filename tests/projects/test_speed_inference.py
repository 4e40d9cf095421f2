"""The part of the speed project on vectors, at a tiny size. No test depends on how fast the machine
is."""

import gzip
import json
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from projects.speed.scripts import (
    make_text,
    measure_documents,
    measure_inference,
    report,
    report_inference,
    textbook,
)
from spacy_elmo.training import read_config
from spacy_elmo.training.templates import make_template

from ..bilm.test_embed import SENTENCES, assert_close
from ..conftest import TOY_SIZES


def run(module, monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["script", *map(str, args)])
    module.main()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inference")
    text = folder / "text.txt"
    text.write_text(make_text.make_text(n_words=100, n_tokens=400, seed=0), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure_inference, "SIZES", {"small": TOY_SIZES})
        patch.setattr(measure_inference, "RUN_TIME", 0.001)
        options = ["--sizes", "small", "--rounds", 2, "--tokens", 300, "--calls", 5]
        output = ["--text", text, "--output", folder / "json" / "inference.json"]
        run(measure_inference, patch, *output, *options, "--longest", 100)
    return folder / "json"


@pytest.fixture
def inference(measured):
    return json.loads((measured / "inference.json").read_text())


def test_the_textbook_pass_gives_the_same_vectors(bilm):
    found = [layers.numpy() for layers in textbook.embed(bilm, SENTENCES)]
    assert_close(found, bilm.embed(SENTENCES))


def test_all_is_measured(inference):
    (size,) = inference["sizes"]
    systems = {(case["system"], case["precision"]) for case in size["systems"]}
    own = {(name, p) for name in ("BiLM.embed", "nlp.pipe, elmo") for p in ("float32", "bfloat16")}
    others = {("textbook", "float32"), ("nlp.pipe, HashEmbedCNN", "float32")}
    assert systems == own | others
    for case in size["systems"]:
        assert case["warm_tokens_per_second"] > 0 and len(case["warm_seconds_by_round"]) == 2
        # Only a biLM knows words from before.
        assert (case["cold_tokens_per_second"] is not None) == (
            "BiLM" in case["system"] or "elmo" in case["system"]
        )
    assert 300 <= size["n_tokens"] < 350
    assert size["latency"]["p50_ms"] <= size["latency"]["p95_ms"]
    assert [batch["batch_size"] for batch in size["batches"]] == list(measure_inference.BATCH_SIZES)
    assert [document["n_tokens"] for document in inference["documents"]] == [10, 100]
    assert inference["import_seconds"] > 0 and size["load_seconds"] > 0


def test_the_flops_a_token_are_those_of_the_lstms(bilm, monkeypatch):
    # torch counts its own operations, those that are not packed.
    monkeypatch.setattr("spacy_elmo.bilm.lstm.find_variant", lambda dtype, device: None)
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
    n_tokens = 40
    bilm.embed([["a"] * n_tokens])
    with FlopCounterMode(display=False) as counter:
        bilm.embed([["a"] * n_tokens])
    assert counter.get_total_flops() == n_tokens * measure_inference.count_flops(bilm.config)


def test_the_sizes_are_those_of_init_bilm(tmp_path):
    for size in ("sm", "original"):
        path = tmp_path / f"{size}.cfg"
        path.write_text(make_template(size), encoding="utf-8")
        sizes = read_config(path, {})["bilm"]
        for name, value in measure_inference.SIZES[size].items():
            assert sizes[name] == value
    assert measure_documents.SIZES == measure_inference.SIZES["sm"]


def test_the_report_judges_what_is_to_be_reached(
    inference, measured, tmp_path, monkeypatch, capsys
):
    run(report, monkeypatch, measured, "--output", tmp_path / "speed.md")
    assert (tmp_path / "speed.png").read_bytes()[:4] == b"\x89PNG"
    markdown = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert markdown in capsys.readouterr().out
    for text in ("| small | BiLM.embed | bfloat16 |", "| small | textbook |", "| sm | 100 |"):
        assert text in markdown
    (size,) = inference["sizes"]
    size["products_flop_per_second"]["float32"]["512"] = 1000.0
    size["flops_a_token"] = 10
    rates = {"BiLM.embed": 50.0, "nlp.pipe, elmo": 42.0, "textbook": 2.5}
    for case in size["systems"]:
        case["warm_tokens_per_second"] = rates.get(case["system"], 1.0)
    notes = list(report_inference.write_notes(inference))
    assert "- `small` float32: times the textbook 20.00, to reach 20: **reached**." in notes
    assert "- `small` float32: ratio, 512 rows 0.50, to reach 0.5: **reached**." in notes
    assert "- `small` bfloat16: times the textbook 20.00, to reach 35: **not reached**." in notes
    assert "- `small`: `nlp.pipe` to `BiLM.embed` 0.84, to reach 0.85: **not reached**." in notes


@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.gz", "a.txt"])
def test_text_is_read_line_by_line_or_as_conllu(name, tmp_path):
    path = tmp_path / name
    conllu = "# text\n1-2\tAint\n1\tAi\tx\n2\tnt\tx\n2.1\tno\n\n1\tYes\tx\n"
    text = "Ai nt\n\nYes\n" if name == "a.txt" else conllu
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    assert measure_inference.read_sentences(path, 99) == [["Ai", "nt"], ["Yes"]]
    assert measure_inference.read_sentences(path, 1) == [["Ai", "nt"]]


def test_a_text_without_a_sentence_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"a.txt has no sentence; expected a line of text, or Co"):
        measure_inference.read_sentences(tmp_path / "a.txt", 9)


def test_products_are_rated(monkeypatch, bilm):
    monkeypatch.setattr(measure_inference, "RUN_TIME", 0.001)
    assert measure_inference.rate_of_products(bilm.config, 4, torch.float32) > 0
