"""The benchmark: readers, scores with closed forms, restart, report, and the smoke workflow."""

import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from shutil import copytree, ignore_patterns

import numpy
import pytest
import spacy
from spacy.training import Corpus
from spacy.util import load_model_from_config

from projects.benchmark_en.scripts import (
    benchmark,
    configs,
    figure,
    make_data,
    prepare,
    readers,
    report,
    results,
    run,
    semcor,
    senses,
    source,
)
from projects.benchmark_en.scripts.files import find_bytes, read_text, write_json
from projects.benchmark_en.scripts.readers import Sentence
from projects.benchmark_en.scripts.semcor import SenseExample
from projects.benchmark_en.scripts.settings import SYSTEMS, Settings, Task, read_settings

from ..conftest import ROOT

PROJECT = ROOT / "projects" / "benchmark_en"
SMOKE = read_settings(PROJECT / "configs" / "smoke.cfg")


def make_settings(**training):
    names = ("upos", "wnut17")
    tasks = [task for task in SMOKE.tasks if task.name in names]
    return Settings(["hash", "elmo_input", "elmo", "layer_1"], 1, training, tasks)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_data.make_data(folder)
    return folder


@pytest.fixture(scope="module")
def corpus(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for task in make_settings().tasks:
        prepare.convert(task, data, folder)
    return folder


# Data


@pytest.mark.parametrize("ending, compress", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_files_are_found_compressed_or_not(tmp_path, ending, compress):
    text = "one\r\ntwo\n"
    (tmp_path / "a").write_bytes(text.encode())
    (tmp_path / f"b{ending}").write_bytes(compress(text.encode()))
    assert read_text(tmp_path, "a") == read_text(tmp_path, "b") == "one\ntwo\n"
    assert find_bytes(tmp_path, "c") is None
    with pytest.raises(FileNotFoundError, match=r"has no c \(plain.*spacy project assets.*--vars"):
        read_text(tmp_path, "c")


def test_conllu_gives_words_not_surface_tokens():
    text = """# text = don't go
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tmissing\t_\tX\tX\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
"""
    first, second = readers.parse_conllu(text)
    assert first.words == ["do", "n't", "go"] and second.words == ["#"]
    assert first.upos == ["AUX", "PART", "VERB"] and first.xpos == ["VBP", "RB", "VB"]
    assert first.heads == [2, 2, 2] and first.deps == ["aux", "advmod", "ROOT"]


def test_io_tags_become_iob2():
    tags = ["O", "I-PER", "I-PER", "I-LOC", "O", "I-LOC", "B-LOC", "I-LOC"]
    expected = ["O", "B-PER", "I-PER", "B-LOC", "O", "B-LOC", "B-LOC", "I-LOC"]
    assert readers.to_iob2(tags) == expected


def test_columns_may_be_parted_by_tab_or_space():
    for text in ("#\tO\nAnn Lee\tB-person\n\n\nHi\tO", "#\tO\nAnn Lee\tB-person\n \nHi O\n"):
        first, second = readers.parse_columns(text)
        assert first.words == ["#", "Ann Lee"] and first.entities == ["O", "B-person"]
        assert second.words == ["Hi"]


def test_wikigold_is_split_by_documents(tmp_path):
    text = "".join(f"doc{n} I-PER\n\nmore{n} O\n\n-DOCSTART- O\n\n" for n in range(20))
    (tmp_path / "wikigold").mkdir()
    (tmp_path / "wikigold" / "wikigold.conll.txt").write_text(text)
    splits = readers.read_wikigold(tmp_path)
    documents = {split: [s.words[0] for s in found][::2] for split, found in splits.items()}
    assert documents["dev"] == ["doc3", "doc8", "doc13", "doc18"]
    assert documents["test"] == ["doc4", "doc9", "doc14", "doc19"]
    assert len(documents["train"]) == 12 and splits["train"][0].entities == ["B-PER"]


def test_gmb_is_split_by_blocks_of_distinct_sentences(data):
    splits = readers.read_gmb(data)
    words = {split: [" ".join(s.words) for s in found] for split, found in splits.items()}
    assert len(words["dev"]) == len(words["test"]) == 50
    together = [text for found in words.values() for text in found]
    assert len(together) == len(set(together)) > 500
    assert {tag[0] for sentence in splits["test"] for tag in sentence.entities} == set("BIO")


def test_gmb_of_another_form_is_refused():
    with pytest.raises(ValueError, match=r"columns \['Word'\]; expected \['Sentence #'"):
        list(readers.parse_gmb_csv("Word\nHi\n"))


def test_gmb_that_is_split_already_is_taken_as_it_is(tmp_path):
    (tmp_path / "ner_gmb").mkdir()
    for split in readers.SPLITS:
        (tmp_path / "ner_gmb" / f"gmb-{split}.conll").write_text(f"{split}\tNN\tB-geo\n")
    splits = readers.read_gmb(tmp_path)
    assert {split: found[0].words for split, found in splits.items()} == {
        split: [split] for split in readers.SPLITS
    }
    assert splits["dev"][0].entities == ["B-geo"]


@pytest.mark.parametrize("reader", readers.READERS.values())
def test_missing_data_is_named(tmp_path, reader):
    with pytest.raises(FileNotFoundError, match="--vars.data"):
        reader(tmp_path)
    with pytest.raises(FileNotFoundError, match="semcor-words.jsonl nor wsd/semcor3.0.tar"):
        semcor.read_examples(tmp_path)


def test_the_readers_count_what_the_data_sets_have(shared):
    data = shared / "data"
    wnut = readers.read_wnut17(data)
    assert [len(wnut[split]) for split in readers.SPLITS] == [3394, 1009, 1287]
    assert sum(len(s.words) for s in wnut["train"]) == 62_730
    assert sum(t[0] == "B" for s in wnut["test"] for t in s.entities) == 1079
    clinc = readers.read_clinc150(data)
    assert [len(clinc[split]) for split in readers.SPLITS] == [15_000, 3_000, 4_500]
    assert len({s.category for s in clinc["train"]}) == 150
    assert sum(map(len, readers.read_wikigold(data).values())) == 1696
    dev = list(readers.parse_conllu(read_text(data, "ud_english_ewt/en_ewt-ud-dev.conllu")))
    assert (len(dev), sum(len(s.words) for s in dev)) == (2001, 25_147)


def test_docs_keep_the_tokens_and_learn_one_thing(corpus, data):
    nlp = spacy.blank("en")
    sentences = readers.read_ewt(data)["dev"]
    for example, sentence in zip(Corpus(corpus / "upos" / "dev.spacy")(nlp), sentences):
        assert [token.text for token in example.predicted] == sentence.words
        assert [token.tag_ for token in example.reference] == sentence.upos
        assert not example.reference.has_annotation("DEP")
    odd = Sentence(["do", "n't", "U.S.", ".", "go-go"], xpos=["A", "B", "C", "D", "E"])
    doc = prepare.make_doc(nlp.vocab, odd, "xpos")
    assert doc.has_unknown_spaces and [token.tag_ for token in doc] == odd.xpos


def test_thinned_text_is_spread_evenly():
    assert prepare.thin(range(10), 5) == [0, 2, 4, 6, 8]
    assert prepare.thin(range(3), 5) == prepare.thin(range(3), 0) == [0, 1, 2]


def test_categories_have_all_labels(data, tmp_path):
    task = next(task for task in SMOKE.tasks if task.name == "clinc150")
    prepare.convert(task, data, tmp_path)
    for example in Corpus(tmp_path / "clinc150" / "test.spacy")(spacy.blank("en")):
        assert sorted(example.y.cats) == ["alarm", "music", "weather"]
        assert sorted(example.y.cats.values()) == [0.0, 0.0, 1.0]


# SemCor

TAG_FILE = b"""<contextfile concordance=brown>
<context filename=br-x01 paras=yes>
<s snum=1>
<wf cmd=done rdf=group pos=NNP lemma=group wnsn=1 lexsn=1:03:00:: pn=group>Grand_Jury</wf>
<wf cmd=done pos=VB lemma=say wnsn=1 lexsn=2:32:00::>said</wf>
<punc>``</punc>
<wf cmd=done pos=NN lemma=cell wnsn=2 lexsn=1:06:03::>cells</wf>
<wf cmd=done pos=NN lemma=cell wnsn=0 lexsn=1:06:03::>cells</wf>
<wf cmd=done pos=VB lemma=take_place wnsn=1 lexsn=2:30:00::>took_place</wf>
<wf cmd=ignore pos=DT>the</wf>
</s>
<s snum=2>
<wf cmd=done pos=NN lemma=cell wnsn=1 lexsn=1:03:00::>cell</wf>
</s>
"""


def test_tag_files_give_one_word_tokens_with_senses():
    found = list(semcor.parse_tag_file("br-x01", TAG_FILE))
    tokens = ["Grand", "Jury", "said", "``", "cells", "cells", "took", "place", "the"]
    assert found == [
        SenseExample("say", "VERB", "say%2:32:00::", "1", "br-x01", 2, tokens),
        SenseExample("cell", "NOUN", "cell%1:06:03::", "2", "br-x01", 4, tokens),
        SenseExample("cell", "NOUN", "cell%1:03:00::", "1", "br-x01", 0, ["cell"]),
    ]


def test_words_with_a_few_frequent_senses_are_selected():
    def examples(lemma, **counts):
        return [
            SenseExample(lemma, "NOUN", sense, "1", "f", 0, [lemma, *"abcd"])
            for sense, count in counts.items()
            for _ in range(count)
        ]

    given = [
        *examples("one", a=20, b=9),
        *examples("two", a=10, b=10, c=9),
        *examples("many", a=10, b=10, c=10, d=10, e=10),
        *examples("big", a=70, b=10),
        *[replace(example, tokens=["short"]) for example in examples("short", a=20, b=20)],
    ]
    assert semcor.select(given) == [*examples("big", a=60, b=10), *examples("two", a=10, b=10)]


def test_other_tag_files_are_refused(tmp_path):
    (tmp_path / "wsd").mkdir()
    with tarfile.open(tmp_path / "wsd" / "semcor3.0.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("repository/data/brown1/tagfiles/br-x01")
        member.size = len(TAG_FILE)
        archive.addfile(member, io.BytesIO(TAG_FILE))
    with pytest.raises(ValueError, match=f"SHA-256 .* expected {semcor.TAG_FILES_SHA256}"):
        semcor.read_examples(tmp_path)


def test_tag_files_hold_the_listed_examples(shared):
    listed = semcor.read_examples(shared / "data")
    files = semcor.read_tag_files(find_bytes(shared / "data", "wsd/semcor3.0.tar"))
    assert len(listed) == 10_862 and len(files) == 352
    assert semcor.digest(files) == semcor.TAG_FILES_SHA256
    name = "br-a01"
    expected = [example for example in listed if example.file == name]
    found = list(semcor.parse_tag_file(name, files[name]))
    assert expected and all(example in found for example in expected)


# Senses


def sense(word, name, wnsn=1, file="f", tokens=("x",), index=0):
    return SenseExample(word, "NOUN", name, str(wnsn), file, index, list(tokens))


def test_a_context_gets_the_sense_with_the_nearest_average():
    examples = [
        sense("bank", "river"),
        sense("bank", "river"),
        sense("bank", "money"),
        sense("cell", "room", wnsn=2),
        sense("bank", "money"),
        sense("bank", "river"),
        sense("cell", "room", wnsn=2),
        sense("table", "set", wnsn=3),
    ]
    # The average of the first two, (2, 2), is nearer to (1, 1) than (0, 1) is.
    vectors = numpy.array(
        [[4, 0], [0, 4], [0, 1], [1, 1], [0.1, 3], [1, 1], [-1, 0], [1, 1]], dtype="float32"
    )
    train, test = [0, 1, 2, 3], [4, 5, 6, 7]
    fallback = {("table", "NOUN"): "furniture", ("bank", "NOUN"): "x", ("cell", "NOUN"): "x"}
    predict = senses.nearest(examples, vectors, train, fallback)
    assert [predict(number) for number in test] == ["money", "river", "room", "furniture"]
    assert senses.accuracy(examples, test, predict) == 0.75
    frequent = senses.most_frequent(examples, train, fallback)
    assert [frequent(number) for number in test] == ["river", "river", "room", "furniture"]
    assert senses.accuracy(examples, test, frequent) == 0.5


def test_equally_frequent_senses_go_by_wordnets_order():
    examples = [sense("bank", "b", wnsn=2), sense("bank", "a", wnsn=1), sense("bank", "a")]
    assert senses.most_frequent(examples, [0, 1], {("bank", "NOUN"): "x"})(2) == "a"
    assert senses.first_senses(examples[:1]) == {("bank", "NOUN"): "b"}
    assert senses.first_senses(examples) == {("bank", "NOUN"): "a"}


def test_cosine():
    left, right = numpy.array([3.0, 4.0]), numpy.array([4.0, 3.0])
    assert senses.cosine(left, right) == pytest.approx(24 / 25)
    assert senses.cosine(left, 0 * right) == 0.0


def test_every_fifth_document_is_held_out():
    examples = [sense("w", "s", file=f"br-{number % 10}") for number in range(20)]
    train, test = senses.split(examples)
    assert {examples[number].file for number in test} == {"br-4", "br-9"}
    assert sorted([*train, *test]) == list(range(20)) and len(test) == 4


def test_the_vector_is_that_of_the_word_in_its_sentence(bilm):
    sentences = [["a", "river", "bank"], ["bank"], ["a", "river", "bank"]]
    examples = [
        sense("w", "s", tokens=words, index=index) for words, index in zip(sentences, (2, 0, 1))
    ]
    vectors = senses.embed(bilm, examples)
    expected = bilm.embed(sentences, initial_state="warm")
    assert vectors.shape == (3, 3, bilm.width)
    for number, (layers, index) in enumerate(zip(expected, (2, 0, 1))):
        assert numpy.abs(vectors[:, number] - layers[:, index]).max() < 1e-5


def test_senses_that_the_context_tells_are_told_by_the_context_layers(bilm):
    """The token layer sees the same word in all contexts, so it cannot."""
    contexts = {"1": ["one", "bank", "one"], "2": ["two", "bank", "two"]}
    examples = [
        sense("bank", name, wnsn=name, file=f"br-{number}", tokens=contexts[name], index=1)
        for number in range(5)
        for name in ("1", "2")
    ]
    scores = senses.measure(examples, bilm)["scores"]
    assert scores["layer_1"] == scores["layer_2"] == 1.0
    assert scores["layer_0"] == scores["most_frequent"] == 0.5


# Configs and runs


@pytest.mark.parametrize(
    "name, system",
    [
        *[("tagger", system) for system in SYSTEMS],
        *[(head, "elmo_input") for head in ("parser", "ner", "textcat")],
    ],
)
def test_components_and_systems_make_a_pipeline(name, system):
    task = next(task for task in SMOKE.tasks if task.head == name)
    config = configs.make_config(SMOKE, task, system, seed=3, width=16, n_words=1000)
    configs.fill_in(config, "a", "b", "weights")
    nlp = load_model_from_config(config, auto_fill=True)
    assert nlp.pipe_names == ([name] if system == "hash" else ["elmo", name])
    found = [
        node.attrs["scalar_mix_settings"].layer_weights
        for node in nlp.get_pipe(name).model.walk()
        if "scalar_mix_settings" in node.attrs
    ]
    layer = int(system[-1]) if system.startswith("layer_") else "learned"
    assert found == ([] if system == "hash" else [layer])
    training = nlp.config["training"]
    wanted = task.epochs * 1000 / task.batch_words
    assert abs(training["max_steps"] - wanted) <= SMOKE.evaluations / 2
    # The last model is scored.
    assert training["max_steps"] == training["eval_frequency"] * SMOKE.evaluations
    assert training["optimizer"]["learn_rate"]["warmup_steps"] == training["max_steps"] // 10
    assert nlp.config["system"]["seed"] == 3


def test_systems_of_a_task_differ_in_nothing_but_the_token_vectors():
    task = SMOKE.tasks[0]
    made = [
        configs.make_config(SMOKE, task, system, seed=0, width=16, n_words=1000)
        for system in SYSTEMS
    ]
    assert all(config["training"] == made[0]["training"] for config in made)
    heads = [dict(config["components"]["tagger"]["model"], tok2vec=None) for config in made]
    assert all(head == heads[0] for head in heads)


def test_a_task_can_have_a_dropout_of_its_own():
    for task, dropout in (("upos", SMOKE.training["dropout"]), ("wnut17", 0.5)):
        task = next(other for other in SMOKE.tasks if other.name == task)
        config = configs.make_config(SMOKE, task, "hash", seed=0, width=16, n_words=1000)
        assert config["training"]["dropout"] == dropout


@pytest.mark.parametrize(
    "values, message",
    [
        ({"head": "spancat"}, r"\[tasks.upos\] head is 'spancat'; expected one of tagger, parser"),
        ({"annotation": "lemma"}, r"\[tasks.upos\] annotation is 'lemma'"),
        ({"epochs": 0}, r"\[tasks.upos\] epochs is 0; expected 1 or more"),
    ],
)
def test_tasks_are_checked(values, message):
    given = {**vars(SMOKE.tasks[0]), **values}
    with pytest.raises(ValueError, match=message):
        Task(**given)


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "seeds = 2\n",
            "seed = 2\n",
            r"\[tasks.upos\] a setting is 'seed'; expected one of annotation",
        ),
        ("seeds = 2\n", "", r"\[tasks.upos\] lacks a setting: .*seeds"),
        ('"layer_2"]', '"layer_9"]', r"\[benchmark\] systems is 'layer_9'; expected one of hash"),
    ],
)
def test_settings_are_checked(tmp_path, old, new, message):
    text = (PROJECT / "configs" / "smoke.cfg").read_text()
    assert text.count(old) == 1
    (tmp_path / "bad.cfg").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_settings(tmp_path / "bad.cfg")


@pytest.fixture
def planned(corpus, make_bilm, tmp_path):
    def plan(seed=0, **training):
        folder = tmp_path / f"bilm{seed}"
        make_bilm(seed).save_pretrained(folder)
        return benchmark.plan(make_settings(**training), corpus, str(folder))

    return plan


def fingerprints(jobs):
    return {job.name: job.facts["fingerprint"] for job in jobs}


def test_fingerprints_tell_settings_and_weights_but_not_places(planned, tmp_path):
    jobs = fingerprints(planned())
    assert len(jobs) == 4 * (2 + 1) and jobs == fingerprints(planned())
    (tmp_path / "bilm0").rename(tmp_path / "elsewhere")
    assert jobs == fingerprints(planned())
    other = fingerprints(planned(seed=1))
    changed = {name for name in jobs if jobs[name] != other[name]}
    assert changed == {name for name in jobs if "hash" not in name}
    patient = fingerprints(planned(patience=7))
    assert not any(jobs[name] == patient[name] for name in jobs)


@pytest.fixture
def fake_runs(monkeypatch):
    """Runs that only write their result; one of them can be made to fail."""
    made, failing = [], []

    def fake(config, score, folder, result, facts):
        if result.stem in failing:
            raise ValueError("no luck")
        made.append(result.stem)
        write_json(result, facts)

    monkeypatch.setattr(benchmark, "run", fake)
    monkeypatch.setattr(benchmark, "ProcessPoolExecutor", lambda n, *_: ThreadPoolExecutor(n))
    return made, failing


def test_a_second_start_makes_what_is_missing(planned, fake_runs, tmp_path, capsys):
    made, failing = fake_runs
    jobs, folder = planned(), tmp_path / "runs"
    failing.append("upos-elmo-1")

    def execute(jobs):
        made.clear()
        benchmark.execute_all(jobs, tmp_path / "training", folder, n_jobs=2, n_threads=1)
        return set(made)

    with pytest.raises(RuntimeError, match="1 runs failed, the first: upos-elmo-1: no luck"):
        execute(jobs)
    assert set(made) == {job.name for job in jobs} - {"upos-elmo-1"}
    failing.clear()
    assert execute(jobs) == {"upos-elmo-1"}
    assert execute(jobs) == set()
    assert "12 runs, 12 of them finished." in capsys.readouterr().out
    (folder / "wnut17-hash-0.json").unlink()
    assert execute(jobs) == {"wnut17-hash-0"}
    # With another biLM all but the baseline is made anew.
    assert execute(planned(seed=1)) == {job.name for job in jobs if "hash" not in job.name}


def test_a_killed_benchmark_leaves_no_worker(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
from projects.benchmark_en.scripts.benchmark import prepare_worker
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context, prepare_worker, (1,))
    pool.submit(abs, 1).result()
    future = pool.submit(time.sleep, 600)
    print("working", flush=True)
    future.result()
"""
    )
    command = [sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "working\n"
    process.kill()
    # The worker has the same output, which ends with the last of its writers.
    assert process.communicate(timeout=60)[0] == ""


def test_results_of_other_runs_do_not_count(tmp_path):
    for name in ("upos-hash-0", "upos-hash-7", "chunks-hash-0", "wnut17-elmo-0"):
        write_json(tmp_path / f"{name}.json", {"name": name})
    found = results.read_results(make_settings(), tmp_path)
    assert [result["name"] for result in found] == ["upos-hash-0", "wnut17-elmo-0"]


def test_a_run_trains_scores_and_leaves_no_model(planned, tmp_path):
    job = next(job for job in planned() if job.name == "upos-elmo-0")
    result = tmp_path / "runs" / "upos-elmo-0.json"
    run.run(job.config, job.score, tmp_path / "training", result, job.facts)
    found = json.loads(result.read_text())
    assert found["fingerprint"] == job.facts["fingerprint"] and found["task"] == "upos"
    assert 0 <= found["scores"]["dev"] <= 1 and 0 <= found["scores"]["test"] <= 1
    (mix,) = found["layer_weights"]
    assert sum(mix["weights"]) == pytest.approx(1) and len(mix["weights"]) == 3
    labels = 6
    assert found["n_parameters"] == labels * (24 + 1) + 3 + 1
    assert sorted(path.name for path in (tmp_path / "training").iterdir()) == [
        "config.cfg",
        "log.txt",
    ]


def test_the_biLM_that_is_found(tmp_path, monkeypatch, bilm):
    monkeypatch.chdir(tmp_path)
    bilm.save_pretrained(tmp_path / "mine")
    assert source.find_source("mine") == str(tmp_path / "mine")
    monkeypatch.setattr(source, "BUNDLED", "no_such_model")
    monkeypatch.setattr(source, "TRAINED", tmp_path / "trained")
    with pytest.raises(ValueError, match="no biLM 'no_such_model'.*--vars.source"):
        source.find_source("auto")
    bilm.save_pretrained(tmp_path / "trained")
    assert source.find_source("auto") == str(tmp_path / "trained")
    monkeypatch.setattr(source, "BUNDLED", str(tmp_path / "mine"))
    assert source.find_source("auto") == str(tmp_path / "mine")


# Report


def test_means_spreads_and_cuts_of_errors():
    summary = results.Summary.of([0.8, 0.9, 0.7])
    assert summary.mean == pytest.approx(0.8) and summary.spread == pytest.approx(0.1)
    assert results.Summary.of([0.5]) == (0.5, None)
    assert results.error_cut(0.9, 0.92) == pytest.approx(0.2)
    assert results.error_cut(0.9, 0.88) == pytest.approx(-0.2)
    assert results.error_cut(1.0, 1.0) == 0.0


def result(task, system, score, seed=0, weights=None):
    mixes = [{"weights": weights, "gamma": 1.0}] if weights else []
    return {
        "task": task,
        "system": system,
        "seed": seed,
        "source": None if system == "hash" else "mine",
        "version": "1.0",
        "seconds": 36.0,
        "scores": {"dev": 0.0, "test": score},
        "layer_weights": mixes,
    }


def make_results(upos=0.94, layer_1=0.93):
    of_upos = {"hash": 0.90, "elmo_input": upos, "layer_1": layer_1, "layer_2": 0.92}
    found = [
        result("upos", system, score + shift, seed)
        for system, score in of_upos.items()
        for seed, shift in ((0, -0.01), (1, 0.01))
    ]
    found += [result("upos", "elmo", 0.5, seed, [seed, 1.0 - seed, 0.0]) for seed in (0, 1)]
    return [*found, result("wnut17", "hash", 0.3), result("wnut17", "elmo_input", 0.37)]


SENSES = {"scores": {"most_frequent": 0.5, "layer_0": 0.5, "layer_2": 0.6, "elmo": 0.55}}


def test_the_report_says_what_is_known_and_what_is_reached():
    found = report.write_report(SMOKE, make_results(), SENSES, "benchmark.png")
    assert (
        "| EWT UPOS (accuracy) | 90.00 ± 1.41 | 94.00 ± 1.41 | 50.00 ± 0.00 |  | 93.00 ± 1.41 "
        "| 92.00 ± 1.41 | 40.0 % |\n" in found
    )
    assert "| WNUT-17 (entity F1) | 30.00 | 37.00 |  |  |  |  | 10.0 % |\n" in found
    assert "| SemCor senses (accuracy) | 50.00 (most frequent sense) |  | 55.00 |" in found
    assert "\n36 runs are missing.\n" in found and "12 runs of together 0.12 hours" in found
    judged = [line.split("**")[1] for line in found.splitlines() if line.startswith("- ")]
    assert judged == ["reached", "not reached", "reached", "reached"]
    worse = report.write_report(SMOKE, make_results(0.89, 0.91), None, "benchmark.png")
    judged = [line.split("**")[1] for line in worse.splitlines() if line.startswith("- ")]
    assert judged == ["not reached", "not reached", "not reached"] and "-10.0 %" in worse
    assert "SemCor" not in worse


def test_the_report_of_nothing_is_a_table_without_numbers():
    found = report.write_report(SMOKE, [], None, "benchmark.png")
    assert "48 runs are missing." in found and "%" not in found


@pytest.mark.parametrize("name, begin", [("a.png", b"\x89PNG"), ("a.svg", b"<?xm")])
def test_the_figure_is_drawn(tmp_path, name, begin):
    given = make_results()
    rows = results.make_rows(SMOKE, given, SENSES)
    mixes = results.mean_mixes(SMOKE, given)
    assert mixes == {"upos, ELMo alone": [0.5, 0.5, 0.0]}
    figure.draw(SMOKE.systems, rows, mixes, tmp_path / name)
    assert (tmp_path / name).read_bytes()[:4] == begin


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install spacy-elmo\[plots\]"):
        figure.draw([], {}, {}, tmp_path / "a.png")


@pytest.mark.slow
def test_the_smoke_workflow_runs_and_goes_on_where_it_stopped(tmp_path):
    skipped = ignore_patterns("assets", "corpus", "training", "metrics", "*.lock", "__pycache__")
    folder = copytree(PROJECT, tmp_path / "benchmark_en", ignore=skipped)

    def python(*arguments):
        command = [sys.executable, "-m", *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed = python("spacy", "project", "run", "smoke", ".")
    table = (folder / "metrics" / "smoke" / "benchmark.md").read_text(encoding="utf-8")
    assert table.strip() in printed and "missing" not in table
    # A header, a rule, the tasks and the senses.
    assert table.count("\n| ") == 2 + len(SMOKE.tasks) + 1
    assert (folder / "metrics" / "smoke" / "benchmark.png").exists()
    runs = folder / "metrics" / "smoke" / "runs"
    scores = {path.stem: json.loads(path.read_text())["scores"]["test"] for path in runs.iterdir()}
    assert len(scores) == 48
    # The grammar has few words, so the tagger has learned it. Weights are random, yet ELMo helps.
    assert scores["upos-hash-0"] > 0.9 and scores["upos-elmo_input-0"] > 0.9
    (runs / "las-elmo-0.json").unlink()
    again = python("scripts.benchmark", "configs/smoke.cfg", "--corpus", "corpus/smoke",
                   "--source", "corpus/smoke-bilm", "--training", "training/smoke",
                   "--results", "metrics/smoke/runs")  # fmt: skip
    assert "48 runs, 47 of them finished." in again and "1/1 " in again
    repeated = json.loads((runs / "las-elmo-0.json").read_text())["scores"]["test"]
    assert repeated == scores["las-elmo-0"]
