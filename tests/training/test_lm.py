"""The language model: no leak from what is predicted, state carried, perplexity by hand."""

import numpy
import pytest
import torch

from spacy_elmo.bilm.softmax import FullSoftmax
from spacy_elmo.training import LanguageModel, evaluate
from spacy_elmo.training.batches import Batches
from spacy_elmo.training.evaluation import perplexity

from .conftest import make_sentences


def all_losses(model, text, n_rows=1, unroll_steps=10_000):
    """Each direction's losses in its reading order, windows one after the other."""
    state = None
    windows = []
    with torch.no_grad():
        for batch in Batches(text, text.stream.types, n_rows=n_rows, unroll_steps=unroll_steps):
            losses, state = model.exact_losses(batch, state)
            windows.append(losses)
    return [torch.cat(parts) for parts in zip(*windows)]


def losses_by_hand(model, words, vocabulary):
    """Forward and backward negative log-probabilities of one stream, by the definition: each
    direction's stack over all words in turn, then log-softmax in float64."""
    weight, bias = (p.detach().double() for p in (model.head.weight, model.head.bias))
    result = []
    with torch.no_grad():
        for lstm, stream, last in (
            (model.bilm.forward_lstm, words, "</S>"),
            (model.bilm.backward_lstm, words[::-1], "<S>"),
        ):
            layers, _ = lstm(model.bilm.encode_words(stream), [1] * len(stream))
            logits = layers[-1].double() @ weight.T + bias
            losses = []
            for position, word in enumerate(stream):
                if word != last:
                    target = stream[position + 1]
                    number = {"<S>": 0, "</S>": 1}.get(target, vocabulary.id_of(target))
                    losses.append(-torch.log_softmax(logits[position], 0)[number].item())
            result.append(losses)
    return result


def with_marks(sentences):
    return [word for sentence in sentences for word in ["<S>", *sentence, "</S>"]]


def test_losses_are_those_of_one_stream_by_hand(model, encode, vocabulary):
    sentences = make_sentences(6)
    text = encode(sentences, model.bilm.config, vocabulary)
    ahead, back = losses_by_hand(model, with_marks(sentences), vocabulary)
    found = all_losses(model, text)
    numpy.testing.assert_allclose(found[0], ahead, rtol=1e-4)
    numpy.testing.assert_allclose(found[1], back, rtol=1e-4)

    scores = evaluate(model, text)
    assert scores["n_predictions"] == len(ahead) == text.stream.n_predictions
    assert scores["forward"] == pytest.approx(numpy.exp(numpy.mean(ahead)), rel=1e-4)
    assert scores["backward"] == pytest.approx(numpy.exp(numpy.mean(back)), rel=1e-4)
    mean = numpy.exp((numpy.mean(ahead) + numpy.mean(back)) / 2)
    assert scores["mean"] == pytest.approx(mean, rel=1e-4)


def test_rows_are_streams_of_their_own(model, encode, vocabulary, monkeypatch):
    """Two rows give what two texts give."""
    monkeypatch.setattr("spacy_elmo.training.rows.POSITIONS_A_ROW", 7)
    # Seven positions each.
    texts = [[["the", "bank"], ["a"]], [["old", "boat", "runs", "by", "."]]]
    ahead, back = zip(*(losses_by_hand(model, with_marks(t), vocabulary) for t in texts))
    text = encode(texts[0] + texts[1], model.bilm.config, vocabulary)
    scores = evaluate(model, text)
    assert scores["forward"] == pytest.approx(numpy.exp(numpy.mean(sum(ahead, []))), rel=1e-4)
    assert scores["backward"] == pytest.approx(numpy.exp(numpy.mean(sum(back, []))), rel=1e-4)


@pytest.mark.parametrize("steps_a_window", [1, 5, 10_000])
def test_windows_of_any_length_give_the_same_because_state_is_carried(
    model, encode, vocabulary, steps_a_window, monkeypatch
):
    text = encode(make_sentences(60), model.bilm.config, vocabulary)
    expected = evaluate(model, text)
    monkeypatch.setattr("spacy_elmo.training.scoring.STEPS_A_WINDOW", steps_a_window)
    scores = evaluate(model, text)
    assert scores == pytest.approx(expected, rel=1e-5)


def test_forgetting_the_state_between_windows_would_show(model, encode, vocabulary):
    """The test above can fail: without the state the losses differ."""
    text = encode(make_sentences(60), model.bilm.config, vocabulary)
    carried = all_losses(model, text, unroll_steps=5)[0]
    with torch.no_grad():
        forgotten = torch.cat(
            [
                model.exact_losses(batch, None)[0].forward
                for batch in Batches(text, text.stream.types, n_rows=1, unroll_steps=5)
            ]
        )
    assert (carried - forgotten).abs().max() > 0.01


def test_no_direction_sees_what_it_predicts(model, encode, vocabulary):
    """Other words after (before) a place change nothing that the forward (backward) direction
    said up to it."""
    base = "the old bank by the river runs .".split()
    config = model.bilm.config
    for place in range(1, len(base)):
        ahead, back = all_losses(model, encode([base], config, vocabulary))
        other_end = [*base[:place], "loan", *["boat"] * (len(base) - place - 1)]
        new_ahead, _ = all_losses(model, encode([other_end], config, vocabulary))
        torch.testing.assert_close(new_ahead[:place], ahead[:place])
        assert not torch.isclose(new_ahead[place], ahead[place])

        other_begin = [*["boat"] * (place - 1), "loan", *base[place:]]
        _, new_back = all_losses(model, encode([other_begin], config, vocabulary))
        n_same = len(base) - place
        torch.testing.assert_close(new_back[:n_same], back[:n_same])
        assert not torch.isclose(new_back[n_same], back[n_same])


def test_training_loss_is_the_sum_of_both_directions(model, encode, vocabulary):
    text = encode(make_sentences(5), model.bilm.config, vocabulary)
    (batch,) = Batches(text, text.stream.types, n_rows=2, unroll_steps=1000)
    loss, _ = model(batch)
    exact, _ = model.exact_losses(batch)
    torch.testing.assert_close(loss, exact.forward.sum() + exact.backward.sum())


def test_gradients_do_not_reach_into_the_window_before(model, encode, vocabulary):
    text = encode(make_sentences(9), model.bilm.config, vocabulary)
    state = None
    for batch in Batches(text, text.stream.types, n_rows=2, unroll_steps=4):
        loss, state = model(batch, state)
        loss.backward()
        assert not any(part.requires_grad for stack in state for layer in stack for part in layer)


def test_evaluation_leaves_mode_and_random_numbers_alone(bilm, encode, vocabulary):
    config = bilm.config
    assert config.dropout > 0
    head = FullSoftmax(config.projection_dim, torch.ones(len(vocabulary)))
    model = LanguageModel(bilm, head).train()
    text = encode(make_sentences(5), config, vocabulary)
    before = torch.get_rng_state()
    first = evaluate(model, text)
    assert model.training and bilm.forward_lstm.training
    assert torch.equal(torch.get_rng_state(), before)
    # No dropout: the value does not vary.
    assert evaluate(model, text) == first
    model.eval()
    evaluate(model, text)
    assert not model.training


def test_a_hopeless_loss_is_an_infinite_perplexity():
    assert perplexity(1e6) == numpy.inf
    assert perplexity(0.0) == 1.0
