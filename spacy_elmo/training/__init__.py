"""Training a biLM on raw text."""

from .config import TrainingConfig, read_config
from .encoding import EncodedText, WordStream
from .evaluation import evaluate
from .lm import LanguageModel
from .loop import Result, train
from .reporting import Evaluation, Plan, Reporter, Step
from .storage import load_language_model, save_language_model
from .vocabulary import Vocabulary

__all__ = [
    "EncodedText",
    "Evaluation",
    "LanguageModel",
    "Plan",
    "Reporter",
    "Result",
    "Step",
    "TrainingConfig",
    "Vocabulary",
    "WordStream",
    "evaluate",
    "load_language_model",
    "read_config",
    "save_language_model",
    "train",
]
