"""Complete training configs with a comment for every setting, by size and language."""

from dataclasses import dataclass
from textwrap import fill
from typing import Dict

from spacy.util import get_lang_class

#: What tokens are read by, for :func:`make_template`.
TOKEN_LAYERS = ("characters", "words", "joint")

# Characters of a token that a biLM should see whole, whatever their number of bytes.
CHARACTERS_A_TOKEN = 48


@dataclass(frozen=True)
class Size:
    """What differs between the sizes.

    :param about: what the size is for.
    :param optimizer: the block ``[training.optimizer]``, which has a place for ``learn_rate``.
    :param schedule: the block ``[training.schedule]``.
    """

    about: str
    filters: str
    n_highway: int
    projection_dim: int
    cell_size: int
    max_size: int
    min_count: int
    n_samples: int
    grad_clip: float
    optimizer: str
    schedule: str
    learn_rate: float


_ADAMW = """\
# AdamW learns fastest on small and medium texts; "spacy-elmo.Adagrad.v1" (learn_rate,
# initial_accumulator) is what bilm-tf has.
@torch_optimizers = "spacy-elmo.AdamW.v1"
# The highest rate, which the schedule scales. Sensible: 0.0005 to 0.002, the lower the larger
# the biLM.
learn_rate = <learn_rate>
# How slowly the running means of the gradients and of their squares change.
beta1 = 0.9
beta2 = 0.999
# Bounds the size of a step where gradients are tiny.
eps = 1e-8
# Part of each weight taken off a step, times the rate. Sensible: 0 to 0.1.
weight_decay = 0.0"""

_ADAGRAD = """\
# What bilm-tf has. "spacy-elmo.AdamW.v1" (learn_rate, beta1, beta2, eps, weight_decay), with a
# rate of about 0.0005, learns faster on smaller texts, and takes the memory of the weights once
# more.
@torch_optimizers = "spacy-elmo.Adagrad.v1"
# The highest rate, which the schedule scales. Sensible: 0.1 to 0.3.
learn_rate = <learn_rate>
# Start value of the sums of squared gradients; the larger, the smaller are the first steps.
initial_accumulator = 1.0"""

_WARMUP_COSINE = """\
# Rises to the highest rate, then falls along a cosine to a part of it at the end of the run.
# "spacy-elmo.warmup_linear.v1" (warmup_steps) falls in a straight line to 0;
# "spacy-elmo.constant.v1" (warmup_steps) does not fall, so that training can go on without end.
@torch_schedules = "spacy-elmo.warmup_cosine.v1"
# Steps until the highest rate is reached. Sensible: 100 to 2000.
warmup_steps = 300
# The part of the highest rate that is left at the end.
final_rate = 0.02"""

_CONSTANT = """\
# The same rate at every step: Adagrad lowers its steps by itself.
# "spacy-elmo.warmup_linear.v1" (warmup_steps) and "spacy-elmo.warmup_cosine.v1" (warmup_steps,
# final_rate) fall until the end of the run, as AdamW wants it.
@torch_schedules = "spacy-elmo.constant.v1"
# Steps until the rate is reached.
warmup_steps = 0"""

SIZES: Dict[str, Size] = {
    "sm": Size(
        about="Small: vectors of width 256, trained on a CPU in hours; 5 to 100 million tokens.",
        filters="[[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]]",
        n_highway=1,
        projection_dim=128,
        cell_size=1024,
        max_size=30_000,
        min_count=1,
        n_samples=4096,
        grad_clip=1.0,
        learn_rate=0.002,
        optimizer=_ADAMW,
        schedule=_WARMUP_COSINE,
    ),
    "md": Size(
        about="Medium: vectors of width 512, trained on a GPU; 50 to 500 million tokens.",
        filters="[[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512]]",
        n_highway=1,
        projection_dim=256,
        cell_size=2048,
        max_size=100_000,
        min_count=2,
        n_samples=8192,
        grad_clip=1.0,
        learn_rate=0.001,
        optimizer=_ADAMW,
        schedule=_WARMUP_COSINE,
    ),
    "original": Size(
        about="The original (Peters et al. 2018): vectors of width 1024, trained on GPUs in days "
        "to weeks; 500 million tokens or more. Its files fit every reader of ELMo weights.",
        filters="[[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]",
        n_highway=2,
        projection_dim=512,
        cell_size=4096,
        max_size=800_000,
        min_count=3,
        n_samples=8192,
        grad_clip=10.0,
        learn_rate=0.2,
        optimizer=_ADAGRAD,
        schedule=_CONSTANT,
    ),
}


def make_template(size: str = "sm", lang: str = "en", token_layer: str = "characters") -> str:
    """A training config, in which only the paths of the texts are missing.

    :param size: one of :data:`SIZES`.
    :param lang: code of a spaCy language, which tokenizes the texts; the more bytes its
        characters have in UTF-8, the larger is ``max_characters_per_token``.
    :param token_layer: ``characters``, ``words`` (a table of word vectors), or ``joint`` (both).
    :raises ValueError: there is no such size, language or token layer.
    """
    if token_layer not in TOKEN_LAYERS:
        raise ValueError(
            f"token_layer is {token_layer!r}; expected one of {', '.join(TOKEN_LAYERS)}."
        )
    if size not in SIZES:
        raise ValueError(f"size is {size!r}; expected one of {', '.join(SIZES)}.")
    values = {name: str(value) for name, value in vars(SIZES[size]).items()}
    values["lang"] = lang
    values["max_characters"] = str(2 + CHARACTERS_A_TOKEN * bytes_a_character(lang))
    values["about"] = fill(values["about"], 100, initial_indent="# ", subsequent_indent="# ")
    values["vector_dim"] = values["projection_dim"]
    parts = {
        "characters": _NO_CHARACTERS if token_layer == "words" else _CHARACTERS,
        "word_table": "" if token_layer == "characters" else _WORD_TABLE,
        "words_seen": (_VOCABULARY_WORDS if token_layer == "characters" else _TABLE_WORDS),
    }
    text = _TEMPLATE
    for name, value in {**parts, **values}.items():
        text = text.replace(f"<{name}>", value)
    return text


def bytes_a_character(lang: str) -> int:
    """Bytes of a character in UTF-8 in a language's own script, 1 to 3, as its stop words show;
    1 where spaCy has none.

    :param lang: code of a spaCy language.
    :raises ValueError: there is no such language.
    """
    try:
        stop_words = "".join(get_lang_class(lang).Defaults.stop_words)
    except ImportError as error:
        raise ValueError(f"lang is {lang!r}: {error}") from error
    return round(len(stop_words.encode("utf-8")) / max(1, len(stop_words))) or 1


_CHARACTERS = """\
# What makes a vector of a token's characters: "cnn", the convolutions of the original, or "lstm",
# which needs filters = [].
char_encoder = "cnn"
# [width in characters, number of filters] of each character convolution.
filters = <filters>
# Size of a character's vector. Sensible: 16.
char_embedding_dim = 16
# Bytes of a token that are read, the two marks of its borders included; what a longer token has
# more is not seen. A character has 1 byte in Latin script, 2 in Greek, Cyrillic, Hebrew or Arabic,
# 3 in Chinese, Japanese, Korean, Thai or the scripts of India: 48 characters and the marks take 50,
# 98 or 146. Short tokens take no more time for it.
max_characters_per_token = <max_characters>
# How characters are counted; 262 is what other readers of ELMo weights expect.
n_characters = 262
# After the convolutions: "relu" or "tanh".
activation = "relu"
# Highway layers above the convolutions. Sensible: 1 or 2.
n_highway = <n_highway>
"""

_NO_CHARACTERS = """\
# No characters are read: a token is the row of its word in the table of [bilm.words].
char_encoder = null
filters = []
"""

_WORD_TABLE = """
[bilm.words]
# Size of a word's vector in the table, in front of what its characters give, if they are read.
dim = <vector_dim>
# true: training leaves the vectors of [words] vectors as they are.
frozen = false

[words]
# The words of that table; all others share the vector of <UNK>.
# A file with a word a line, <S>, </S> and <UNK> first, to be used whatever the settings below say.
path = null
# Where the words come from otherwise: "text", the training text, or "vectors", those of the setting
# vectors in their order, so that words which the text does not have are known too.
entries = "text"
# Words at most, the most frequent ones; 0 for all.
max_size = <max_size>
# Occurrences in the text that a word needs. Sensible: 2 to 5; with 1 the vector of <UNK> is never
# trained.
min_count = 2
# First vectors: a text file of word2vec or fastText (also .gz, .xz, .zst), or a spaCy pipeline with
# vectors; null for random ones. Their size has to be dim.
vectors = null
"""

_VOCABULARY_WORDS = """\
# The words that training predicts. The vectors need none of them: any word has one."""

_TABLE_WORDS = """\
# The words that training predicts, which need not be those of the table."""

_TEMPLATE = """\
# Training config of a biLM for `spacy elmo train`.
<about>
#
#   spacy elmo train THIS.cfg --output DIR --paths.train TRAIN --paths.dev DEV
#
# Any setting can be given as an option, as the paths are: --training.max_hours 2

[paths]
# The text to train on and the text held out to tell how well that goes (some 100,000 tokens will
# do). Each is a file, a directory, a pattern ("data/*.txt.gz") or a list of them; .txt, .jsonl and
# .spacy, also .gz, .xz and .zst. Raw text has a paragraph a line, a blank line between documents.
train = null
dev = null

[bilm]
<characters># Size of a token's vector and of each direction's output; vectors are twice as wide.
projection_dim = <projection_dim>
# Size of an LSTM's cell, which costs most of the time. Sensible: 4 to 8 times projection_dim.
cell_size = <cell_size>
# LSTM layers of each direction. Sensible: 2; the biLM gives one layer more.
n_layers = 2
# From the second LSTM layer on, add a layer's input to its output.
use_skip_connections = true
# Bounds on the absolute values of cell and output; null for none. Sensible: 3.
cell_clip = 3.0
proj_clip = 3.0
# Linear layers from what is read of a token, and from the cell, to projection_dim; null: where
# sizes differ.
token_projection = null
cell_projection = null
# Added to the forget gate, so that an LSTM remembers from the start. Sensible: 1.
forget_bias = 1.0
# Rate of what is dropped between layers in training. Sensible: 0.1 where the text is read several
# times, 0 where it is read once or twice.
dropout = 0.1
<word_table>
[vocab]
<words_seen>
# A file with a word a line, <S>, </S> and <UNK> first, to be used whatever the settings below say;
# null takes the words of the training text.
path = null
# Words at most, the most frequent ones; 0 for all. Perplexities compare only between models with
# the same words. Sensible: 10000 to 800000, for a larger text more.
max_size = <max_size>
# Occurrences that a word needs. Sensible: 1 to 5.
min_count = <min_count>

[corpora]

[corpora.train]
@readers = "spacy-elmo.TextCorpus.v1"
path = ${paths.train}
# Language of spaCy whose tokenizer is used.
lang = "<lang>"
# true: the text is tokenized already, a line is a sentence, its words stand between blanks.
tokenized = false
# Sentences to read at most; 0 for all.
limit = 0
# Processes that tokenize. Sensible: 1 to the number of cores.
n_process = 1
# What to do at bytes that are no text, damaged or empty files: "stop" there, or "skip" them and
# go on with a warning.
on_error = "stop"
# Longest line that is read, in bytes; a longer one is such a fault.
max_line_bytes = 10000000
# Directory for the tokenized text, which later runs use again; null for spacy-elmo in the user's
# directory for caches (or $SPACY_ELMO_CACHE), "" to keep it in memory.
cache = null

[corpora.train.splitter]
# Where sentences end: at punctuation, or with "spacy-elmo.lines.v1" (no settings) at line breaks.
# Tokenized text is not split.
@misc = "spacy-elmo.sentencizer.v1"
# Characters that end a sentence; null for those of spaCy's sentencizer, which know many scripts.
punct_chars = null

[corpora.dev]
@readers = "spacy-elmo.TextCorpus.v1"
path = ${paths.dev}
# Sentences to read at most; 0 for all. The fewer, the faster and the less exact an evaluation.
limit = 0
# The rest is as for the training text.
lang = ${corpora.train.lang}
tokenized = ${corpora.train.tokenized}
n_process = ${corpora.train.n_process}
on_error = ${corpora.train.on_error}
max_line_bytes = ${corpora.train.max_line_bytes}
cache = ${corpora.train.cache}
splitter = ${corpora.train.splitter}

[training]
# Passes over the training text at most; 0 for no limit. The first limit that is reached ends the
# run; one has to be set. Sensible: 3 to 10, more for a small text.
max_epochs = 10
# Steps, and hours, at most; 0 for no limit. Schedules that fall need max_epochs or max_steps to
# know the end.
max_steps = 0
max_hours = 0
# Evaluations in a row without a better perplexity that end the run; 0: they never do.
patience = 0
# Rows of text that are read side by side, by each process, and positions of each in a window,
# through which gradients flow.
batch_size = 128
unroll_steps = 20
# Windows a step. More of them replace a larger batch_size that does not fit into memory.
grad_accumulation = 1
# Steps between two evaluations on the held-out text.
eval_frequency = 1000
# Minutes between two checkpoints, which "spacy elmo train --resume" goes on from; 0: only with
# evaluations.
checkpoint_minutes = 10
# Largest norm of all gradients together; 0 for no limit. Sensible: 1 to 10.
grad_clip = <grad_clip>
# "shuffled": sentences in a new random order every epoch. "text": as they stand, which wants
# documents long enough to learn from their context.
order = "shuffled"
# Of the random numbers: weights, order, samples, dropout.
seed = 0
# Threads of a torch operation; 0 for torch's own choice.
n_threads = 0
# "cpu", "cuda", "cuda:1" or so, or "auto": cuda where there is one.
device = "auto"
# "float32", or "bfloat16", which is about twice as fast on NVIDIA GPUs from Ampere on and on CPUs
# whose flags (lscpu) have amx_bf16 or avx512_bf16, and slower on others. Weights stay float32.
precision = "float32"
# A model to start from, of any format; its sizes are those of [bilm]. null for random weights.
init = null

[training.softmax]
# Compares each word with a sample of the vocabulary. "spacy-elmo.FullSoftmax.v1" (no settings)
# takes all of it: exact, slow from 10,000 words on. "spacy-elmo.AdaptiveSoftmax.v1" (cutoffs,
# div_value) is exact too, with smaller vectors for rare words.
@softmax_heads = "spacy-elmo.SampledSoftmax.v1"
# Words in a sample. Sensible: 1024 to 8192; more learn better and take longer.
n_samples = <n_samples>
# How they are drawn: "log_uniform", by their rank in frequency, or "counts", by their frequency.
distribution = "log_uniform"

[training.optimizer]
<optimizer>

[training.schedule]
<schedule>

# Any logger of spaCy may tell of the run in place of the progress bar; without the "#":
# [training.logger]
# @loggers = "spacy.ConsoleLogger.v3"
"""
