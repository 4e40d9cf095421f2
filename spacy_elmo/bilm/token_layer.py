"""The token layer: characters to one context-free vector a word (Peters et al. 2018, section 3.4;
Kim et al. 2016)."""

from typing import List

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import N_BYTE_CHARACTERS, BiLMConfig
from .convolution_function import pooled_convolutions

# Words that go through the convolutions in one go, which bounds the memory of the filter maps
# (at the original size about 100 MB).
WORDS_A_CHUNK = 256

# In training a chunk is filled up to a multiple of this: oneDNN compiles and keeps a kernel for
# each shape that it meets, and each batch has another number of words.
WORDS_A_STEP = 64


class Highway(nn.Module):
    """``g * relu(W_t x + b_t) + (1 - g) * x`` with ``g = sigmoid(W_c x + b_c)``
    (Srivastava et al. 2015; the gate's sense is bilm-tf's "carry").

    *Shape:* (n_words, n_filters) in and out.
    """

    def __init__(self, n_filters: int) -> None:
        super().__init__()
        self.gate = nn.Linear(n_filters, n_filters)
        self.transform = nn.Linear(n_filters, n_filters)

    def reset_parameters(self) -> None:
        for linear in (self.gate, self.transform):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        # A gate that starts nearly closed passes its input on (bilm-tf's start value).
        nn.init.constant_(self.gate.bias, -2.0)
        nn.init.zeros_(self.transform.bias)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class TokenLayer(nn.Module):
    """Character embedding, convolutions, max-pool, highway layers, projection.

    :param config: the biLM's sizes.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.char_embedding = nn.Embedding(N_BYTE_CHARACTERS, config.char_embedding_dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_embedding_dim, count, width) for width, count in config.filters
        )
        self.highways = nn.ModuleList(Highway(config.n_filters) for _ in range(config.n_highway))
        self.projection = (
            nn.Linear(config.n_filters, config.projection_dim) if config.token_projection else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.char_embedding.weight, -1.0, 1.0)
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            bound = 0.05 if self.activation == "relu" else convolution.kernel_size[0] ** -0.5
            nn.init.uniform_(convolution.weight, -bound, bound)
            assert convolution.bias is not None
            nn.init.zeros_(convolution.bias)
        for highway in self.highways:
            assert isinstance(highway, Highway)
            highway.reset_parameters()
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=self.projection.in_features**-0.5)
            nn.init.zeros_(self.projection.bias)

    def forward(self, char_ids: Tensor) -> Tensor:
        """Context-free vectors of words.

        :param char_ids: *Shape:* (n_words, n_characters)
        :returns: *Shape:* (n_words, projection_dim)
        """
        n_words = len(char_ids)
        if torch.is_grad_enabled() and n_words % WORDS_A_STEP > 0:
            n_more = WORDS_A_STEP - n_words % WORDS_A_STEP
            char_ids = torch.cat([char_ids, char_ids[:1].expand(n_more, -1)])
        chunks = [self._forward_chunk(ids) for ids in torch.split(char_ids, WORDS_A_CHUNK)]
        return (chunks[0] if len(chunks) == 1 else torch.cat(chunks))[:n_words]

    def _forward_chunk(self, char_ids: Tensor) -> Tensor:
        # The activation rises everywhere, so it may follow the maximum.
        if torch.is_grad_enabled():
            x = pooled_convolutions(char_ids, self.char_embedding.weight, list(self.convolutions))
        else:
            characters = self.char_embedding(char_ids).transpose(1, 2)
            pooled: List[Tensor] = [conv(characters).amax(dim=2) for conv in self.convolutions]
            x = torch.cat(pooled, dim=1)
        x = functional.relu(x) if self.activation == "relu" else torch.tanh(x)
        for highway in self.highways:
            x = highway(x)
        return x if self.projection is None else self.projection(x)
