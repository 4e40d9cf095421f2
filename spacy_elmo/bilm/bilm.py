"""The bidirectional language model: token layer, one LSTM stack a direction, and their layers."""

from functools import partial
from os import PathLike
from pathlib import Path
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .. import registry
from .characters import BOS, EOS
from .config import BiLMConfig
from .fixed_weights import Kept, fingerprint
from .inference import MAX_SENTENCES, expand_states, run_batch, start_states
from .joint_lstm import run_joint_lstm
from .lstm import BiLMState, LSTMStack, LSTMState
from .packing import PackedWords
from .precision import Precision, autocast
from .token_layer import TokenLayer
from .token_reader import TokenReader
from .warm_up import WARM_UP_SENTENCES
from .word_cache import WordCache

InitialState = Literal["zero", "warm", "carry"]
INITIAL_STATES: Tuple[InitialState, ...] = ("zero", "warm", "carry")

#: Positions (tokens and sentence marks) that run in one sub-batch unless a caller says otherwise.
BATCH_TOKENS = 4096

Sentence = Sequence[str]


class BiLM(nn.Module):
    """A bidirectional language model whose layers are contextual word vectors
    (Peters et al. 2018, section 3).

    Layer 0 is the token vector written twice, layer j the forward and backward output of LSTM
    layer j side by side. Each sentence is read between ``<S>`` and ``</S>``, which are not part
    of the result.

    :param config: the sizes. The weights start at random.
    :param words: entries of the word table in the order of their rows, ``<UNK>`` among them, where
        ``config`` has such a table.
    :param code_points: entries of the table of characters, where ``config`` has code points.
    :raises ValueError: a dictionary is missing or does not fit ``config``.

    ``metadata`` holds JSON-serializable facts that travel with the weights: how they score, or the
    mixes that were learned with them.
    """

    def __init__(
        self,
        config: BiLMConfig,
        *,
        words: Optional[Sequence[str]] = None,
        code_points: Optional[Sequence[str]] = None,
    ) -> None:
        super().__init__()
        #: Where the weights came from, if from a file.
        self.source: Optional[Path] = None
        self.token_layer = TokenLayer(TokenReader(config, words, code_points))
        self.config = config = self.token_layer.reader.config
        self.metadata: Dict[str, Any] = {}
        self.forward_lstm = LSTMStack(config)
        self.backward_lstm = LSTMStack(config)
        self.encoder_projection = (
            nn.Linear(config.cell_size, config.projection_dim) if config.encoder == "lstm" else None
        )
        # [direction, LSTM layer, hidden_size] and [direction, LSTM layer, cell_size]
        self.warm_hidden: Optional[Tensor]
        self.warm_cell: Optional[Tensor]
        self.register_buffer("warm_hidden", None)
        self.register_buffer("warm_cell", None)
        #: Context-free vectors of words that :meth:`embed` saw before.
        self.word_cache = WordCache()
        self.start_states: Kept[BiLMState] = Kept()

    @classmethod
    def from_pretrained(cls, path: Union[str, "PathLike[str]"]) -> "BiLM":
        """Load weights of any supported format, detected by content.

        :param path: a directory, a ``.zip`` or a ``.tar.gz`` of one, or one file of weights.
        :raises FileNotFoundError: there is nothing at the path.
        :raises ValueError: nothing supported is there, or the files contradict each other; the
            message names the file, the field and both shapes.
        """
        return registry.persistence.get("load")(path)

    def save_pretrained(self, path: Union[str, "PathLike[str]"]) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a directory, both or neither.

        :param path: the directory, made if it is not there.
        :raises ValueError: weights in another format are there, or the softmax of another biLM.
        """
        registry.persistence.get("save")(self, path)

    @property
    def width(self) -> int:
        """Size of a layer's row, both directions together."""
        return self.config.width

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def encode_words(self, words: Sequence[str]) -> Tensor:
        """Context-free vectors of words, ``<S>`` and ``</S>`` being the sentence marks.

        :returns: *Shape:* (n_words, projection_dim)
        """
        return self.token_layer(*self.token_layer.reader.read(words).to(self.device))

    def forward(
        self, sentences: Sequence[Sentence], state: Optional[BiLMState] = None
    ) -> Tuple[List[Tensor], BiLMState]:
        """All layers of one batch, with gradients where they are enabled.

        :param sentences: sentences of one token or more.
        :param state: the state to start from, rows by falling length; none for zeros.
        :returns: a tensor a sentence, *Shape:* (n_layers + 1, n_tokens, width), and the state
            after each sentence, rows by falling length.
        """
        marked = [[BOS, *sentence, EOS] for sentence in sentences]
        packed = PackedWords.of(marked, self.device)
        rows, reverse, batch_sizes = packed.rows, packed.reverse, packed.batch_sizes
        # The character convolutions run once a distinct word.
        tokens = self.encode_words(packed.words)[packed.numbers]
        before = BiLMState(*state) if state is not None else (None, None)
        halves = [(tokens, tokens)]
        if self.encoder_projection is not None:
            top, (state_ahead, state_back) = run_joint_lstm(
                self.forward_lstm,
                self.backward_lstm,
                self.encoder_projection,
                tokens,
                batch_sizes,
                reverse,
                before,
            )
            halves.append(top)
        else:
            ahead, state_ahead = self.forward_lstm(tokens, batch_sizes, before[0])
            back, state_back = self.backward_lstm(tokens[reverse], batch_sizes, before[1])
            halves.extend((f, b[reverse]) for f, b in zip(ahead, back))
        # [n_layers + 1, n_positions, width], sentence by sentence
        layers = torch.stack([torch.cat(pair, dim=1)[rows] for pair in halves])
        by_sentence = [part[:, 1:-1] for part in layers.split(packed.lengths, dim=1)]
        return by_sentence, BiLMState(state_ahead, state_back)

    def embed(
        self,
        sentences: Sequence[Sentence],
        *,
        initial_state: InitialState = "zero",
        batch_tokens: int = BATCH_TOKENS,
        precision: Precision = "float32",
    ) -> List[NDArray[numpy.float32]]:
        """All layers of sentences, as arrays of their own.

        The result is a function of each sentence alone, whatever stands beside it (``carry``
        excepted), to float32 rounding.

        :param sentences: lists of words; an empty one gives no rows.
        :param initial_state: what the LSTMs remember before a sentence. ``zero``: nothing.
            ``warm``: one fixed state, stored with the weights or computed from a fixed text.
            ``carry``: what the sentence before left, the first one starting from zero, as
            AllenNLP and bilm-tf do with a stream of single sentences; for comparing with them.
        :param batch_tokens: positions (tokens and marks) in one sub-batch. It bounds memory
            and changes no result.
        :param precision: of the LSTMs' products. ``bfloat16`` takes about half the time on CPUs
            and GPUs that have such products; its vectors have a cosine of 0.999 or more with
            those of ``float32``. The result is float32 either way.
        :returns: float32 arrays. *Shape:* (n_layers + 1, n_tokens, width)
        :raises ValueError: a sentence is no list of strings, an unknown ``initial_state``, or a
            precision that the device does not have.
        """
        found: Dict[int, NDArray[numpy.float32]] = dict(
            self.iter_embed(
                sentences,
                initial_state=initial_state,
                batch_tokens=batch_tokens,
                precision=precision,
            )
        )
        return [found[number] for number in range(len(found))]

    def iter_embed(
        self,
        sentences: Sequence[Sentence],
        *,
        initial_state: InitialState = "zero",
        batch_tokens: int = BATCH_TOKENS,
        precision: Precision = "float32",
        layer_weights: Optional[Sequence[float]] = None,
    ) -> Iterator[Tuple[int, NDArray[numpy.float32]]]:
        """What :meth:`embed` does, sub-batch by sub-batch.

        :param layer_weights: weights of the layers, to get their weighted sum, *Shape:*
            (n_tokens, width), in place of all layers.
        :returns: pairs of sentence number and array, each sentence once, by rising length
            (``carry``: in order).
        """
        sentences = as_sentences(sentences)
        if initial_state not in INITIAL_STATES:
            raise ValueError(
                f"initial_state is {initial_state!r}; expected one of {', '.join(INITIAL_STATES)}."
            )
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens is {batch_tokens}; expected 1 or more.")
        n_layers = self.config.mixture_size
        if layer_weights is not None and len(layer_weights) != n_layers:
            raise ValueError(
                f"{len(layer_weights)} layer weights were given; this biLM has {n_layers} layers "
                f"(the token layer and {n_layers - 1} LSTM layers)."
            )
        products = partial(autocast, self.device, precision)
        products()
        if initial_state == "warm":
            self.warm_up()
        carries = initial_state == "carry"
        state: Optional[BiLMState] = None
        for numbers in plan_batches(sentences, 1 if carries else batch_tokens):
            batch = [sentences[number] for number in numbers]
            # Not around the yield: what the caller does then is no business of ours.
            with torch.inference_mode(), products():
                key = fingerprint(self.parameters())
                if not batch[0]:
                    empty = self.empty_layers().float().cpu().numpy()
                    arrays = [empty.copy() if layer_weights is None else empty[0] for _ in batch]
                elif carries or self.encoder_projection is not None:
                    # What follows the last mark is needed: by the sentence after, or by the layer
                    # above, which reads both directions.
                    marked = [[BOS, *sentence, EOS] for sentence in batch]
                    before = state if carries else self.initial_states(initial_state, len(batch))
                    arrays, state = run_batch(self, marked, before, layer_weights, key)
                    arrays = [array[..., 1:-1, :].copy() for array in arrays]
                else:
                    start = start_states(self, initial_state == "warm", len(batch), key)
                    arrays, _ = run_batch(self, batch, start, layer_weights, key)
            yield from zip(numbers, arrays)

    def perplexity(self, sentences: Iterable[Sentence]) -> Dict[str, float]:
        """How well the biLM predicts a text, under the whole distribution of the softmax that was
        trained with it, which is read from where the biLM came from.

        State is carried from sentence to sentence, as in training. Words that the vocabulary lacks
        are predicted as ``<UNK>``, so only models with the same vocabulary compare.

        :param sentences: lists of words, the whole text in its order. They are read as needed.
        :returns: ``forward``, ``backward`` and ``mean`` perplexity, ``n_predictions`` of one
            direction (each token, and a mark a sentence), ``n_tokens``, ``n_sentences``, and
            ``unknown_rate``, the part of the tokens that is unknown.
        :raises ValueError: there is no softmax, as published weights have none, or no word.
        """
        return registry.scoring.get("perplexity")(self, sentences)

    def empty_layers(self) -> Tensor:
        """The layers of a sentence without tokens. *Shape:* (n_layers + 1, 0, width)"""
        return torch.zeros(self.config.mixture_size, 0, self.width, device=self.device)

    def warm_up(self, sentences: Optional[Sequence[Sentence]] = None) -> None:
        """Set the state that ``initial_state="warm"`` starts from.

        It is what the LSTMs remember after reading the sentences one after the other, and is
        saved with the weights.

        :param sentences: the warm-up text; none keeps a state that is already set, or else reads
            a short fixed English text.
        """
        if sentences is None and self.warm_hidden is not None:
            return
        state: Optional[BiLMState] = None
        with torch.inference_mode(), autocast(self.device, "float32"):
            key = fingerprint(self.parameters())
            for sentence in WARM_UP_SENTENCES if sentences is None else sentences:
                _, state = run_batch(self, [[BOS, *sentence, EOS]], state, None, key)
        if state is None:
            raise ValueError("The warm-up text has no sentence; expected one or more.")
        # Clones made outside of inference mode are ordinary tensors, which can be saved, copied
        # and used in training.
        with torch.inference_mode(False):
            self.warm_cell = torch.stack(
                [torch.stack([layer.cell[0].clone() for layer in stack]) for stack in state]
            )
            self.warm_hidden = torch.stack(
                [torch.stack([layer.hidden[0].clone() for layer in stack]) for stack in state]
            )

    def initial_states(self, initial_state: InitialState, n_sentences: int) -> Optional[BiLMState]:
        """The state for :meth:`forward` to start sentences from; none stands for zeros.

        :raises ValueError: ``carry``, which has no state of its own.
        """
        if initial_state == "zero":
            return None
        if initial_state == "warm":
            self.warm_up()
            return self._warm_state(n_sentences)
        raise ValueError(f"initial_state is {initial_state!r}; expected 'zero' or 'warm'.")

    def _warm_state(self, n_sentences: int) -> BiLMState:
        assert self.warm_hidden is not None and self.warm_cell is not None
        stacks = (
            [LSTMState(hidden[None], cell[None]) for hidden, cell in zip(hiddens, cells)]
            for hiddens, cells in zip(self.warm_hidden, self.warm_cell)
        )
        return BiLMState(*(expand_states(stack, n_sentences) for stack in stacks))


def plan_batches(sentences: Sequence[Sentence], batch_tokens: int) -> Iterator[List[int]]:
    """Sentence numbers in sub-batches of at most ``batch_tokens`` positions and
    ``MAX_SENTENCES`` sentences (but at least one sentence), sentences of like length together;
    empty sentences stand in sub-batches of their own. With ``batch_tokens`` 1 every sentence
    stands alone, in the order given.
    """
    numbers = list(range(len(sentences)))
    if batch_tokens > 1:
        numbers.sort(key=lambda number: len(sentences[number]))
    batch: List[int] = []
    n_positions = 0
    for number in numbers:
        size = len(sentences[number]) + 2
        ends_empty = bool(batch) and not sentences[batch[-1]] and size > 2
        is_full = n_positions + size > batch_tokens or len(batch) == MAX_SENTENCES
        if batch and (is_full or ends_empty):
            yield batch
            batch, n_positions = [], 0
        batch.append(number)
        n_positions += size
    if batch:
        yield batch


def as_sentences(sentences: Iterable[Iterable[str]]) -> List[List[str]]:
    """Lists of words from any iterables of them.

    :raises ValueError: something else was given, a text for instance.
    """
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        raise ValueError(
            f"The sentences are {sentences!r:.80}; expected a list of lists of words. Split text "
            "into sentences and words first."
        )
    found: List[List[str]] = []
    for number, sentence in enumerate(sentences):
        is_iterable = isinstance(sentence, Iterable) and not isinstance(sentence, str)
        words = list(sentence) if is_iterable else None
        if words is None or not all(isinstance(word, str) for word in words):
            raise ValueError(
                f"Sentence {number} is {sentence!r:.80}; expected a list of words. "
                "Split text into words first."
            )
        found.append(words)
    return found
