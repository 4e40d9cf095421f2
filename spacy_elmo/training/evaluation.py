"""Perplexity of text under the full softmax."""

import math
from typing import Optional, TypedDict

import torch

from ..bilm import BiLMState
from .batches import Batches
from .encoding import EncodedText
from .lm import LanguageModel

# The text is read in rows of about this many positions, so that hardly any of them is read
# without what stands before it; no row is that short unless the text is.
POSITIONS_A_ROW = 500
MAX_ROWS = 64
STEPS_A_WINDOW = 100


class Perplexities(TypedDict):
    """Perplexity of each direction, ``exp`` of the mean of both directions' mean losses, and the
    number of predictions of one direction."""

    forward: float
    backward: float
    mean: float
    n_predictions: int


def evaluate(
    model: LanguageModel, text: EncodedText, *, n_rows: Optional[int] = None
) -> Perplexities:
    """Perplexity with the full softmax, each token and one mark a sentence predicted once a
    direction, state carried from sentence to sentence in the order of the text.

    :param model: the language model; its mode (training or not) is left as it was.
    :param text: the text, encoded with the model's vocabulary.
    :param n_rows: rows to read side by side, each from a state of zeros; none: as many as leave
        each of them some 500 positions. Their number, unlike anything in the training
        settings, changes the result a little.
    """
    stream = text.stream
    if n_rows is None:
        n_rows = max(1, min(MAX_ROWS, stream.n_positions // POSITIONS_A_ROW))
    was_training = model.training
    model.eval()
    sums = [0.0, 0.0]
    n_predictions = [0, 0]
    state: Optional[BiLMState] = None
    try:
        with torch.inference_mode():
            for batch in Batches(text, stream.types, n_rows=n_rows, unroll_steps=STEPS_A_WINDOW):
                losses, state = model.exact_losses(batch, state)
                for direction, values in enumerate(losses):
                    sums[direction] += float(values.double().sum())
                    n_predictions[direction] += len(values)
    finally:
        model.train(was_training)
    ahead, back = (total / n for total, n in zip(sums, n_predictions))
    return {
        "forward": perplexity(ahead),
        "backward": perplexity(back),
        "mean": perplexity((ahead + back) / 2),
        "n_predictions": n_predictions[0],
    }


def perplexity(loss: float) -> float:
    """``exp(loss)``, infinite where that is too large for a float."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
