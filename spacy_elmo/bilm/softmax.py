"""Softmax heads: from a direction's output to the probability of the next (or previous) word.

A head is shared by both directions and needed for training and scoring only, so it is no part of
the BiLM. Whatever a head does while it trains, its :meth:`SoftmaxHead.exact_losses` are those of
a distribution over the whole vocabulary.
"""

from functools import partial
from typing import Any, Callable, Dict

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from .sampled_softmax import sampled_loss
from .sampling import DRAWS, Distribution, draw_sample, inclusion_probabilities

# Logits that exist at a time (32 MB), which bounds memory whatever the vocabulary.
LOGITS_A_CHUNK = 2**23


class SoftmaxHead(nn.Module):
    """Base class of the heads: a distribution over the vocabulary for every output of a
    direction. What a subclass keeps in its ``state_dict`` is stored with the model.
    """

    @property
    def n_words(self) -> int:
        """Size of the vocabulary, the special entries included."""
        raise NotImplementedError

    @property
    def stored_as(self) -> Dict[str, Any]:
        """The config block of the registered head that the stored weights are read into."""
        raise NotImplementedError

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The loss that training minimizes, in nats: the sum over the predictions.

        :param hidden: *Shape:* (n_predictions, projection_dim)
        :param targets: vocabulary ids. *Shape:* (n_predictions,)
        :returns: a scalar.
        """
        return self.exact_losses(hidden, targets).sum()

    def exact_losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-probabilities under the whole distribution, in nats. Memory is bounded
        whatever the vocabulary, with gradients too.

        :param hidden: *Shape:* (n_predictions, projection_dim)
        :param targets: vocabulary ids. *Shape:* (n_predictions,)
        :returns: *Shape:* (n_predictions,)
        """
        raise NotImplementedError


class WordVectorSoftmax(SoftmaxHead):
    """A vector and a bias for every word of the vocabulary.

    The biases start at the log frequencies, so that a new head gives every word its share of the
    text and training spends no step on that.

    :param projection_dim: size of a direction's output.
    :param counts: how often each word is predicted, in the order of the vocabulary; a word that
        never is counts as seen once. *Shape:* (n_words,)
    """

    def __init__(self, projection_dim: int, counts: Tensor) -> None:
        super().__init__()
        frequency = counts.clamp(min=1).double()
        self.weight = nn.Parameter(torch.empty(len(counts), projection_dim))
        self.bias = nn.Parameter((frequency / frequency.sum()).log().float())
        nn.init.normal_(self.weight, std=projection_dim**-0.5)

    @property
    def n_words(self) -> int:
        return len(self.bias)

    @property
    def stored_as(self) -> Dict[str, Any]:
        return {"@softmax_heads": "spacy-elmo.FullSoftmax.v1"}

    def exact_losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return in_chunks(self._exact_chunk, hidden, targets, self.n_words)

    def _exact_chunk(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = functional.linear(hidden, self.weight, self.bias)
        return functional.cross_entropy(logits, targets, reduction="none")


def in_chunks(
    losses: Callable[[Tensor, Tensor], Tensor], hidden: Tensor, targets: Tensor, n_logits: int
) -> Tensor:
    """The losses of predictions with a bound on the logits that exist at a time.

    :param losses: (hidden, targets) -> losses.
    :param n_logits: logits of one prediction.
    """
    n_rows = max(1, LOGITS_A_CHUNK // n_logits)
    if len(targets) <= n_rows:
        return losses(hidden, targets)
    parts = []
    for chunk in zip(hidden.split(n_rows), targets.split(n_rows)):
        if torch.is_grad_enabled():
            # The graph would keep the logits of all chunks.
            parts.append(checkpoint(losses, *chunk, use_reentrant=False))
        else:
            parts.append(losses(*chunk))
    return torch.cat(parts)


class FullSoftmax(WordVectorSoftmax):
    """The softmax over the whole vocabulary, in training too."""


class SampledSoftmax(WordVectorSoftmax):
    """Training compares each target with a sample of the vocabulary (Jean et al. 2015, section 3).

    One sample of distinct words is drawn a batch. A sampled word stands for all those like it that
    were not drawn: its logit grows by minus the log of its probability to be in the sample (its
    expected count), which makes the sum of the exponentials right on average. A word that is a
    position's target is no sample there.

    :param n_samples: size of a sample. From the size of the vocabulary on, the result is the full
        softmax.
    :param distribution: what a word's probability to be drawn follows. ``log_uniform``: its rank,
        as in bilm-tf; ranks are by count, so the order of the vocabulary does not matter.
        ``counts``: its count.
    """

    def __init__(
        self,
        projection_dim: int,
        counts: Tensor,
        *,
        n_samples: int,
        distribution: Distribution = "log_uniform",
    ) -> None:
        super().__init__(projection_dim, counts)
        self.inclusion: Tensor
        of_a_draw = DRAWS[distribution](counts)
        self.register_buffer(
            "inclusion", inclusion_probabilities(of_a_draw, n_samples), persistent=False
        )

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        samples = draw_sample(self.inclusion)
        correction = -self.inclusion[samples].log()
        return sampled_loss(hidden, targets, self.weight, self.bias, samples, correction)


#: What a config's softmax block gives: (projection_dim, counts) -> head.
HeadMaker = Callable[[int, Tensor], SoftmaxHead]


def build_full_softmax_v1() -> HeadMaker:
    """A head that uses the whole vocabulary in training: exact, slow from some ten thousand
    words on."""
    return FullSoftmax


def build_sampled_softmax_v1(
    *, n_samples: int = 1024, distribution: Distribution = "log_uniform"
) -> HeadMaker:
    """A head that compares with a sample of the vocabulary in training.

    :param n_samples: words compared with.
    :param distribution: ``log_uniform``: frequent words are drawn more often, by their rank.
        ``counts``: by their count, so that rare words are hardly ever drawn.
    :raises ValueError: ``n_samples`` is below 1, or there is no such distribution.
    """
    if n_samples < 1:
        raise ValueError(f"n_samples is {n_samples}; expected 1 or more.")
    if distribution not in DRAWS:
        raise ValueError(f"distribution is {distribution!r}; expected one of {', '.join(DRAWS)}.")
    return partial(SampledSoftmax, n_samples=n_samples, distribution=distribution)
