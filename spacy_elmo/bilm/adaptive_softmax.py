"""The adaptive softmax: rare words share few dimensions, and most predictions never touch them."""

from functools import partial
from typing import Any, Dict, List, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .softmax import HeadMaker, SoftmaxHead, in_chunks


class AdaptiveSoftmax(SoftmaxHead):
    """The most frequent words stand in a first softmax, beside an entry for each cluster of rarer
    ones; a cluster has a softmax of its own, on a smaller vector (Grave et al. 2017, section 4).

    ``p(word) = p(cluster) p(word | cluster)`` is a distribution over the whole vocabulary, in
    training too. Words are ranked by count here, so the order of the vocabulary does not matter.
    All biases start at the log frequencies, as in the other heads.

    :param projection_dim: size of a direction's output.
    :param counts: how often each word is predicted, in the order of the vocabulary; a word that
        never is counts as seen once. *Shape:* (n_words,)
    :param cutoffs: rank of the first word of each cluster, rising.
    :param div_value: each cluster's vector is smaller than the one before by this factor, the
        first one's smaller than ``projection_dim``.
    :raises ValueError: a cutoff lies beyond the vocabulary.
    """

    def __init__(
        self, projection_dim: int, counts: Tensor, *, cutoffs: Sequence[int], div_value: float
    ) -> None:
        super().__init__()
        n_words = len(counts)
        if cutoffs[-1] >= n_words:
            raise ValueError(
                f"cutoffs is {list(cutoffs)}, but the vocabulary has {n_words} words; expected "
                "numbers below that. Lower cutoffs in [training.softmax], or use a full softmax."
            )
        self.cutoffs = list(cutoffs)
        self.div_value = div_value
        order = torch.argsort(counts, descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(n_words, device=order.device)
        self.rank: Tensor
        self.register_buffer("rank", rank)
        self.register_load_state_dict_post_hook(_check_rank)

        frequency = counts.clamp(min=1).double()[order]
        frequent, *clusters = frequency.tensor_split(self.cutoffs)
        masses = torch.stack([cluster.sum() for cluster in clusters])
        self.first = _linear(projection_dim, torch.cat([frequent, masses]))
        self.clusters = nn.ModuleList()
        for number, cluster in enumerate(clusters, 1):
            size = max(1, int(projection_dim / div_value**number))
            down = nn.Linear(projection_dim, size, bias=False)
            nn.init.normal_(down.weight, std=projection_dim**-0.5)
            self.clusters.append(nn.Sequential(down, _linear(size, cluster)))

    @property
    def n_words(self) -> int:
        return len(self.rank)

    @property
    def stored_as(self) -> Dict[str, Any]:
        return {
            "@softmax_heads": "spacy-elmo.AdaptiveSoftmax.v1",
            "cutoffs": self.cutoffs,
            "div_value": self.div_value,
        }

    def exact_losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        rank = self.rank[targets]
        n_frequent = self.cutoffs[0]
        # Number of the cluster, 0 for the frequent words.
        cluster = torch.bucketize(rank, rank.new_tensor(self.cutoffs), right=True)
        entry = torch.where(cluster == 0, rank, n_frequent + cluster - 1)
        n_entries = n_frequent + len(self.cutoffs)
        losses = in_chunks(partial(_losses, self.first), hidden, entry, n_entries)
        ends = [*self.cutoffs[1:], self.n_words]
        # A cluster without a target runs too: each step then has a gradient for every weight.
        for number, (begin, end) in enumerate(zip(self.cutoffs, ends)):
            rows = (cluster == number + 1).nonzero().squeeze(1)
            inner = in_chunks(
                partial(_losses, self.clusters[number]),
                hidden.index_select(0, rows),
                rank[rows] - begin,
                end - begin,
            )
            losses = losses.index_add(0, rows, inner)
        return losses


def _linear(size: int, frequency: Tensor) -> nn.Linear:
    """A layer to as many logits, which without an input give each word its share."""
    layer = nn.Linear(size, len(frequency))
    nn.init.normal_(layer.weight, std=size**-0.5)
    with torch.no_grad():
        layer.bias.copy_((frequency / frequency.sum()).log())
    return layer


def _losses(layer: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    # Under autocast a layer gives bfloat16, too coarse for log-probabilities.
    return functional.cross_entropy(layer(hidden).float(), targets, reduction="none")


def _check_rank(head: nn.Module, incompatible_keys: Any) -> None:
    assert isinstance(head, AdaptiveSoftmax)
    rank = head.rank
    if not torch.equal(rank.sort().values, torch.arange(len(rank), device=rank.device)):
        raise ValueError(
            f"tensor 'rank' does not hold each of the ranks 0 to {len(rank) - 1} once."
        )


def build_adaptive_softmax_v1(
    *, cutoffs: Sequence[int] = (2000, 10000), div_value: float = 4.0
) -> HeadMaker:
    """A head whose training is exact and fast for large vocabularies.

    :param cutoffs: ranks by count at which a new cluster of rarer words begins, rising; all
        below the size of the vocabulary.
    :param div_value: each cluster's vector is smaller than the one before by this factor.
    :raises ValueError: ``cutoffs`` are none, or not rising, or ``div_value`` is below 1.
    """
    checked: List[int] = list(cutoffs)
    if not checked or any(b <= a for a, b in zip([0, *checked], checked)):
        raise ValueError(f"cutoffs is {checked}; expected one or more rising numbers above 0.")
    if not div_value >= 1:
        raise ValueError(f"div_value is {div_value}; expected a number, 1 or more.")
    return partial(AdaptiveSoftmax, cutoffs=checked, div_value=div_value)
