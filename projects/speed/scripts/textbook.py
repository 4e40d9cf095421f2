"""The plain forward pass of a biLM, as the first tools did it: sentences padded to the longest of
a batch, the token layer once a token, and a product for each step and each half of the gates.

What spacy-elmo reaches is measured beside it, in the same run.
"""

from typing import List, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from spacy_elmo import BiLM
from spacy_elmo.bilm.characters import BOS, EOS, PADDING, encode_words
from spacy_elmo.bilm.lstm import LSTMLayer, LSTMStack


def embed(bilm: BiLM, sentences: Sequence[Sequence[str]]) -> List[Tensor]:
    """All layers of a batch of sentences from a state of zeros.

    :returns: *Shape:* (n_layers + 1, n_tokens, width) each.
    """
    marked = [[BOS, *sentence, EOS] for sentence in sentences]
    lengths = [len(sentence) for sentence in marked]
    with torch.inference_mode():
        characters = encode(bilm, marked)
        tokens = torch.stack([token_vectors(bilm, ids) for ids in characters])
        ahead = run_stack(bilm.forward_lstm, tokens)
        back = run_stack(bilm.backward_lstm, reverse(tokens, lengths))
        pairs = [(tokens, tokens), *((f, reverse(b, lengths)) for f, b in zip(ahead, back))]
        layers = torch.stack([torch.cat(pair, dim=2) for pair in pairs])
        return [layers[:, row, 1 : length - 1] for row, length in enumerate(lengths)]


def encode(bilm: BiLM, sentences: Sequence[Sequence[str]]) -> Tensor:
    """Character ids at full length. *Shape:* (n_sentences, longest, n_characters)"""
    n_characters = bilm.config.max_characters_per_token
    longest = max(map(len, sentences))
    ids = torch.full((len(sentences), longest, n_characters), PADDING)
    for row, sentence in enumerate(sentences):
        # As much padding as a word can have, so that none is cut.
        found = torch.from_numpy(encode_words(sentence, n_characters, n_characters))
        ids[row, : len(sentence)] = found
    return ids


def token_vectors(bilm: BiLM, ids: Tensor) -> Tensor:
    layer = bilm.token_layer
    assert layer.char_embedding is not None
    characters = layer.char_embedding(ids).transpose(1, 2)
    pooled = [convolution(characters).amax(dim=2) for convolution in layer.convolutions]
    x = torch.cat(pooled, dim=1)
    x = functional.relu(x) if layer.activation == "relu" else torch.tanh(x)
    for highway in layer.highways:
        x = highway(x)
    return x if layer.projection is None else layer.projection(x)


def run_stack(stack: LSTMStack, x: Tensor) -> List[Tensor]:
    """Each layer's outputs. *Shape:* (n_sentences, longest, projection_dim)"""
    outputs: List[Tensor] = []
    for number, layer in enumerate(stack.layers):
        assert isinstance(layer, LSTMLayer)
        y = run_layer(layer, x)
        x = y + x if stack.use_skip_connections and number > 0 else y
        outputs.append(x)
    return outputs


def run_layer(layer: LSTMLayer, x: Tensor) -> Tensor:
    bias = layer.bias + layer.run_time_bias
    hidden = x.new_zeros(len(x), layer.state_weight.shape[1])
    cell = x.new_zeros(len(x), layer.cell_size)
    outputs: List[Tensor] = []
    for step in x.unbind(1):
        gates = functional.linear(step, layer.input_weight, bias)
        gates = gates + functional.linear(hidden, layer.state_weight)
        in_gate, forget_gate, candidate, out_gate = gates.chunk(4, dim=1)
        cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(in_gate) * torch.tanh(candidate)
        if layer.cell_clip is not None:
            cell = cell.clamp(-layer.cell_clip, layer.cell_clip)
        hidden = torch.sigmoid(out_gate) * torch.tanh(cell)
        if layer.projection_weight is not None:
            hidden = functional.linear(hidden, layer.projection_weight)
            if layer.proj_clip is not None:
                hidden = hidden.clamp(-layer.proj_clip, layer.proj_clip)
        outputs.append(hidden)
    return torch.stack(outputs, dim=1)


def reverse(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """Each sentence from its end, the padding where it was."""
    reversed_ = x.clone()
    for row, length in enumerate(lengths):
        reversed_[row, :length] = x[row, :length].flip(0)
    return reversed_
