"""Files against those that the original tools wrote of the same sentences and weights."""

import json

import h5py
import numpy
import pytest

from spacy_elmo import BiLM
from spacy_elmo.embedding import corpus, embed_corpus

from .reading import read_arrays


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["zh_char", "zh_word_char", "en_char"])
def test_files_of_elmo_for_many_langs(shared, tmp_path, name):
    folder = shared / "fixtures" / "manylangs" / name
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    bilm = BiLM.from_pretrained(folder)
    embed_corpus(bilm, sentences, tmp_path / "out.hdf5", initial_state="zero")
    found = read_arrays(tmp_path / "out.hdf5")
    with h5py.File(folder / "expected.hdf5", "r") as file:
        assert len(found) == len(file) == len(sentences)
        for number, array in found.items():
            assert numpy.abs(array - file[str(number)][()]).max() < 1e-5


@pytest.mark.parametrize(
    "name, text", [("allennlp", "sentences.json"), ("bilm-tf", "lm_embeddings_sentences.json")]
)
def test_top_layers_of_allennlp_and_bilm_tf(shared, tmp_path, name, text):
    """From a text file, state carried as those tools do."""
    folder = shared / "fixtures" / name
    bilm = BiLM.from_pretrained(folder)
    for number, lines in enumerate(json.loads((folder / text).read_text(encoding="utf-8"))):
        (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
        out = tmp_path / f"{number}.hdf5"
        embed_corpus(bilm, tmp_path / "text.txt", out, layers="top", initial_state="carry")
        found = read_arrays(out)
        with h5py.File(folder / f"lm_embeddings_{number}.hdf5", "r") as file:
            assert len(found) == len(lines) == 10
            for key, array in found.items():
                expected = numpy.concatenate(file[str(key)][()], axis=1)
                assert numpy.abs(array - expected).max() < 1e-5


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["zh_char", "en_char"])
def test_a_carried_state_survives_a_stop(shared, tmp_path, monkeypatch, name):
    """Also that of encoders with one stack for both directions."""
    monkeypatch.setattr(corpus, "CHECKPOINT_SECONDS", 0.0)
    folder = shared / "fixtures" / "manylangs" / name
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    bilm = BiLM.from_pretrained(folder)

    def stop(what, n, total):
        if what == "embed" and n > total / 2:
            raise KeyboardInterrupt

    settings = {"initial_state": "carry", "batch_tokens": 8}
    with pytest.raises(KeyboardInterrupt):
        embed_corpus(bilm, sentences, tmp_path / "out.npz", progress=stop, **settings)
    done = embed_corpus(bilm, sentences, tmp_path / "out.npz", resume=True, **settings)
    assert 0 < done.n_embedded < done.n_tokens
    found = read_arrays(tmp_path / "out.npz")
    for number, array in enumerate(bilm.embed(sentences, initial_state="carry")):
        assert numpy.abs(found[number] - array).max(initial=0) < 1e-5
