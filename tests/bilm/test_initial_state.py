"""What the LSTMs remember before a sentence: nothing, one fixed state, or the sentence before."""

from copy import deepcopy

import numpy
import pytest
import torch

from spacy_elmo.bilm.warm_up import WARM_UP_SENTENCES
from spacy_elmo.formats import from_bytes, load, to_bytes

from .. import oracle

pytestmark = pytest.mark.usefixtures("either_recurrence")

ATOL = 1e-5
SENTENCES = [["The", "bank", "of", "the", "river"], ["A", "loan"], ["bank"], ["x", "y", "z"]]


@pytest.fixture
def files(tmp_path):
    options = oracle.make_options()
    datasets = oracle.make_datasets(options, scale=1.5)
    return oracle.write_files(tmp_path, options, datasets), options, datasets


def assert_close(found, expected, atol=ATOL):
    for one, other in zip(found, expected):
        numpy.testing.assert_allclose(one, other, atol=atol, rtol=0)


def test_the_states_differ(bilm):
    zero, warm, carry = (
        bilm.embed(SENTENCES, initial_state=name) for name in ("zero", "warm", "carry")
    )
    assert_close(zero[:1], carry[:1])
    for one, other in ((zero, warm), (zero, carry), (warm, carry)):
        assert numpy.abs(one[1][1:] - other[1][1:]).max() > 0.01
        assert_close(one[1][:1], other[1][:1])


def test_zero_is_the_default_and_keeps_nothing(bilm):
    expected = bilm.embed(SENTENCES)
    bilm.embed([["some", "other", "text"]], initial_state="carry")
    bilm.embed([["some", "other", "text"]], initial_state="warm")
    assert_close(bilm.embed(SENTENCES), expected, atol=0)
    assert_close(bilm.embed(SENTENCES, initial_state="zero"), expected, atol=0)


def test_warm_equals_the_oracle(files):
    path, options, datasets = files
    _, state = oracle.embed_stream(options, datasets, WARM_UP_SENTENCES)
    expected = [oracle.embed_sentence(options, datasets, words, state)[0] for words in SENTENCES]
    assert_close(load(path).embed(SENTENCES, initial_state="warm"), expected)


def test_warm_with_a_text_of_its_own_equals_the_oracle(files):
    path, options, datasets = files
    text = [["Ein", "anderer", "Text", "."], ["Noch", "einer", "!"]]
    _, state = oracle.embed_stream(options, datasets, text)
    expected = [oracle.embed_sentence(options, datasets, words, state)[0] for words in SENTENCES]
    bilm = load(path)
    bilm.warm_up(text)
    assert_close(bilm.embed(SENTENCES, initial_state="warm"), expected)


def test_carry_equals_the_oracle_and_starts_anew_with_each_call(files):
    path, options, datasets = files
    expected, _ = oracle.embed_stream(options, datasets, SENTENCES)
    bilm = load(path)
    for batch_tokens in (1, 4096):
        found = bilm.embed(SENTENCES, initial_state="carry", batch_tokens=batch_tokens)
        assert_close(found, expected)


def test_warm_is_a_function_of_weights_and_sentence(bilm):
    other = deepcopy(bilm)
    expected = bilm.embed(SENTENCES, initial_state="warm")
    assert_close(bilm.embed(SENTENCES, initial_state="warm"), expected, atol=0)
    other.embed([["a", "text", "read", "before"]], initial_state="carry")
    assert_close(other.embed(SENTENCES[::-1], initial_state="warm")[::-1], expected)


def test_warm_state_is_saved_and_copied(tmp_path, bilm):
    # A text of its own, so that computing it again would give another state.
    bilm.warm_up([["Ein", "anderer", "Text", "."]])
    expected = bilm.embed(SENTENCES, initial_state="warm")
    bilm.save_pretrained(tmp_path)
    for again in (load(tmp_path), from_bytes(to_bytes(bilm)), deepcopy(bilm)):
        assert torch.equal(again.warm_hidden, bilm.warm_hidden)
        assert torch.equal(again.warm_cell, bilm.warm_cell)
        assert_close(again.embed(SENTENCES, initial_state="warm"), expected)
    bilm.warm_up(WARM_UP_SENTENCES)
    assert numpy.abs(bilm.embed(SENTENCES, initial_state="warm")[2] - expected[2]).max() > 0.001


def test_warm_up_keeps_a_state_that_is_set(bilm):
    bilm.warm_up([["Ein", "anderer", "Text", "."]])
    before = bilm.warm_hidden.clone()
    bilm.warm_up()
    assert torch.equal(bilm.warm_hidden, before)


def test_warm_state_can_be_used_in_training(bilm):
    # Also where it was made in inference mode, whose tensors autograd refuses.
    with torch.inference_mode():
        bilm.embed(SENTENCES, initial_state="warm")
    outputs, _ = bilm(SENTENCES, bilm.initial_states("warm", len(SENTENCES)))
    sum(output.sum() for output in outputs).backward()
    assert bilm.forward_lstm.layers[0].state_weight.grad is not None


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_initial_states_are_what_embed_starts_from(bilm, initial_state):
    sentences = sorted(SENTENCES, key=len)
    outputs, _ = bilm(sentences, bilm.initial_states(initial_state, len(sentences)))
    expected = bilm.embed(sentences, initial_state=initial_state)
    assert_close([output.detach().numpy() for output in outputs], expected)


def test_initial_states_of_carry(bilm):
    with pytest.raises(ValueError, match=r"initial_state is 'carry'; expected 'zero' or 'warm'"):
        bilm.initial_states("carry", 3)


def test_warm_up_without_text(bilm):
    with pytest.raises(ValueError, match=r"warm-up text has no sentence; expected one or more"):
        bilm.warm_up([])


def test_state_after_a_batch_is_by_falling_length(bilm):
    sentences = [["a"], ["b", "c", "d"], ["e", "f"]]
    _, together = bilm(sentences)
    for row, number in enumerate((1, 2, 0)):
        _, alone = bilm([sentences[number]])
        for stack, stack_alone in zip(together, alone):
            for layer, layer_alone in zip(stack, stack_alone):
                assert torch.allclose(layer.hidden[row], layer_alone.hidden[0], atol=ATOL)
                assert torch.allclose(layer.cell[row], layer_alone.cell[0], atol=ATOL)


def test_a_stream_may_be_cut_anywhere(bilm):
    # The state that one call returns is what the next one goes on from.
    expected = bilm.embed(SENTENCES, initial_state="carry")
    state = None
    for sentence, layers in zip(SENTENCES, expected):
        (output,), state = bilm([sentence], state)
        assert_close([output.detach().numpy()], [layers])
