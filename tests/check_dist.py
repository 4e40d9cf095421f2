"""Build sdist and wheel, install each into an environment that never saw the checkout, and use it.

Run by ``make test-dist``. It needs the package ``build`` and the package index.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

USE = """
import importlib.metadata, pathlib, sys
import numpy
import spacy
import spacy_elmo
from spacy import registry

checkout, kind, vectors, recurrence = sys.argv[1:]
place = pathlib.Path(spacy_elmo.__file__).resolve()
assert pathlib.Path(checkout) not in place.parents, place
assert importlib.metadata.version("spacy-elmo") == spacy_elmo.__version__
assert (place.parent / "py.typed").exists()
points = importlib.metadata.distribution("spacy-elmo").entry_points
assert points and all(point.load() is not None for point in points)

sizes = {"filters": [[1, 4], [2, 8]], "projection_dim": 8, "cell_size": 12}
listener = {"@architectures": "spacy-elmo.ElmoListener.v1", "width": 16, "upstream": "elmo"}
nlp = spacy.blank("en")
nlp.add_pipe("elmo", config={"model": {"source": sizes}})
nlp.add_pipe("tagger", config={"model": {"tok2vec": listener}}).add_label("N")
nlp.initialize()
nlp.to_disk("saved")
doc, loaded = nlp("The river bank"), spacy.load("saved")("The river bank")
assert doc.tensor.shape == (3, 16) and (doc.tensor == loaded.tensor).all()

bilm = spacy_elmo.BiLM(spacy_elmo.BiLMConfig.from_dict(sizes))
bilm.save_pretrained("native")
assert (spacy_elmo.BiLM.from_pretrained("native").embed([["a"]])[0] == bilm.embed([["a"]])[0]).all()

from spacy_elmo.bilm.kernel import variants
assert str([variant.name for variant in variants()]) == recurrence, (variants(), recurrence)

bundled = spacy.blank("en")
bundled.add_pipe("elmo")
expected = numpy.load(vectors)
assert numpy.abs(bundled("I deposited it at the bank.").tensor - expected).max() < 1e-5
print(f"{kind}: {len(points)} entry points load, a pipeline trains, saves and loads")
"""


#: Run in the checkout: what the bundled model gives there, and what was compiled.
EMBED = """
import sys
import numpy, spacy
nlp = spacy.blank("en")
nlp.add_pipe("elmo")
numpy.save(sys.argv[1], nlp("I deposited it at the bank.").tensor)
from spacy_elmo.bilm.kernel import variants
print([variant.name for variant in variants()])
"""


def run(*command: object, cwd: Path) -> None:
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vectors = folder / "vectors.npy"
        embed = [sys.executable, "-c", EMBED, str(vectors)]
        recurrence = subprocess.check_output(embed, cwd=ROOT, text=True).strip()
        # What git tracks, so that a forgotten file is missed here rather than by a user.
        tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
        for file in filter(None, tracked.split("\0")):
            if (ROOT / file).is_file():
                (folder / "source" / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, folder / "source" / file)
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", cwd=folder / "source")
        shutil.rmtree(folder / "source")
        (wheel,), (sdist,) = folder.glob("dist/*.whl"), folder.glob("dist/*.tar.gz")
        run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
        python = folder / "venv" / "bin" / "python"
        pip = (python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt")
        (folder / "work").mkdir()
        for kind, file in (("wheel", wheel), ("sdist", sdist)):
            run(*pip, file, cwd=folder / "work")
            use = (python, "-W", "error::UserWarning", "-c", USE, ROOT, kind)
            run(*use, vectors, recurrence, cwd=folder / "work")
            run(python, "-m", "spacy", "elmo", "train", "--help", cwd=folder / "work")
            run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "spacy-elmo", cwd=folder)


if __name__ == "__main__":
    main()
