"""What a run works with, made of its config: texts, vocabulary, model."""

from dataclasses import dataclass
from itertools import islice
from typing import Dict, List, Optional, Tuple

from ..bilm import BiLM
from ..bilm.token_reader import TokenReader
from .config import Corpus, TrainingConfig
from .distributed import World
from .encoding import EncodedText
from .fingerprints import fingerprint_stream, fingerprint_vocabulary, fingerprint_words
from .lm import LanguageModel
from .memory import estimate_bytes
from .progress import count_steps
from .reporting import Plan, Reporter
from .settings import VocabularySettings
from .start import StartWeights
from .steps import Windows
from .text.stream import WordStream
from .vocabulary import Vocabulary
from .word_table import FirstVectors, make_word_table

# The text that the stored "warm" state has read: enough to forget the zeros before it.
WARM_UP_SENTENCES = 20
WARM_UP_WORDS_A_SENTENCE = 100


@dataclass(frozen=True)
class Run:
    """What a run works with.

    :param vocabulary: the words that it predicts.
    :param text: the training text.
    :param dev_text: the held-out text.
    :param model: what learns.
    :param windows: what each step reads.
    :param fingerprints: of its texts and the vocabulary, by what they are.
    :param n_steps: steps by the limits on epochs and steps, if there are such limits.
    """

    vocabulary: Vocabulary
    text: EncodedText
    dev_text: EncodedText
    model: LanguageModel
    windows: Windows
    fingerprints: Dict[str, str]
    n_steps: Optional[int]

    def warm_up(self) -> None:
        """Set the warm state of the present weights: that after the first training sentences."""
        sentences = islice(self.text.stream.iter_sentences(), WARM_UP_SENTENCES)
        self.model.bilm.warm_up([sentence[:WARM_UP_WORDS_A_SENTENCE] for sentence in sentences])


def prepare_run(config: TrainingConfig, world: World, reporter: Reporter) -> Run:
    """Read the texts and make the model, on the device of the process.

    :raises ValueError: a text or the vocabulary is faulty, or not that of the first process.
    """
    vocabulary = _read_vocabulary(config.vocabulary, config.init)
    with world.first_before_others():
        stream = _read_text(config.train, "training text", reporter)
        dev_stream = _read_text(config.dev, "held-out text", reporter)
    if vocabulary is None:
        vocabulary = _build_vocabulary(config.vocabulary, stream)
    words, first_vectors = _make_word_table(config, stream)
    code_points = None if config.init is None else config.init.bilm.token_layer.reader.code_points
    fingerprints = {
        "training text": fingerprint_stream(stream),
        "held-out text": fingerprint_stream(dev_stream),
        "vocabulary": fingerprint_vocabulary(vocabulary),
    }
    if words is not None:
        fingerprints["word table"] = fingerprint_words(words)
    if fingerprints != world.share(lambda: fingerprints):
        raise ValueError(
            f"Process {world.rank} of {world.size} reads another text than the first one; expected "
            "the same files on all machines."
        )
    reader = TokenReader(config.bilm, words, code_points)
    text = EncodedText(stream, vocabulary, reader)
    dev_text = EncodedText(dev_stream, vocabulary, reader)

    head = config.make_head(config.bilm.projection_dim, text.count_targets(len(vocabulary)))
    bilm = BiLM(config.bilm, words=words, code_points=code_points)
    model = LanguageModel(bilm, head).train()
    if first_vectors is not None:
        reporter.noted(first_vectors.fill(bilm))
    if config.init is not None:
        reporter.noted(config.init.fill(model, vocabulary))
    model.to(world.device)
    world.copy_first(list(model.state_dict().values()))
    windows = Windows(text, config.training, world)
    n_steps = count_steps(config.training, windows.steps_an_epoch)
    return Run(vocabulary, text, dev_text, model, windows, fingerprints, n_steps)


def make_plan(run: Run, config: TrainingConfig, first_step: int) -> Plan:
    """What is known before the first step.

    :param first_step: steps that were made before.
    """
    stream, dev_stream = run.text.stream, run.dev_text.stream
    world = run.windows.world
    return Plan(
        n_tokens=stream.n_tokens,
        n_sentences=stream.n_sentences,
        n_predictions=stream.n_predictions,
        n_words=run.model.head.n_words,
        unknown_rate=run.text.unknown_rate,
        dev_tokens=dev_stream.n_tokens,
        dev_sentences=dev_stream.n_sentences,
        dev_unknown_rate=run.dev_text.unknown_rate,
        steps_an_epoch=run.windows.steps_an_epoch,
        first_step=first_step,
        n_steps=run.n_steps,
        n_parameters=sum(parameter.numel() for parameter in run.model.bilm.parameters()),
        n_softmax_parameters=sum(parameter.numel() for parameter in run.model.head.parameters()),
        n_bytes=estimate_bytes(run.model, config.make_optimizer, config.training),
        n_processes=world.size,
        device=str(world.device),
    )


def _read_text(corpus: Corpus, what: str, reporter: Reporter) -> WordStream:
    reporter.reading(what)
    return WordStream.from_corpus(corpus, reporter.read)


def _read_vocabulary(
    settings: VocabularySettings, init: Optional[StartWeights]
) -> Optional[Vocabulary]:
    if settings.path is None:
        return None if init is None else init.vocabulary
    try:
        return Vocabulary.from_disk(settings.path)
    except ValueError as error:
        raise ValueError(f"[vocab] path: {error}") from None


def _make_word_table(
    config: TrainingConfig, stream: WordStream
) -> Tuple[Optional[List[str]], Optional[FirstVectors]]:
    """Entries of the biLM's word table, if it has one, and first vectors, if there are any."""
    if config.bilm.words is None:
        return None, None
    if config.init is not None:
        return config.init.bilm.token_layer.reader.words, None
    try:
        return make_word_table(config.words, config.vectors, stream, config.bilm.words.frozen)
    except ValueError as error:
        raise ValueError(f"[words] {error}") from None


def _build_vocabulary(settings: VocabularySettings, stream: WordStream) -> Vocabulary:
    try:
        return Vocabulary.from_counts(
            stream.count_words(), max_size=settings.max_size, min_count=settings.min_count
        )
    except ValueError as error:
        raise ValueError(f"[vocab] min_count is {settings.min_count}: {error}") from None
