"""Training a biLM on raw text."""

from .config import TrainingConfig, read_config
from .encoding import EncodedText
from .evaluation import Perplexities, evaluate, summarize
from .lm import LanguageModel
from .loop import Result, train
from .reporting import Evaluation, Plan, Reporter, Step
from .scoring import SentenceScore, score_sentences
from .storage import load_language_model, save_language_model
from .text.corpus import TextCorpus
from .text.stream import WordStream
from .vocabulary import Vocabulary

__all__ = [
    "EncodedText",
    "Evaluation",
    "LanguageModel",
    "Perplexities",
    "Plan",
    "Reporter",
    "Result",
    "SentenceScore",
    "Step",
    "TextCorpus",
    "TrainingConfig",
    "Vocabulary",
    "WordStream",
    "evaluate",
    "load_language_model",
    "read_config",
    "save_language_model",
    "score_sentences",
    "summarize",
    "train",
]
