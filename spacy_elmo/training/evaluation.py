"""Perplexity of text under the whole distribution of the softmax."""

import math
from typing import Iterable, Sequence, TypedDict

from ..bilm import BiLM
from .encoding import EncodedText
from .lm import LanguageModel
from .scoring import BATCH_SIZE, SentenceScore, iter_losses, score_sentences
from .storage import with_softmax


class Perplexities(TypedDict):
    """How well a text is predicted.

    ``forward`` and ``backward`` are each direction's perplexity, ``mean`` is ``exp`` of the mean
    of both directions' mean losses. ``n_predictions`` are those of one direction: every token,
    and a mark a sentence. ``unknown_rate`` is the part of the tokens that the vocabulary lacks;
    each is predicted as ``<UNK>``, so perplexities of models with different vocabularies do not
    compare.
    """

    forward: float
    backward: float
    mean: float
    n_predictions: int
    n_tokens: int
    n_sentences: int
    unknown_rate: float


def evaluate(
    model: LanguageModel, text: EncodedText, *, batch_size: int = BATCH_SIZE
) -> Perplexities:
    """Perplexity of a text, each token and one mark a sentence predicted once a direction, state
    carried from sentence to sentence in the order of the text (see
    :mod:`spacy_elmo.training.scoring`).

    :param model: the language model; its mode (training or not) is left as it was.
    :param text: the text, encoded with the model's vocabulary.
    :param batch_size: rows of text read side by side. It changes no value, but to rounding.
    """
    ahead = back = 0.0
    for losses in iter_losses(model, text, batch_size=batch_size):
        ahead += float(losses[0].sum())
        back += float(losses[1].sum())
    stream = text.stream
    n_unknown = round(text.unknown_rate * stream.n_tokens)
    return _perplexities(ahead, back, stream.n_tokens, stream.n_sentences, n_unknown)


def summarize(scores: Iterable[SentenceScore]) -> Perplexities:
    """Perplexity of scored sentences: what :func:`evaluate` gives of their text.

    :param scores: read one after the other.
    :raises ValueError: no sentence has a word.
    """
    ahead = back = 0.0
    n_tokens = n_sentences = n_unknown = 0
    for score in scores:
        ahead -= math.fsum(score.forward)
        back -= math.fsum(score.backward)
        n_tokens += len(score.words)
        n_sentences += len(score.words) > 0
        n_unknown += sum(score.unknown)
    if n_tokens == 0:
        raise ValueError("The text has no words; expected one sentence or more.")
    return _perplexities(ahead, back, n_tokens, n_sentences, n_unknown)


def bilm_perplexity(bilm: BiLM, sentences: Iterable[Sequence[str]]) -> Perplexities:
    """Registered as ``perplexity``: see :meth:`BiLM.perplexity`.

    :raises ValueError: the biLM came from no file, or from one without a softmax; or no sentence
        has a word.
    """
    if bilm.source is None:
        raise ValueError(
            "This biLM was not read from a file, so it has no softmax, without which there are no "
            "probabilities. Expected BiLM.from_pretrained of a directory that spacy elmo train "
            "wrote, such as model-best."
        )
    return summarize(score_sentences(*with_softmax(bilm, bilm.source), sentences))


def perplexity(loss: float) -> float:
    """``exp(loss)``, infinite where that is too large for a float."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _perplexities(
    ahead: float, back: float, n_tokens: int, n_sentences: int, n_unknown: int
) -> Perplexities:
    n_predictions = n_tokens + n_sentences
    return {
        "forward": perplexity(ahead / n_predictions),
        "backward": perplexity(back / n_predictions),
        "mean": perplexity((ahead + back) / 2 / n_predictions),
        "n_predictions": n_predictions,
        "n_tokens": n_tokens,
        "n_sentences": n_sentences,
        "unknown_rate": n_unknown / n_tokens,
    }
