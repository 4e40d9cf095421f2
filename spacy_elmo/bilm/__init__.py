"""The biLM in pure PyTorch; nothing here knows spaCy or thinc."""

from .bilm import BATCH_TOKENS, BiLM, BiLMState, InitialState
from .characters import BOS, EOS, UNK
from .config import BiLMConfig, WordTable
from .lstm import LSTMState

__all__ = [
    "BATCH_TOKENS",
    "BOS",
    "EOS",
    "UNK",
    "BiLM",
    "BiLMConfig",
    "BiLMState",
    "InitialState",
    "LSTMState",
    "WordTable",
]
