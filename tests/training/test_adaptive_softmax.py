"""The adaptive softmax: a distribution of its own, whatever the order of the vocabulary."""

import numpy
import pytest
import torch
from torch import nn

from spacy_elmo.bilm import softmax
from spacy_elmo.bilm.adaptive_softmax import AdaptiveSoftmax, build_adaptive_softmax_v1
from spacy_elmo.bilm.softmax import FullSoftmax

N_WORDS, WIDTH, CUTOFFS = 60, 8, [10, 25]
make_head = build_adaptive_softmax_v1(cutoffs=CUTOFFS, div_value=2.0)


def make_counts(n_words=N_WORDS, seed=0):
    random = numpy.random.default_rng(seed)
    return torch.from_numpy(random.zipf(1.3, n_words).clip(max=5000))


def log_probabilities(head, hidden):
    """Of every word for every row. *Shape:* (n_rows, n_words)"""
    words = torch.arange(head.n_words)
    with torch.no_grad():
        losses = [head.exact_losses(row.expand(head.n_words, -1), words) for row in hidden]
    return -torch.stack(losses)


def test_probabilities_of_all_words_sum_to_one():
    torch.manual_seed(0)
    log_p = log_probabilities(make_head(WIDTH, make_counts()), 3 * torch.randn(5, WIDTH))
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(5))
    assert log_p.std() > 0.5


def test_it_is_the_adaptive_softmax_of_torch():
    """Which has no bias in its clusters, and words that are ranked already."""
    torch.manual_seed(0)
    counts = torch.arange(N_WORDS, 0, -1)
    head = make_head(WIDTH, counts)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, N_WORDS, CUTOFFS, div_value=2.0, head_bias=True)
    with torch.no_grad():
        theirs.head.weight.copy_(head.first.weight)
        theirs.head.bias.copy_(head.first.bias)
        for tail, cluster in zip(theirs.tail, head.clusters):
            cluster[1].bias.zero_()
            for layer, ours in zip(tail, cluster):
                layer.weight.copy_(ours.weight)
    hidden = torch.randn(200, WIDTH)
    targets = torch.randint(N_WORDS, (200,))
    torch.testing.assert_close(-head.exact_losses(hidden, targets), theirs(hidden, targets).output)


@pytest.mark.parametrize("cutoffs, div_value", [([1], 1.0), ([10, 25], 4.0), ([3, 4, 59], 2.0)])
def test_a_new_head_gives_every_word_its_share_of_the_text(cutoffs, div_value):
    counts = make_counts()
    head = build_adaptive_softmax_v1(cutoffs=cutoffs, div_value=div_value)(WIDTH, counts)
    log_p = log_probabilities(head, torch.zeros(1, WIDTH))
    torch.testing.assert_close(log_p[0].exp(), (counts / counts.sum()).float())


def test_the_order_of_the_vocabulary_does_not_matter():
    counts = torch.arange(N_WORDS, 0, -1) ** 2
    order = torch.randperm(N_WORDS)
    hidden = torch.randn(3, WIDTH)
    torch.manual_seed(0)
    by_count = log_probabilities(make_head(WIDTH, counts), hidden)
    torch.manual_seed(0)
    shuffled = log_probabilities(make_head(WIDTH, counts[order]), hidden)
    torch.testing.assert_close(shuffled, by_count[:, order])


@pytest.mark.parametrize("logits_a_chunk", [1, 70, 2**23])
def test_chunks_change_neither_losses_nor_gradients(logits_a_chunk, monkeypatch):
    head = make_head(WIDTH, make_counts())
    hidden = torch.randn(40, WIDTH, requires_grad=True)
    targets = torch.randint(N_WORDS, (40,))

    def run():
        losses = head.exact_losses(hidden, targets)
        return losses, torch.autograd.grad(losses.mean(), [hidden, *head.parameters()])

    whole = run()
    monkeypatch.setattr(softmax, "LOGITS_A_CHUNK", logits_a_chunk)
    torch.testing.assert_close(run(), whole)


def test_every_weight_has_a_gradient_whatever_the_targets():
    """Processes that train together would wait for one that has none."""
    head = make_head(WIDTH, torch.arange(N_WORDS, 0, -1))
    for targets in (torch.zeros(4, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)):
        head.zero_grad()
        head(torch.randn(len(targets), WIDTH), targets).sum().backward()
        assert all(parameter.grad is not None for parameter in head.parameters())


def test_low_precision_is_near():
    head = make_head(WIDTH, make_counts())
    hidden, targets = torch.randn(40, WIDTH), torch.randint(N_WORDS, (40,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = head.exact_losses(hidden.bfloat16(), targets)
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, head.exact_losses(hidden, targets), atol=0.1, rtol=0.05)


def test_it_learns_what_a_full_softmax_learns():
    """Each input stands for a distribution over words; both heads come near its entropy."""
    torch.manual_seed(0)
    inputs = torch.eye(WIDTH)
    wanted = torch.softmax(2 * torch.randn(WIDTH, N_WORDS), 1)
    rows = torch.arange(WIDTH).repeat(400)
    words = torch.multinomial(wanted, 400, replacement=True).T.reshape(-1)
    counts = torch.bincount(words, minlength=N_WORDS)
    found = []
    for head in (FullSoftmax(WIDTH, counts), make_head(WIDTH, counts)):
        before = head.exact_losses(inputs[rows], words).mean().item()
        optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
        for _ in range(150):
            optimizer.zero_grad()
            (head(inputs[rows], words).sum() / len(words)).backward()
            optimizer.step()
        found.append(head.exact_losses(inputs[rows], words).mean().item())
        assert found[-1] < before - 0.5
    assert found[1] == pytest.approx(found[0], abs=0.1)


@pytest.mark.parametrize("n_words", [25, 20])
def test_a_cutoff_beyond_the_vocabulary_is_named_with_its_size(n_words):
    expected = rf"cutoffs is \[10, 25\], but the vocabulary has {n_words} words"
    with pytest.raises(ValueError, match=expected):
        make_head(WIDTH, make_counts(n_words))


@pytest.mark.parametrize("cutoffs", [[], [0, 5], [5, 5], [7, 3]])
def test_cutoffs_have_to_rise(cutoffs):
    with pytest.raises(ValueError, match=r"cutoffs is \[.*\]; expected one or more rising numbers"):
        build_adaptive_softmax_v1(cutoffs=cutoffs)


def test_clusters_do_not_grow():
    with pytest.raises(ValueError, match="div_value is 0.5; expected a number, 1 or more"):
        build_adaptive_softmax_v1(div_value=0.5)


def test_rare_words_have_small_vectors():
    head = build_adaptive_softmax_v1(cutoffs=[2, 4], div_value=4.0)(8, torch.arange(9, 0, -1))
    assert isinstance(head, AdaptiveSoftmax) and head.n_words == 9
    assert [tuple(cluster[1].weight.shape) for cluster in head.clusters] == [(2, 2), (5, 1)]


def test_ranks_that_are_none_are_refused():
    head = make_head(WIDTH, make_counts())
    state = head.state_dict()
    head.load_state_dict(state)
    with pytest.raises(ValueError, match="'rank' does not hold each of the ranks 0 to 59 once"):
        head.load_state_dict({**state, "rank": torch.zeros(N_WORDS, dtype=torch.int64)})
