"""Log-probabilities of text, word by word, under the whole distribution of the softmax.

The text is read in rows of whole sentences, each from a state of zeros, state carried from
sentence to sentence as in training. The rows follow from the text alone, so how many of them are
read side by side changes no value.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray

from ..bilm import BiLMState
from .encoding import EncodedText
from .lm import LanguageModel
from .rows import Rows, iter_rows
from .text.stream import WordStream
from .vocabulary import UNK_ID, Vocabulary

# Rows that are read side by side unless a caller says otherwise.
BATCH_SIZE = 64

# Steps that run at a time, which bounds memory however long a row is.
STEPS_A_WINDOW = 100

#: What each position's word costs in each direction, in nats. *Shape:* (n_positions,) each
Losses = Tuple[NDArray[numpy.float64], NDArray[numpy.float64]]


@dataclass(frozen=True)
class SentenceScore:
    """A sentence's log-probabilities, in nats (natural logarithms).

    The context of a word reaches beyond its sentence, as in training: forward to the sentences
    before it, backward to those after it.

    :param words: its n words.
    :param forward: n + 1 values: ``log p(word k | all before it)``, at last that of the mark
        ``</S>`` after the last word.
    :param backward: n + 1 values: ``log p(word k | all after it)``, at last that of the mark
        ``<S>`` before the first word.
    :param unknown: n values: whether the vocabulary lacks the word; its log-probability is then
        that of ``<UNK>``, which stands for all such words together.
    """

    words: List[str]
    forward: List[float]
    backward: List[float]
    unknown: List[bool]


def score_sentences(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Iterable[Sequence[str]],
    *,
    batch_size: int = BATCH_SIZE,
) -> Iterator[SentenceScore]:
    """Score sentences in their order. They are read as they are needed, so a text of any length
    takes the same memory.

    :param model: the language model; its mode (training or not) is left as it was.
    :param sentences: lists of words; one without a word gets an empty score.
    :param batch_size: rows of text read side by side. It changes no value, but to rounding.
    :raises ValueError: a sentence is a string, or ``batch_size`` is below 1.
    """
    _require_batch_size(batch_size)
    rows = iter_rows(sentences, lambda sentence: len(sentence) + 2 if sentence else 0)
    while group := list(islice(rows, batch_size)):
        batch = [sentence for row in group for sentence in row]
        scores = _score_batch(model, vocabulary, [s for s in batch if len(s) > 0])
        for sentence in batch:
            yield next(scores) if len(sentence) > 0 else SentenceScore([], [], [], [])


def iter_losses(
    model: LanguageModel, text: EncodedText, *, batch_size: int = BATCH_SIZE
) -> Iterator[Losses]:
    """Negative log-probabilities of the positions of an encoded text, rows after rows.

    :param model: the language model; its mode (training or not) is left as it was.
    :param text: the text, encoded with the model's vocabulary.
    :param batch_size: rows of text read side by side.
    :returns: those of the next positions, in the order of the text; 0 where a direction predicts
        nothing: forward at ``<S>``, backward at ``</S>``.
    :raises ValueError: ``batch_size`` is below 1.
    """
    _require_batch_size(batch_size)
    rows = iter_rows(text.stream.lengths.tolist(), int)
    begin = 0
    while group := [sum(row) for row in islice(rows, batch_size)]:
        end = begin + sum(group)
        yield _score_rows(model, Rows(text, text.stream.types[begin:end], numpy.array(group)))
        begin = end


def _score_batch(
    model: LanguageModel, vocabulary: Vocabulary, sentences: List[Sequence[str]]
) -> Iterator[SentenceScore]:
    if not sentences:
        return
    stream = WordStream.from_sentences(sentences)
    text = EncodedText(stream, vocabulary, model.bilm.token_layer.reader)
    # The same rows as those that the sentences were taken by, so there is one batch of them.
    ((ahead, back),) = iter_losses(model, text, batch_size=len(sentences))
    end = 0
    for sentence in sentences:
        begin, end = end, end + len(sentence) + 2
        # Backward, the mark stands before the words.
        in_order = numpy.concatenate([back[begin + 1 : end - 1], back[begin : begin + 1]])
        yield SentenceScore(
            words=list(sentence),
            forward=(-ahead[begin + 1 : end]).tolist(),
            backward=(-in_order).tolist(),
            unknown=[vocabulary.id_of(word) == UNK_ID for word in sentence],
        )


def _score_rows(model: LanguageModel, rows: Rows) -> Losses:
    parts: List[List[NDArray[numpy.float64]]] = [[], []]
    state: Optional[BiLMState] = None
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for batch in rows.iter_windows(STEPS_A_WINDOW):
                losses, state = model.exact_losses(batch.to(model.bilm.device), state)
                for part, values in zip(parts, losses):
                    part.append(values.double().cpu().numpy())
    finally:
        model.train(was_training)
    result = (numpy.zeros(len(rows.types)), numpy.zeros(len(rows.types)))
    for losses_of, positions, part in zip(result, rows.predicted(), parts):
        losses_of[positions] = numpy.concatenate(part)
    return result


def _require_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; expected 1 or more.")
