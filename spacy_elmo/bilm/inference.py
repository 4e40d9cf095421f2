"""The layers of sentences without gradients, sub-batch by sub-batch.

The marks around a sentence are no part of its result. Beyond the first mark of each direction,
what a direction has read is the same for all sentences, so it is kept with the weights; what a
direction gives at its last mark is never used, so it is left out.
"""

from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from .characters import BOS, EOS
from .fixed_weights import Fingerprint, fingerprint
from .joint_lstm import run_joint_lstm
from .lstm import BiLMState, LSTMState, run_side_by_side
from .packing import PackedWords
from .products import autocast_dtype
from .token_layer import WORDS_A_CHUNK
from .word_cache import in_chunks

if TYPE_CHECKING:
    from .bilm import BiLM, Sentence

Array = NDArray[numpy.float32]

# Layers of one direction, some of them together with the row of each position in them.
_Half = Sequence[Tuple[Sequence[Tensor], Tensor]]

# Sentences that run side by side at most. More would not make the products faster, and what a
# step works on would leave the caches.
MAX_SENTENCES = 128


def word_vectors(bilm: "BiLM", words: Sequence[str]) -> Tensor:
    """Context-free vectors of distinct words, from the cache where they are there.

    *Shape:* (n_words, projection_dim)
    """
    # In float32 whatever the precision of the LSTMs: most words come from the cache anyway.
    with torch.autocast(bilm.device.type, enabled=False):
        return bilm.word_cache.vectors(
            words,
            fingerprint(bilm.token_layer.parameters()),
            lambda missing: in_chunks(bilm.encode_words, missing, WORDS_A_CHUNK),
        )


def start_states(bilm: "BiLM", state: Optional[BiLMState], n_sentences: int) -> BiLMState:
    """The states of both directions after their first mark.

    :param state: the state of one sequence before it; none for zeros.
    """
    tensors: List[Tensor] = [*bilm.parameters()]
    if state is not None:
        tensors += [part for stack in state for layer in stack for part in layer]
    key: Fingerprint = (autocast_dtype(tensors[0]), *fingerprint(tensors))
    one = bilm.start_states.get(key, lambda: _read_marks(bilm, state))
    return BiLMState(*(expand_states(stack, n_sentences) for stack in one))


def _read_marks(bilm: "BiLM", state: Optional[BiLMState]) -> BiLMState:
    marks = word_vectors(bilm, [BOS, EOS])
    before = (None, None) if state is None else state
    stacks = (bilm.forward_lstm, bilm.backward_lstm)
    return BiLMState(
        *(
            stack(mark, [1], stack_state)[1]
            for stack, mark, stack_state in zip(stacks, marks.split(1), before)
        )
    )


def expand_states(stack: List[LSTMState], n_sentences: int) -> List[LSTMState]:
    """The states of one sequence, for several."""
    return [
        LSTMState(layer.hidden.expand(n_sentences, -1), layer.cell.expand(n_sentences, -1))
        for layer in stack
    ]


def run_batch(
    bilm: "BiLM",
    sentences: Sequence["Sentence"],
    state: Optional[BiLMState],
    layer_weights: Optional[Sequence[float]],
) -> Tuple[List[Array], BiLMState]:
    """All layers of a batch, or their weighted sum.

    :param sentences: sequences of one word or more; marks are words like others.
    :param state: the states before the first word, rows by falling length; none for zeros.
    :returns: an array of its own a sentence, *Shape:* (n_layers + 1, n_tokens, width) or
        (n_tokens, width), and the states after each sentence.
    """
    packed = PackedWords.of(sentences, bilm.device)
    rows, reverse, batch_sizes = packed.rows, packed.reverse, packed.batch_sizes
    tokens = word_vectors(bilm, packed.words)[packed.numbers]

    before = (None, None) if state is None else state
    stacks = bilm.forward_lstm, bilm.backward_lstm
    # Where each direction has each position, sentence by sentence.
    halves: Tuple[_Half, _Half]
    if bilm.encoder_projection is None:
        (ahead, state_ahead), (back, state_back) = run_side_by_side(
            stacks, (tokens, tokens[reverse]), batch_sizes, before
        )
        halves = [([tokens, *ahead], rows)], [([tokens], rows), (back, reverse[rows])]
    else:
        (top_ahead, top_back), (state_ahead, state_back) = run_joint_lstm(
            *stacks, bilm.encoder_projection, tokens, batch_sizes, reverse, before
        )
        halves = [([tokens, top_ahead], rows)], [([tokens, top_back], rows)]
    both = [_gather(parts, layer_weights) for parts in halves]
    arrays = torch.cat(both, dim=-1).float().cpu().numpy()
    ends = numpy.cumsum(packed.lengths)
    # A copy of its own: a view would keep the layers of the whole sub-batch alive.
    found = [arrays[..., end - n : end, :].copy() for n, end in zip(packed.lengths, ends)]
    return found, BiLMState(state_ahead, state_back)


def _gather(parts: _Half, layer_weights: Optional[Sequence[float]]) -> Tensor:
    """Layers of one direction sentence by sentence, or their weighted sum."""
    if layer_weights is None:
        return torch.stack([layer[rows] for layers, rows in parts for layer in layers])
    weights = iter(layer_weights)
    total: Optional[Tensor] = None
    for layers, rows in parts:
        mixed = torch.zeros_like(layers[0])
        for layer in layers:
            mixed.add_(layer, alpha=float(next(weights)))
        total = mixed[rows] if total is None else total.add_(mixed[rows])
    assert total is not None
    return total
