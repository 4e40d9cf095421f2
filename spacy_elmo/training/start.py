"""The weights that a run starts from, where it does not start from random ones."""

from dataclasses import dataclass, replace
from typing import Any, List, Mapping, Optional

from ..bilm import BiLM, BiLMConfig
from ..bilm.softmax import SoftmaxHead
from .lm import LanguageModel
from .storage import has_softmax, load_language_model
from .vocabulary import Vocabulary

# What does not belong to the weights, so that a run may choose it anew.
FREE = ("dropout",)

#: What is made anew at the end of a run, by the names of a language model.
WARM_STATE = ("bilm.warm_hidden", "bilm.warm_cell")


@dataclass(frozen=True)
class StartWeights:
    """A model to start from.

    :param path: where it was read.
    :param bilm: its biLM.
    :param vocabulary: the words of its softmax, if it has one.
    :param head: its softmax, if it has one.
    """

    path: str
    bilm: BiLM
    vocabulary: Optional[Vocabulary] = None
    head: Optional[SoftmaxHead] = None

    @classmethod
    def read(cls, path: str) -> "StartWeights":
        """Read any format that :meth:`BiLM.from_pretrained` knows, and the vocabulary and softmax
        that :func:`save_language_model` wrote beside native weights.

        :raises FileNotFoundError: there is nothing at the path.
        :raises ValueError: the files are damaged or hold no model.
        """
        if has_softmax(path):
            model, vocabulary = load_language_model(path)
            return cls(path, model.bilm, vocabulary, model.head)
        return cls(path, BiLM.from_pretrained(path))

    def merge(self, settings: Mapping[str, Any]) -> BiLMConfig:
        """The sizes of the model, with what a ``[bilm]`` block may set beside them.

        :param settings: the block; it may leave out anything.
        :raises ValueError: a setting is unknown, or is not that of the model; the message names
            all of those.
        """
        own = self.bilm.config
        if own.words is not None and isinstance(settings.get("words"), Mapping):
            # The words come with the model; whether they stay as they are may be chosen anew.
            words = {"n_words": own.words.n_words, **settings["words"]}
            own = replace(own, words=replace(own.words, frozen=words.get("frozen", False)))
            settings = {**settings, "words": words}
        asked = BiLMConfig.from_dict({**own.to_dict(), **settings})
        differing: List[str] = [
            f"{name} is {getattr(asked, name)!r} (there {getattr(own, name)!r})"
            for name in settings
            if name not in FREE and getattr(asked, name) != getattr(own, name)
        ]
        if differing:
            raise ValueError(
                f"differs from the model of [training] init, {self.path}: {'; '.join(differing)}; "
                "expected the same values, or none."
            )
        return replace(own, **{name: getattr(asked, name) for name in FREE})

    def fill(self, model: LanguageModel, vocabulary: Vocabulary) -> str:
        """Put the weights into a model of the sizes of :meth:`merge`; the softmax only where it
        is of the same kind and predicts the same words.

        :param vocabulary: the model's words.
        :returns: what was taken, in words.
        """
        weights = {f"bilm.{name}": values for name, values in self.bilm.state_dict().items()}
        weights = {name: weights[name] for name in weights if name not in WARM_STATE}
        model.load_state_dict(weights, strict=False)
        if self.head is None or self.vocabulary is None:
            new = "vocabulary and softmax (there is none)"
        elif self.vocabulary.words != vocabulary.words:
            new = "vocabulary and softmax (that of [vocab] path has other words)"
        elif self.head.stored_as != model.head.stored_as:
            new = "softmax ([training.softmax] is of another kind)"
        else:
            model.head.load_state_dict(self.head.state_dict())
            return f"Taken from {self.path}: biLM, vocabulary and softmax"
        return f"Taken from {self.path}: biLM; new: {new}"
