"""The training pass of the character convolutions against torch's own."""

import pytest
import torch

from spacy_elmo.bilm import BiLMConfig
from spacy_elmo.bilm.characters import encode_words
from spacy_elmo.bilm.token_layer import TokenLayer
from spacy_elmo.bilm.token_reader import TokenReader

WORDS = ["<S>", "a", "bank", "deposited", "東京", "", "x" * 60]


def make_layer(filters, **settings):
    torch.manual_seed(0)
    config = BiLMConfig(filters=filters, projection_dim=5, cell_size=4, **settings)
    ids = encode_words(WORDS, config.max_characters_per_token, max(width for width, _ in filters))
    return TokenLayer(TokenReader(config)).double(), torch.from_numpy(ids)


def plain(layer, ids):
    """The same by torch's convolutions; max() gives one of several equal positions a gradient."""
    characters = layer.char_embedding(ids).transpose(1, 2)
    x = torch.cat([conv(characters).max(dim=2).values for conv in layer.convolutions], dim=1)
    x = torch.relu(x) if layer.activation == "relu" else torch.tanh(x)
    for highway in layer.highways:
        x = highway(x)
    return x if layer.projection is None else layer.projection(x)


@pytest.mark.parametrize(
    "filters",
    [[[1, 4], [2, 8], [3, 6]], [[5, 3], [2, 4], [3, 5]], [[4, 5]], [[1, 5]]],
    ids=["rising", "mixed", "one", "single characters"],
)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_vectors_and_gradients_are_those_of_autograd(filters, activation):
    layer, ids = make_layer(filters, activation=activation, max_characters_per_token=20)
    found, expected = layer(ids), plain(layer, ids)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(layer(ids), expected)
    grad = torch.randn_like(expected)
    parameters = list(layer.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters, grad),
        torch.autograd.grad(expected, parameters, grad),
    )


def test_bfloat16_is_near():
    layer, ids = make_layer([[1, 4], [3, 6]])
    layer.float()
    parameters = list(layer.parameters())
    exact = layer(ids)
    with torch.autocast("cpu", torch.bfloat16):
        low = layer(ids)
    torch.testing.assert_close(low.float(), exact, rtol=0.05, atol=0.02)
    for gradient in torch.autograd.grad(low.float().sum(), parameters):
        assert gradient.dtype == torch.float32 and torch.isfinite(gradient).all()
