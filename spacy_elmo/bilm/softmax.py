"""Softmax heads: from a direction's output to the probability of the next (or previous) word.

A head is shared by both directions and needed for training and scoring only, so it is no part of
the BiLM. Whatever a head does while it trains, its :meth:`SoftmaxHead.exact_losses` are those of
the full softmax.
"""

from functools import partial
from typing import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

# Logits that exist at a time (32 MB), which bounds memory whatever the vocabulary.
LOGITS_A_CHUNK = 2**23


class SoftmaxHead(nn.Module):
    """A vector and a bias for every word of the vocabulary; base class of the heads.

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
        """Size of the vocabulary, the special entries included."""
        return len(self.bias)

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The loss that training minimizes, in nats, for every prediction.

        :param hidden: *Shape:* (n_predictions, projection_dim)
        :param targets: vocabulary ids. *Shape:* (n_predictions,)
        :returns: *Shape:* (n_predictions,)
        """
        raise NotImplementedError

    def exact_losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-probabilities under the full softmax, in nats; shapes as in
        :meth:`forward`. Memory is bounded whatever the vocabulary, with gradients too.
        """
        n_rows = max(1, LOGITS_A_CHUNK // self.n_words)
        if len(targets) <= n_rows:
            return self._exact_chunk(hidden, targets)
        losses = []
        for chunk in zip(hidden.split(n_rows), targets.split(n_rows)):
            if torch.is_grad_enabled():
                losses.append(checkpoint(self._exact_chunk, *chunk, use_reentrant=False))
            else:
                losses.append(self._exact_chunk(*chunk))
        return torch.cat(losses)

    def _exact_chunk(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = functional.linear(hidden, self.weight, self.bias)
        return functional.cross_entropy(logits, targets, reduction="none")


class FullSoftmax(SoftmaxHead):
    """The softmax over the whole vocabulary, in training too."""

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self.exact_losses(hidden, targets)


class SampledSoftmax(SoftmaxHead):
    """Training compares each target with a sample of the vocabulary (Jean et al. 2015, section 3).

    One sample is drawn a batch. Every word is in it with a probability of its own, which falls
    with the word's rank as in bilm-tf's log-uniform sampler; ranks are by count, so the order of
    the vocabulary does not matter. A sampled word stands for all those like it that were not
    drawn: its logit grows by minus the log of its probability, which makes the sum of the
    exponentials right on average. A word that is a position's target is no sample there.

    :param n_samples: size of a sample, on average. From the size of the vocabulary on, the
        result is the full softmax.
    """

    def __init__(self, projection_dim: int, counts: Tensor, *, n_samples: int) -> None:
        super().__init__(projection_dim, counts)
        rank = torch.empty(len(counts), dtype=torch.int64)
        rank[torch.argsort(counts, descending=True, stable=True)] = torch.arange(len(counts))
        self.inclusion: Tensor
        self.register_buffer(
            "inclusion", inclusion_probabilities(len(counts), n_samples)[rank], persistent=False
        )

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        samples = (torch.rand_like(self.inclusion) < self.inclusion).nonzero().squeeze(1)
        n_samples = len(samples)
        # One gather for samples and targets makes one dense gradient of the vocabulary's size.
        words = torch.cat([samples, targets])
        weight = functional.embedding(words, self.weight)
        bias = functional.embedding(words, self.bias.unsqueeze(1)).squeeze(1)
        sample_bias = bias[:n_samples] - self.inclusion[samples].log()
        target_logits = (hidden * weight[n_samples:]).sum(1) + bias[n_samples:]
        # [n_predictions, n_samples + 1]: a last column of zeros makes room for the target.
        logits = functional.linear(
            hidden,
            functional.pad(weight[:n_samples], (0, 0, 0, 1)),
            functional.pad(sample_bias, (0, 1)),
        )
        logits[:, -1] = target_logits
        if n_samples > 0:
            columns = torch.searchsorted(samples, targets).clamp(max=n_samples - 1)
            rows = (samples[columns] == targets).nonzero().squeeze(1)
            logits[rows, columns[rows]] = -torch.inf
        return functional.cross_entropy(
            logits, torch.full_like(targets, n_samples), reduction="none"
        )


def inclusion_probabilities(n_words: int, n_samples: int) -> Tensor:
    """Probability of each rank to be among the distinct words of as many log-uniform draws as
    give ``n_samples`` distinct words on average.

    :returns: *Shape:* (n_words,), float32, sum ``min(n_samples, n_words)``
    """
    if n_samples >= n_words:
        return torch.ones(n_words)
    rank = torch.arange(n_words, dtype=torch.float64)
    of_a_draw = torch.log1p(1 / (rank + 1)) / torch.log(torch.tensor(n_words + 1.0).double())
    missed = torch.log1p(-of_a_draw)
    # The expected number of distinct words grows with the number of draws.
    low, high = 0.0, 1.0
    while float(-torch.expm1(high * missed).sum()) < n_samples:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if float(-torch.expm1(middle * missed).sum()) < n_samples:
            low = middle
        else:
            high = middle
    return -torch.expm1(high * missed).float()


#: What a config's softmax block gives: (projection_dim, counts) -> head.
HeadMaker = Callable[[int, Tensor], SoftmaxHead]


def build_full_softmax_v1() -> HeadMaker:
    """A head that uses the whole vocabulary in training: exact, slow from some ten thousand
    words on."""
    return FullSoftmax


def build_sampled_softmax_v1(*, n_samples: int = 1024) -> HeadMaker:
    """A head that compares with a sample of the vocabulary in training.

    :param n_samples: words compared with, on average.
    :raises ValueError: ``n_samples`` is below 1.
    """
    if n_samples < 1:
        raise ValueError(f"n_samples is {n_samples}; expected 1 or more.")
    return partial(SampledSoftmax, n_samples=n_samples)
