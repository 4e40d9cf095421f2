"""What is known of the ELMo in a pipeline: its biLMs, and each component's mix of the layers."""

from typing import Any, Dict, List, Optional

from spacy.language import Language
from thinc.api import Model

from ..formats import describe_bilm
from ..models.elmo import settings_of
from ..models.encoder import lazy_bilm
from ..models.listener import state_of
from ..models.replacing import find_block
from ..models.scalar_mix import layer_weights
from .elmo import Elmo

ELMO = "elmo"
SCALAR_MIX = "scalar_mix"


def describe_pipeline(nlp: Language) -> Dict[str, Any]:
    """What is known of the ELMo in a pipeline, as JSON-serializable values.

    nlp (Language): The pipeline.
    RETURNS (Dict[str, Any]): "lang", "name", "version" and "pipeline"; "elmo": for each ``elmo``
        component, and each with a biLM of its own, "source" as the config has it, "settings",
        "listeners" (components) and "bilm" (see ``spacy_elmo.formats.describe_bilm``; None without
        weights); "mixes": for each component with mixes of layers, a list of "layer_weights" (as
        the config has it), "weights" (after the softmax) and "gamma" (both None in a fixed mix, or
        before training), and "upstream".
    """
    found: Dict[str, Any] = {
        **{name: nlp.meta.get(name) for name in ("lang", "name", "version")},
        "pipeline": list(nlp.pipe_names),
        "elmo": {},
        "mixes": {},
    }
    for name, component in nlp.components:
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            continue
        # With its variables filled in, such as a source that stands among the paths.
        config = nlp.config.interpolate()["components"][name]
        for node in model.walk():
            if node.name == ELMO and "elmo_settings" in node.attrs:
                found["elmo"][name] = _describe_elmo(node, component, config)
        mixes = _describe_mixes(model)
        if mixes:
            found["mixes"][name] = mixes
    return found


def _describe_elmo(model: Model, component: Any, config: Dict[str, Any]) -> Dict[str, Any]:
    settings = settings_of(model)
    block = find_block(config, "spacy-elmo.Elmo.v1") or {}
    bilm = lazy_bilm(model.layers[0]).bilm
    is_pipe = isinstance(component, Elmo)
    values = {
        "frozen": settings.frozen,
        "initial_state": settings.initial_state,
        "batch_tokens": settings.batch_tokens,
        "segments": block.get("segments"),
    }
    if is_pipe:
        names = ("layer_weights", "store_layers", "set_tensor", "vector_hooks")
        values.update({name: getattr(component, name) for name in names})
    return {
        "source": block.get("source"),
        "settings": values,
        "listeners": component.listening_components if is_pipe else [],
        "bilm": None if bilm is None else describe_bilm(bilm),
    }


def _describe_mixes(model: Model) -> List[Dict[str, Any]]:
    """The mixes of a component's model, in its order."""
    found: List[Dict[str, Any]] = []
    upstream: Optional[str] = None
    for node in model.walk(order="dfs_pre"):
        state = state_of(node)
        if state is not None:
            upstream = state.upstream_name
        if node.name != SCALAR_MIX:
            continue
        settings = node.attrs["scalar_mix_settings"]
        learned = layer_weights(node)
        weights, gamma = learned[0] if learned else (None, None)
        found.append(
            {
                "layer_weights": settings.layer_weights,
                "weights": weights,
                "gamma": gamma,
                "upstream": upstream,
            }
        )
    return found
