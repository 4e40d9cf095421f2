"""The layers of sentences without gradients, sub-batch by sub-batch.

The marks around a sentence are no part of its result. Beyond the first mark of each direction,
what a direction has read is the same for all sentences, so it is kept with the weights; what a
direction gives at its last mark is never used, so it is left out.
"""

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from .characters import BOS, EOS
from .fixed_weights import Fingerprint, fingerprint
from .joint_lstm import run_joint_lstm
from .lstm import BiLMState, LSTMState, run_side_by_side
from .packing import PackedWords, take_rows
from .products import autocast_dtype
from .token_layer import WORDS_A_CHUNK
from .word_cache import in_chunks

if TYPE_CHECKING:
    from .bilm import BiLM, Sentence

Array = NDArray[numpy.float32]

# Layers of one direction, each with the row of every position in it.
_Half = Sequence[Tuple[Tensor, Tensor]]

# Sentences that run side by side at most. More would not make the products faster, and what a
# step works on would leave the caches.
MAX_SENTENCES = 128


def word_vectors(bilm: "BiLM", words: Sequence[str], key: Fingerprint) -> Tensor:
    """Context-free vectors of distinct words, from the cache where they are there.

    :param key: the fingerprint of the biLM's weights.
    :returns: *Shape:* (n_words, projection_dim)
    """
    # In float32 whatever the precision of the LSTMs: most words come from the cache anyway.
    with torch.autocast(bilm.device.type, enabled=False):
        return bilm.word_cache.vectors(
            words, key, lambda missing: in_chunks(bilm.encode_words, missing, WORDS_A_CHUNK)
        )


def start_states(bilm: "BiLM", is_warm: bool, n_sentences: int, key: Fingerprint) -> BiLMState:
    """The states of both directions after their first mark.

    :param is_warm: is the state before it the warm one? Zero otherwise.
    :param key: the fingerprint of the biLM's weights.
    """
    dtype = autocast_dtype(next(bilm.parameters()))
    warm = (bilm.warm_hidden, bilm.warm_cell) if is_warm else ()
    before = fingerprint(part for part in warm if part is not None)
    one = bilm.start_states.get((dtype, *key, *before), lambda: _read_marks(bilm, is_warm, key))
    return BiLMState(*(expand_states(stack, n_sentences) for stack in one))


def _read_marks(bilm: "BiLM", is_warm: bool, key: Fingerprint) -> BiLMState:
    marks = word_vectors(bilm, [BOS, EOS], key)
    before = bilm.initial_states("warm" if is_warm else "zero", 1) or (None, None)
    stacks = bilm.forward_lstm, bilm.backward_lstm
    both = run_side_by_side(stacks, marks.split(1), [1], before, key)
    return BiLMState(*(states for _, states in both))


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
    key: Fingerprint,
) -> Tuple[List[Array], BiLMState]:
    """All layers of a batch, or their weighted sum.

    :param sentences: sequences of one word or more; marks are words like others.
    :param state: the states before the first word, rows by falling length; none for zeros.
    :param key: the fingerprint of the biLM's weights.
    :returns: an array of its own a sentence, *Shape:* (n_layers + 1, n_tokens, width) or
        (n_tokens, width), and the states after each sentence.
    """
    packed = PackedWords.of(sentences, bilm.device)
    rows, reverse, batch_sizes = packed.rows, packed.reverse, packed.batch_sizes
    tokens = take_rows(word_vectors(bilm, packed.words, key), packed.numbers)

    before = (None, None) if state is None else state
    stacks = bilm.forward_lstm, bilm.backward_lstm
    # The layers of each direction, each with the row of every position, sentence by sentence.
    halves: Tuple[_Half, _Half]
    if bilm.encoder_projection is None:
        (ahead, state_ahead), (back, state_back) = run_side_by_side(
            stacks, (tokens, take_rows(tokens, reverse)), batch_sizes, before, key
        )
        mirrored = reverse[rows]
        halves = (
            [(layer, rows) for layer in (tokens, *ahead)],
            [(tokens, rows), *((layer, mirrored) for layer in back)],
        )
    else:
        (top_ahead, top_back), (state_ahead, state_back) = run_joint_lstm(
            *stacks, bilm.encoder_projection, tokens, batch_sizes, reverse, before
        )
        halves = [(tokens, rows), (top_ahead, rows)], [(tokens, rows), (top_back, rows)]
    ahead_arrays, back_arrays = (_as_arrays(half, layer_weights) for half in halves)
    found = _by_sentence(ahead_arrays, back_arrays, packed.lengths)
    if layer_weights is not None:
        found = [array[0] for array in found]
    return found, BiLMState(state_ahead, state_back)


def _as_arrays(half: _Half, layer_weights: Optional[Sequence[float]]) -> List[Array]:
    """Layers of one direction sentence by sentence, or their weighted sum alone."""
    layers = [take_rows(layer, rows).float() for layer, rows in half]
    if layer_weights is None:
        return [layer.cpu().numpy() for layer in layers]
    # A GPU sums before they leave it, a CPU by numpy for the reason that take_rows gives.
    values: List[Any] = [part.numpy() if part.device.type == "cpu" else part for part in layers]
    total = values[0] * float(layer_weights[0])
    for value, weight in zip(values[1:], layer_weights[1:]):
        total += value * float(weight)
    return [total if isinstance(total, numpy.ndarray) else total.cpu().numpy()]


def _by_sentence(
    ahead: Sequence[Array], back: Sequence[Array], lengths: Sequence[int]
) -> List[Array]:
    """Both directions side by side, in arrays that share no memory."""
    width = ahead[0].shape[1]
    found: List[Array] = []
    end = 0
    for n in lengths:
        begin, end = end, end + n
        array = numpy.empty((len(ahead), n, 2 * width), dtype=numpy.float32)
        for number in range(len(ahead)):
            array[number, :, :width] = ahead[number][begin:end]
            array[number, :, width:] = back[number][begin:end]
        found.append(array)
    return found
