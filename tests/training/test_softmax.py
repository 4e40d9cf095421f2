"""Softmax heads: exact where they say so, near it where they sample, bounded in memory."""

import subprocess
import sys

import numpy
import pytest
import torch

from spacy_elmo.bilm import softmax
from spacy_elmo.bilm.sampled_softmax import sampled_loss
from spacy_elmo.bilm.sampling import (
    by_counts,
    draw_sample,
    inclusion_probabilities,
    log_uniform,
)
from spacy_elmo.bilm.softmax import (
    FullSoftmax,
    SampledSoftmax,
    build_full_softmax_v1,
    build_sampled_softmax_v1,
)

N_WORDS, WIDTH, N_PREDICTIONS = 50, 6, 40


def make_counts(n_words=N_WORDS, seed=0):
    random = numpy.random.default_rng(seed)
    return torch.from_numpy(random.zipf(1.3, n_words).clip(max=5000))


def make_batch(seed=0):
    torch.manual_seed(seed)
    hidden = torch.randn(N_PREDICTIONS, WIDTH)
    # Frequent words are frequent targets, as in text.
    targets = torch.multinomial(make_counts().double(), N_PREDICTIONS, replacement=True)
    return hidden, targets


def plain_losses(head, hidden, targets):
    """Negative log-probabilities in float64, by the definition."""
    weight, bias = (p.detach().double().numpy() for p in (head.weight, head.bias))
    logits = hidden.double().numpy() @ weight.T + bias
    exps = numpy.exp(logits)
    return -numpy.log(exps[numpy.arange(len(targets)), targets] / exps.sum(1))


def gradients(head, loss, hidden):
    return torch.autograd.grad(loss, [head.weight, head.bias, hidden])


@pytest.mark.parametrize("make", [FullSoftmax, build_sampled_softmax_v1(n_samples=5)])
def test_a_new_head_gives_every_word_its_share_of_the_text(make):
    counts = make_counts()
    head = make(WIDTH, counts)
    no_context = torch.zeros(N_WORDS, WIDTH)
    losses = head.exact_losses(no_context, torch.arange(N_WORDS))
    torch.testing.assert_close(torch.exp(-losses), (counts / counts.sum()).float())


def test_a_word_that_is_never_predicted_has_a_finite_bias():
    head = FullSoftmax(WIDTH, torch.tensor([0, 3, 5]))
    assert torch.isfinite(head.bias).all()


@pytest.mark.parametrize("make", [FullSoftmax, build_sampled_softmax_v1(n_samples=5)])
@pytest.mark.parametrize("logits_a_chunk", [1, 7 * N_WORDS, 2**23])
def test_exact_losses_are_those_of_the_full_softmax_in_any_chunks(
    make, logits_a_chunk, monkeypatch
):
    monkeypatch.setattr(softmax, "LOGITS_A_CHUNK", logits_a_chunk)
    head = make(WIDTH, make_counts())
    hidden, targets = make_batch()
    with torch.no_grad():
        losses = head.exact_losses(hidden, targets)
    numpy.testing.assert_allclose(losses, plain_losses(head, hidden, targets), rtol=1e-5)


def test_chunks_change_no_gradient(monkeypatch):
    head = FullSoftmax(WIDTH, make_counts())
    hidden, targets = make_batch()
    hidden.requires_grad_()
    whole = gradients(head, head(hidden, targets), hidden)
    monkeypatch.setattr(softmax, "LOGITS_A_CHUNK", 7 * N_WORDS)
    chunked = gradients(head, head(hidden, targets), hidden)
    torch.testing.assert_close(chunked, whole)


@pytest.mark.parametrize("distribution", ["log_uniform", "counts"])
@pytest.mark.parametrize("n_samples", [N_WORDS, 10 * N_WORDS])
def test_a_sample_of_everything_is_the_full_softmax(n_samples, distribution):
    """Every target is in the sample too, so this also counts accidental hits once."""
    make = build_sampled_softmax_v1(n_samples=n_samples, distribution=distribution)
    head = make(WIDTH, make_counts())
    hidden, targets = make_batch()
    hidden.requires_grad_()
    sampled = head(hidden, targets)
    exact = head.exact_losses(hidden, targets).sum()
    torch.testing.assert_close(sampled, exact)
    torch.testing.assert_close(gradients(head, sampled, hidden), gradients(head, exact, hidden))


@pytest.mark.parametrize("distribution", ["log_uniform", "counts"])
def test_sampled_losses_and_gradients_are_near_the_full_ones_on_average(distribution):
    make = build_sampled_softmax_v1(n_samples=35, distribution=distribution)
    head = make(WIDTH, make_counts())
    hidden, targets = make_batch()
    hidden.requires_grad_()
    exact = head.exact_losses(hidden, targets).sum()
    full = torch.cat([g.flatten() for g in gradients(head, exact, hidden)])
    draws = []
    losses = []
    for _ in range(400):
        sampled = head(hidden, targets)
        losses.append(sampled.item())
        draws.append(torch.cat([g.flatten() for g in gradients(head, sampled, hidden)]))
    assert numpy.mean(losses) == pytest.approx(exact.item(), rel=0.02)
    off = (torch.stack(draws).mean(0) - full).norm() / full.norm()
    assert off < 0.05
    # The average is what is near; a single draw is not.
    assert (draws[0] - full).norm() / full.norm() > 3 * off


@pytest.mark.parametrize("n_samples", [0, 1, 7, 33])
def test_gradients_of_the_sampled_loss_are_those_of_autograd(n_samples):
    torch.manual_seed(2)
    hidden, targets = make_batch()
    hidden = hidden.double().requires_grad_()
    weight = torch.randn(N_WORDS, WIDTH, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(N_WORDS, dtype=torch.float64, requires_grad=True)
    samples = torch.randperm(N_WORDS)[:n_samples].sort().values
    correction = torch.rand(n_samples, dtype=torch.float64)

    def plain_loss():
        others = hidden @ weight[samples].t() + bias[samples] + correction
        others = others.masked_fill(samples == targets.unsqueeze(1), -torch.inf)
        own = (hidden * weight[targets]).sum(1) + bias[targets]
        return (torch.logsumexp(torch.cat([others, own[:, None]], 1), 1) - own).sum()

    inputs = [hidden, weight, bias]
    expected = torch.autograd.grad(3 * plain_loss(), inputs)
    loss = sampled_loss(hidden, targets, weight, bias, samples, correction)
    torch.testing.assert_close(loss, plain_loss())
    found = torch.autograd.grad(3 * loss, inputs)
    torch.testing.assert_close(found, expected)


def test_the_sampled_loss_obeys_autocast():
    head = SampledSoftmax(WIDTH, make_counts(), n_samples=N_WORDS)
    hidden, targets = make_batch()
    hidden.requires_grad_()
    exact = gradients(head, head(hidden, targets), hidden)
    with torch.autocast("cpu", torch.bfloat16):
        low = gradients(head, head(hidden, targets), hidden)
    for one, other in zip(low, exact):
        assert one.dtype == torch.float32
        assert 0 < (one - other).norm() / other.norm() < 0.02


def test_an_empty_sample_and_an_empty_batch_are_no_error():
    head = SampledSoftmax(WIDTH, make_counts(), n_samples=1)
    head.inclusion.zero_()
    hidden, targets = make_batch()
    assert head(hidden, targets) == 0
    for other in (head, FullSoftmax(WIDTH, make_counts())):
        loss = other(hidden[:0], targets[:0])
        assert loss == 0
        loss.backward()


@pytest.mark.parametrize("n_samples", [1, 10, 999])
def test_inclusion_probabilities_fall_with_the_rank_and_sum_to_the_sample_size(n_samples):
    probabilities = inclusion_probabilities(log_uniform(torch.arange(1000, 0, -1)), n_samples)
    assert float(probabilities.double().sum()) == pytest.approx(n_samples, rel=1e-4)
    assert (probabilities.diff() <= 0).all()
    assert 0 < probabilities.min() and probabilities.max() <= 1


def test_inclusion_probabilities_are_those_of_log_uniform_draws():
    n_words, n_samples = 200, 30
    counts = torch.arange(n_words, 0, -1)
    expected = inclusion_probabilities(log_uniform(counts), n_samples).numpy()
    # The number of draws that the first rank's probability tells, then the draws themselves.
    p = numpy.log((numpy.arange(n_words) + 2) / (numpy.arange(n_words) + 1))
    p /= numpy.log(n_words + 1)
    n_draws = round(numpy.log1p(-expected[5].astype(float)) / numpy.log1p(-p[5]))
    random = numpy.random.default_rng(0)
    found = numpy.zeros(n_words)
    for _ in range(4000):
        found[numpy.unique(random.choice(n_words, size=n_draws, p=p))] += 1 / 4000
    numpy.testing.assert_allclose(found, expected, atol=0.03)


def test_a_word_is_drawn_by_its_count():
    counts = torch.tensor([0, 1, 5, 94])
    torch.testing.assert_close(by_counts(counts) * 101, torch.tensor([1.0, 1, 5, 94]).double())


@pytest.mark.parametrize("n_samples", [1, 12, 49])
def test_a_sample_has_its_size_and_each_word_its_probability(n_samples):
    inclusion = inclusion_probabilities(log_uniform(make_counts()), n_samples)
    torch.manual_seed(0)
    found = torch.zeros(N_WORDS)
    for _ in range(3000):
        samples = draw_sample(inclusion)
        assert len(samples) == n_samples and (samples.diff() > 0).all()
        found[samples] += 1 / 3000
    torch.testing.assert_close(found, inclusion, atol=0.035, rtol=0)


def test_pitfall_10_the_order_of_the_vocabulary_does_not_matter():
    counts = torch.arange(N_WORDS, 0, -1) ** 2
    order = torch.randperm(N_WORDS)
    by_count = SampledSoftmax(WIDTH, counts, n_samples=10)
    shuffled = SampledSoftmax(WIDTH, counts[order], n_samples=10)
    torch.testing.assert_close(shuffled.inclusion, by_count.inclusion[order])


def test_builders_make_heads_of_any_size():
    full = build_full_softmax_v1()(WIDTH, make_counts())
    assert type(full) is FullSoftmax and full.n_words == N_WORDS
    sampled = build_sampled_softmax_v1(n_samples=7)(WIDTH, make_counts())
    assert float(sampled.inclusion.sum()) == pytest.approx(7, rel=1e-4)


def test_odd_samples_are_refused():
    with pytest.raises(ValueError, match="n_samples is 0; expected 1 or more"):
        build_sampled_softmax_v1(n_samples=0)
    with pytest.raises(ValueError, match="distribution is 'flat'; expected one of log_uniform, c"):
        build_sampled_softmax_v1(distribution="flat")


MEMORY_SCRIPT = """
import resource
import torch
torch.set_num_threads(1)
from spacy_elmo.bilm import BiLM, BiLMConfig
from spacy_elmo.bilm.softmax import build_sampled_softmax_v1
from spacy_elmo.bilm.token_reader import TokenReader
from spacy_elmo.training import EncodedText, LanguageModel, Vocabulary, WordStream, evaluate
from spacy_elmo.training.batches import Batches

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB

config = BiLMConfig.from_dict(
    {"filters": [[1, 4]], "projection_dim": 16, "cell_size": 16, "n_layers": 1}
)
words = [f"w{n}" for n in range(200_000)]
stream = WordStream.from_sentences([words[n : n + 10] for n in range(0, 1000, 10)])
vocabulary = Vocabulary.from_counts(dict.fromkeys(words, 1))
text = EncodedText(stream, vocabulary, TokenReader(config))
head = build_sampled_softmax_v1(n_samples=100)(16, text.count_targets(len(vocabulary)))
model = LanguageModel(BiLM(config), head)
optimizer = torch.optim.AdamW(model.parameters())
before = peak()
for batch in Batches(text, stream.types, n_rows=32, unroll_steps=40):
    model(batch)[0].backward()
    optimizer.step()
evaluate(model, text)
print(peak() - before)
"""


def test_memory_stays_near_the_parameters_with_a_large_vocabulary():
    """Pitfall 9: 200,000 words. All logits of an evaluation at once would take 900 MB,
    their softmax as much again."""
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT], capture_output=True, text=True, check=True
    )
    # Weights, gradients and Adam's two slots take 4 x 13 MB, a chunk of logits 32 MB.
    assert float(done.stdout) < 300
