"""Vectors of sentences, block by block in their order, in memory that no text can exceed but by
one long sentence."""

import base64
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import numpy
import torch
from numpy.typing import NDArray
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from ..bilm import BiLM, BiLMState, InitialState, LSTMState
from .sentences import Sentence

# A block is as long as so many sub-batches: sentences of like length are found within it.
BATCHES_A_BLOCK = 4

Vectors = NDArray[numpy.floating]


class Block(NamedTuple):
    """Sentences that follow each other, with their vectors.

    :param first: number of the first one.
    :param arrays: *Shape:* (n_layers + 1, n_tokens, width) or (n_tokens, width) each
    """

    first: int
    sentences: List[Sentence]
    arrays: List[Vectors]


class Embedder:
    """Computes blocks.

    :param weights: weights of the layers, none for all layers.
    :param precision: ``float32`` or ``float16``, of the result.
    :param carried: for ``carry``: the state to go on from, as :meth:`carried` gave it.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        weights: Optional[Sequence[float]],
        precision: str,
        initial_state: InitialState,
        batch_tokens: int,
        carried: Optional[str] = None,
    ) -> None:
        self.bilm = bilm
        self.weights = weights
        self.dtype = numpy.dtype(precision)
        self.initial_state = initial_state
        self.batch_tokens = batch_tokens
        self._state = _unpack_state(carried, bilm.device) if carried else None

    def iter_blocks(
        self, sentences: Iterable[Sentence], first: int, done: Callable[[int], None]
    ) -> Iterator[Block]:
        """Blocks of sentences.

        :param first: number of the first sentence.
        :param done: told the number of tokens that were embedded, now and then.
        :raises ValueError: a value is too large for float16.
        """
        for block in _cut(sentences, BATCHES_A_BLOCK * self.batch_tokens):
            words = [
                [word for word in sentence.words if word and not word.isspace()]
                for sentence in block
            ]
            found: List[Optional[Vectors]] = [None] * len(block)
            for number, array in self._embed(words):
                array = _spread(array, block[number].words)
                found[number] = self._convert(array, first + number)
                done(len(block[number].words))
            yield Block(first, block, [array for array in found if array is not None])
            first += len(block)

    def carried(self) -> Optional[str]:
        """The state after the last block as text, where there is one."""
        return _pack_state(self._state) if self._state is not None else None

    def _embed(self, words: List[List[str]]) -> "Iterator[tuple[int, Vectors]]":
        if self.initial_state != "carry":
            yield from self.bilm.iter_embed(
                words,
                initial_state=self.initial_state,
                batch_tokens=self.batch_tokens,
                layer_weights=self.weights,
            )
            return
        # The state goes from block to block, so here the sentences run one by one.
        for number, sentence in enumerate(words):
            with torch.inference_mode():
                layers = self.bilm.empty_layers()
                if sentence:
                    (layers,), self._state = self.bilm([sentence], self._state)
                if self.weights is not None:
                    layers = torch.einsum("l,lnw->nw", layers.new_tensor(self.weights), layers)
                yield number, layers.cpu().float().numpy()

    def _convert(self, array: Vectors, number: int) -> Vectors:
        if array.dtype == self.dtype:
            return array
        with numpy.errstate(over="ignore"):
            converted = array.astype(self.dtype)
        if not numpy.isfinite(converted).all():
            raise ValueError(
                f"Sentence {number} has a value of {float(numpy.abs(array).max()):.6g}, which "
                f"{self.dtype} cannot hold. Set precision (--precision) to float32."
            )
        return converted


def _cut(sentences: Iterable[Sentence], n_positions: int) -> Iterator[List[Sentence]]:
    """Sentences in blocks of at most so many positions, or of one sentence."""
    block: List[Sentence] = []
    size = 0
    for sentence in sentences:
        n = len(sentence.words) + 2
        if block and size + n > n_positions:
            yield block
            block, size = [], 0
        block.append(sentence)
        size += n
    if block:
        yield block


def _spread(array: Vectors, words: List[str]) -> Vectors:
    """Rows of zeros for words that are whitespace, which the biLM does not read."""
    if array.shape[-2] == len(words):
        return array
    rows = [number for number, word in enumerate(words) if word and not word.isspace()]
    spread = numpy.zeros((*array.shape[:-2], len(words), array.shape[-1]), dtype=array.dtype)
    spread[..., rows, :] = array
    return spread


def _pack_state(state: BiLMState) -> str:
    tensors = {
        f"{direction} {number} {part}": values.cpu().clone()
        for direction, stack in zip(BiLMState._fields, state)
        for number, layer in enumerate(stack)
        for part, values in zip(LSTMState._fields, layer)
    }
    return base64.b64encode(save_safetensors(tensors)).decode("ascii")


def _unpack_state(text: str, device: torch.device) -> BiLMState:
    tensors = load_safetensors(base64.b64decode(text))
    stacks: Dict[str, List[LSTMState]] = {direction: [] for direction in BiLMState._fields}
    for direction, stack in stacks.items():
        while f"{direction} {len(stack)} {LSTMState._fields[0]}" in tensors:
            parts = [f"{direction} {len(stack)} {part}" for part in LSTMState._fields]
            stack.append(LSTMState(*(tensors[part].to(device) for part in parts)))
    return BiLMState(**stacks)
