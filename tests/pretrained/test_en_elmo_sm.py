"""The model that comes with the package: it works without any setting, and it is the one that its
card describes."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import spacy
from safetensors import safe_open

from spacy_elmo import BiLM
from spacy_elmo.formats import load
from spacy_elmo.pretrained import BUNDLED, DEFAULT

FOLDER = BUNDLED[DEFAULT].path
MAX_BYTES = 12_000_000


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    return nlp


def test_it_works_at_once_in_a_fresh_process(nlp):
    text = "I deposited it at the bank."
    code = (
        "import spacy, sys; nlp = spacy.blank('en'); nlp.add_pipe('elmo');"
        "sys.stdout.buffer.write(nlp(sys.argv[1]).tensor.tobytes())"
    )
    # No warning, and nothing is looked for where the process runs.
    command = [sys.executable, "-W", "error::UserWarning", "-c", code, text]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    found = numpy.frombuffer(printed, dtype="float32").reshape(-1, 256)
    assert numpy.allclose(found, nlp(text).tensor, atol=1e-5)
    assert nlp(text).tensor.std() > 0.1


def test_the_component_and_the_bilm_take_it_by_its_name(nlp):
    words = ["The", "river", "bank"]
    layers = BiLM.from_pretrained("en_elmo_sm").embed([words], initial_state="warm")[0]
    doc = spacy.tokens.Doc(nlp.vocab, words)
    assert numpy.allclose(nlp(doc).tensor, layers.mean(axis=0), atol=1e-5)
    assert nlp.config["components"]["elmo"]["model"]["source"] == "en_elmo_sm"


def test_the_same_word_in_another_context_has_another_vector(nlp):
    doc = nlp("The method returns a new object, and nobody will object.")
    noun, verb = doc[5].vector, doc[10].vector
    assert doc[5].text == doc[10].text
    assert _cosine(noun, verb) < 0.9


def test_initialize_and_a_saved_pipeline_keep_it(nlp, tmp_path):
    other = spacy.blank("en")
    other.add_pipe("elmo")
    other.initialize()
    other.to_disk(tmp_path)
    saved = spacy.load(tmp_path)
    saved.get_pipe("elmo").model.layers[0].shims[0]._model.source = "/no/such/place"
    for text in ("Plain words.", "A bank loan"):
        assert numpy.allclose(saved(text).tensor, nlp(text).tensor, atol=1e-5)


@pytest.mark.parametrize("use", [lambda nlp: nlp("Hallo"), lambda nlp: nlp.initialize()])
def test_another_language_says_how_to_train_a_model(use):
    nlp = spacy.blank("de")
    nlp.add_pipe("elmo")
    with pytest.raises(ValueError, match="trained on 'en'.*'de'.*spacy elmo init-bilm.*--lang de"):
        use(nlp)


def test_another_language_takes_a_source(bilm, tmp_path):
    bilm.save_pretrained(tmp_path)
    nlp = spacy.blank("de")
    nlp.add_pipe("elmo", config={"model": {"source": str(tmp_path)}})
    assert nlp("Hallo Welt").tensor.shape == (2, bilm.width)
    again = spacy.blank("de")
    again.add_pipe("elmo", config={"model": {"source": str(FOLDER)}})
    assert again("Hallo Welt").tensor.shape == (2, 256)


def test_a_folder_of_the_same_name_is_given_with_a_dot(bilm, tmp_path, monkeypatch):
    bilm.save_pretrained(tmp_path / "en_elmo_sm")
    monkeypatch.chdir(tmp_path)
    assert load("en_elmo_sm").width == 256
    assert load("./en_elmo_sm").width == load(Path("en_elmo_sm")).width == bilm.width


def test_an_unknown_name_lists_the_bundled_ones():
    with pytest.raises(FileNotFoundError, match="bundled model .*en_elmo_sm"):
        load("en_elmo_xl")


def test_perplexity_needs_a_softmax_which_is_no_part_of_it():
    with pytest.raises(ValueError, match=f"{re.escape(str(FOLDER))} has no vocab.txt"):
        BiLM.from_pretrained("en_elmo_sm").perplexity([["A", "word"]])


def test_the_card_names_the_file(capsys):
    data = (FOLDER / "model.safetensors").read_bytes()
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    (checksum,) = re.findall(r"\b[0-9a-f]{64}\b", card)
    assert hashlib.sha256(data).hexdigest() == checksum
    assert len(data) <= MAX_BYTES
    with safe_open(FOLDER / "model.safetensors", framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}
        n_weights = sum(
            file.get_tensor(name).numel() for name in file.keys() if not name.startswith("warm")
        )
    assert f"{n_weights:,} parameters" in card
    assert n_weights == sum(weight.numel() for weight in load(DEFAULT).parameters())


def _cosine(one, other):
    return float(one @ other / numpy.sqrt((one @ one) * (other @ other)))
