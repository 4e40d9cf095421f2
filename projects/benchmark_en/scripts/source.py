"""The biLM that the benchmark measures."""

import hashlib
from pathlib import Path

import torch

from spacy_elmo import BiLM

#: The model that comes with the package, and the one that the project beside this one trains.
BUNDLED = "en_elmo_sm"
TRAINED = Path(__file__).parents[2] / "pretrain_en" / "training" / "model-last"


def find_source(source: str) -> str:
    """The biLM to take.

    :param source: path or name of a biLM; "auto" for the bundled English one, or, where the
        package has none, the one that ``projects/pretrain_en`` trained.
    :raises ValueError: "auto", and there is neither.
    """
    if source != "auto":
        return str(Path(source).absolute()) if Path(source).exists() else source
    try:
        BiLM.from_pretrained(BUNDLED)
        return BUNDLED
    except (FileNotFoundError, ValueError) as error:
        if TRAINED.exists():
            return str(TRAINED)
        raise ValueError(
            f"The package has no biLM {BUNDLED!r}, and {TRAINED} is not there. Name one: "
            "`--vars.source PATH`, or run the project pretrain_en."
        ) from error


def digest_bilm(bilm: BiLM) -> str:
    """What tells the weights of biLMs apart, wherever they are."""
    found = hashlib.sha256(repr(sorted(vars(bilm.config).items())).encode("utf-8"))
    for name, weights in sorted(bilm.state_dict().items()):
        found.update(name.encode("utf-8"))
        found.update(weights.detach().cpu().to(torch.float32).contiguous().numpy().tobytes())
    return found.hexdigest()[:16]
