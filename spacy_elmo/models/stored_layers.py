"""Layers of segments, from the store where they are there, else from the biLM."""

from dataclasses import dataclass
from typing import Dict, List, Sequence

import numpy
from numpy.typing import NDArray

from ..bilm import BiLM, InitialState
from ..bilm.fixed_weights import Fingerprint, fingerprint
from .layer_store import LayerStore, key_of
from .segments import Segment


def read_or_compute(
    store: LayerStore,
    bilm: BiLM,
    segments: Sequence[Segment],
    *,
    initial_state: InitialState,
    batch_tokens: int,
    is_training: bool,
) -> List[NDArray[numpy.float32]]:
    """Layers of segments, equal ones computed once.

    store (LayerStore): The open store. It is emptied where its layers are of other weights.
    bilm (BiLM): The biLM.
    segments (Sequence[Segment]): The segments.
    initial_state (str): See ``BiLM.embed``, as ``batch_tokens``.
    is_training (bool): The layers are for training, so they will be wanted again.
    RETURNS (List[numpy.ndarray]): (n_layers + 1, n_words, width) a segment. What comes from the
        store cannot be written to.
    """
    store.expect(Origin.of(bilm, initial_state))
    keys = [key_of(segment.word_hashes, is_training) for segment in segments]
    found: Dict[bytes, NDArray[numpy.float32]] = {}
    missing: Dict[bytes, Segment] = {}
    for key, segment in zip(keys, segments):
        if key in found or key in missing:
            continue
        layers = store.get(key)
        if layers is None:
            missing[key] = segment
        else:
            found[key] = layers.astype(numpy.float32, copy=False)
    missing_keys = list(missing)
    for number, layers in bilm.iter_embed(
        [segment.words for segment in missing.values()],
        initial_state=initial_state,
        batch_tokens=batch_tokens,
    ):
        key = missing_keys[number]
        found[key] = layers
        store.add(key, layers, is_training)
    return [found[key] for key in keys]


@dataclass
class Origin:
    """What the layers of a segment depend on beside its words.

    :param bilm: the biLM itself, which may be exchanged as a whole.
    :param initial_state: what the LSTMs remember before a segment.
    :param weights: tells whether they are the same as before.
    """

    bilm: BiLM
    initial_state: InitialState
    weights: Fingerprint

    @classmethod
    def of(cls, bilm: BiLM, initial_state: InitialState) -> "Origin":
        """The origin of what a biLM computes now."""
        return cls(bilm, initial_state, fingerprint([*bilm.parameters(), *bilm.buffers()]))
