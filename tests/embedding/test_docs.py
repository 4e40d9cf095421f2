"""The examples of the documentation run as printed."""

import re
import shlex

import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.softmax import FullSoftmax
from spacy_elmo.embedding import embed_corpus
from spacy_elmo.training import LanguageModel, Vocabulary, save_language_model

from ..cli.commands import invoke
from ..conftest import ROOT, random_bilm

LINES = ["The river bank .", "", "A bank loan ."]


def blocks(name, language):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random_bilm().save_pretrained("MODEL")
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path


def test_examples_of_embedding(folder):
    make, read, read_by_sentence = blocks("embedding.md", "python")
    exec(make, values := {})
    assert values["done"].n_sentences == 3 and values["done"].n_tokens == 8
    for name in ("vectors.npz", "vectors.safetensors", "vectors.parquet"):
        embed_corpus(BiLM.from_pretrained("MODEL"), "text.txt", name, layers="average")
    exec(read, values := {})
    assert values["layers"].shape == (4, 24) and values["rows"].shape == (8, 24)
    exec(read_by_sentence, values := {"h5py": values["h5py"]})
    assert values["layers"].shape == (4, 24)


def test_commands_of_embedding(folder):
    """All but the pipe, which needs another machine."""
    import gzip

    (folder / "raw.txt.gz").write_bytes(gzip.compress(b"He isn't here.\n"))
    commands = blocks("embedding.md", "bash")[0].splitlines()
    for command in commands[:2]:
        words = shlex.split(command, comments=True)
        assert words[:2] == ["spacy", "elmo"]
        done = invoke(*words[2:])
        assert done.exit_code == 0, done.output
    assert (folder / "vectors.hdf5").exists() and (folder / "vectors.parquet").exists()


def test_example_of_perplexity(folder, capsys):
    bilm = random_bilm()
    vocabulary = Vocabulary.from_counts({"The": 2, "bank": 2})
    head = FullSoftmax(bilm.config.projection_dim, torch.ones(len(vocabulary)))
    model = LanguageModel(bilm, head)
    save_language_model(model, vocabulary, folder / "my_bilm" / "model-best")
    (example,) = blocks("migration.md", "python")
    exec(example, {})
    assert "'n_predictions': 8" in capsys.readouterr().out
