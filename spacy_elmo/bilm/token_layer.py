"""The token layer: a word's characters, its row of a word table, or both, to one context-free
vector (Peters et al. 2018, section 3.4; Kim et al. 2016)."""

from typing import List, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional

from .char_lstm import CharacterLSTM
from .convolution_function import pooled_convolutions
from .dictionary import pack
from .token_reader import TokenReader

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
    """Characters (embedding, convolutions, max-pool and highway layers, or an LSTM) behind the
    row of a word table, each where the biLM has it, and the projection of both together.

    The dictionaries are buffers, so that they are saved, loaded and copied with the weights.

    :param reader: gives the layer its input, and tells the biLM's sizes.
    """

    def __init__(self, reader: TokenReader) -> None:
        super().__init__()
        config = reader.config
        self.reader = reader
        self.activation = config.activation
        self.word_embedding: Optional[nn.Embedding] = None
        self.char_embedding: Optional[nn.Embedding] = None
        self.char_lstm: Optional[CharacterLSTM] = None
        if config.words is not None and reader.words is not None:
            self.word_embedding = nn.Embedding(len(reader.words), config.words.dim)
            self.word_embedding.weight.requires_grad_(not config.words.frozen)
            self.register_buffer("word_dictionary", pack(reader.words))
        if reader.code_points is not None:
            self.register_buffer("char_dictionary", pack(reader.code_points))
        if config.char_encoder is not None:
            self.char_embedding = nn.Embedding(config.n_char_embeddings, config.char_embedding_dim)
        if config.char_encoder == "lstm":
            self.char_lstm = CharacterLSTM(config.char_embedding_dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_embedding_dim, count, width) for width, count in config.filters
        )
        self.highways = nn.ModuleList(Highway(config.n_filters) for _ in range(config.n_highway))
        self.projection = (
            nn.Linear(config.token_dim, config.projection_dim) if config.token_projection else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.char_embedding is not None:
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
        if self.word_embedding is not None:
            # Vectors of a length of about 1.
            nn.init.normal_(self.word_embedding.weight, std=self.word_embedding.embedding_dim**-0.5)

    def forward(self, characters: Optional[Tensor], words: Optional[Tensor] = None) -> Tensor:
        """Context-free vectors of words, of what the reader gives for them.

        :param characters: *Shape:* (n_words, n_characters)
        :param words: rows of the word table. *Shape:* (n_words,)
        :returns: *Shape:* (n_words, projection_dim)
        """
        if characters is None:
            assert words is not None
            return self._forward_chunk(None, words)
        n_words = len(characters)
        if torch.is_grad_enabled() and n_words % WORDS_A_STEP > 0:
            n_more = WORDS_A_STEP - n_words % WORDS_A_STEP
            characters = torch.cat([characters, characters[:1].expand(n_more, -1)])
            words = None if words is None else torch.cat([words, words[:1].expand(n_more)])
        rows = None if words is None else torch.split(words, WORDS_A_CHUNK)
        chunks = [
            self._forward_chunk(ids, None if rows is None else rows[number])
            for number, ids in enumerate(torch.split(characters, WORDS_A_CHUNK))
        ]
        return (chunks[0] if len(chunks) == 1 else torch.cat(chunks))[:n_words]

    def _forward_chunk(self, characters: Optional[Tensor], words: Optional[Tensor]) -> Tensor:
        parts: List[Tensor] = []
        if self.word_embedding is not None:
            assert words is not None
            parts.append(self.word_embedding(words))
        if characters is not None:
            parts.append(self._read_characters(characters))
        x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return x if self.projection is None else self.projection(x)

    def _read_characters(self, characters: Tensor) -> Tensor:
        """One vector of a word's characters. *Shape:* (n_words, n_filters) for convolutions"""
        assert self.char_embedding is not None
        if self.char_lstm is not None:
            assert self.reader.inventory is not None
            lengths = (characters != self.reader.inventory.padding).sum(dim=1)
            return self.char_lstm.read(self.char_embedding(characters), lengths)
        # The activation rises everywhere, so it may follow the maximum.
        if torch.is_grad_enabled():
            x = pooled_convolutions(characters, self.char_embedding.weight, list(self.convolutions))
        else:
            embedded = self.char_embedding(characters).transpose(1, 2)
            pooled: List[Tensor] = [conv(embedded).amax(dim=2) for conv in self.convolutions]
            x = torch.cat(pooled, dim=1)
        x = functional.relu(x) if self.activation == "relu" else torch.tanh(x)
        for highway in self.highways:
            x = highway(x)
        return x
