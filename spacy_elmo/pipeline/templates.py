"""Complete training configs for pipelines on a given biLM, with comments."""

import re
from textwrap import wrap
from typing import Iterator, List, Sequence, Set

from spacy.language import Language
from spacy.util import get_lang_class, load_config_from_str, load_model_from_config
from thinc.api import Config

from ..formats import load
from ..pretrained import check_language

#: Components with a ``tok2vec``, in the order that spaCy's own pipelines have.
COMPONENTS = (
    "senter",
    "tagger",
    "morphologizer",
    "trainable_lemmatizer",
    "parser",
    "ner",
    "entity_linker",
    "spancat",
    "spancat_singlelabel",
    "span_finder",
    "textcat",
    "textcat_multilabel",
)

#: Width of the word features and of the encoder, as in spaCy's own small pipelines.
WIDTH = 96


def make_pipeline_config(lang: str, pipeline: Sequence[str], source: str) -> str:
    """A config for ``spacy train``, in which only the paths of the corpora are missing.

    lang (str): Code of a spaCy language.
    pipeline (Sequence[str]): Some of :data:`COMPONENTS`; ``elmo`` comes before them.
    source (str): The biLM, in any supported format, from which the widths are taken.
    RETURNS (str): The config.
    RAISES (ValueError): There is no such language or component, or the biLM cannot be read or is a
        bundled one of another language.
    """
    for number, name in enumerate(pipeline):
        if name not in COMPONENTS or name in pipeline[:number]:
            if name in COMPONENTS:
                problem = f"in which {name!r} is there twice"
            # spaCy registers its components when the first pipeline is made.
            elif Language().has_factory(name):
                problem = f"in which {name!r} takes no tok2vec layer"
            else:
                problem = f"which has {name!r}, but there is no such factory"
            raise ValueError(
                f"pipeline is {','.join(pipeline)}, {problem}; expected some of "
                f"{', '.join(COMPONENTS)}, each once. The elmo component is added before them."
            )
    if not pipeline:
        raise ValueError(f"pipeline is empty; expected some of {', '.join(COMPONENTS)}.")
    try:
        get_lang_class(lang)
    except ImportError as error:
        raise ValueError(f"lang is {lang!r}: {error}") from error
    check_language(source, lang)
    bilm = load(source)
    skeleton = load_config_from_str(_SKELETON, interpolate=False)
    skeleton["paths"]["bilm"] = source
    skeleton["nlp"] = {"lang": lang, "pipeline": ["elmo", *pipeline]}
    skeleton["components"]["elmo"]["model"]["width"] = bilm.width
    # spaCy registers its components when the first pipeline is made.
    factories = Language()
    for name in pipeline:
        default = factories.get_factory_meta(name).default_config or {}
        tok2vec = Config().from_str(_TOK2VEC, interpolate=False)["tok2vec"]
        model = {**default["model"], "tok2vec": tok2vec}
        skeleton["components"][name] = {"factory": name, "model": model}
    if "entity_linker" in pipeline:
        skeleton["paths"]["kb"] = None
        loader = {"@misc": "spacy.KBFromFile.v1", "kb_path": "${paths.kb}"}
        skeleton["initialize"]["components"] = {"entity_linker": {"kb_loader": loader}}
    # Filled here, so that what the config says is what is trained, whatever spaCy's version.
    config = load_model_from_config(skeleton, auto_fill=True, validate=False).config
    # Read once more, for spaCy's order of the sections.
    text = load_config_from_str(config.to_str(), interpolate=False).to_str()
    return "\n".join(_commented(text, bilm.config.mixture_size)) + "\n"


def _commented(text: str, n_layers: int) -> Iterator[str]:
    """The lines of a config, with a comment before each section and setting that has one."""
    yield from _comment(_HEAD)
    section = ""
    seen: Set[str] = set()
    for line in text.splitlines():
        if match := re.match(r"\[(.+)\]$", line):
            section = match.group(1)
            found = _find(section, seen)
        elif match := re.match(r"([^\s=]+) = ", line):
            found = _find(f"{section}.{match.group(1)}", seen)
        else:
            found = ""
        yield from _comment(found.replace("<n_layers>", str(n_layers)))
        yield line


def _find(place: str, seen: Set[str]) -> str:
    """The comment of a section or setting. What holds for every component is said once."""
    for pattern, comment in COMMENTS.items():
        if re.fullmatch(pattern, place) and pattern not in seen:
            seen.add(pattern)
            return comment
    return ""


def _comment(text: str) -> List[str]:
    lines = (wrap(paragraph, 97) or [""] for paragraph in text.splitlines())
    return [f"# {line}".rstrip() for paragraph in lines for line in paragraph]


_HEAD = """\
Training config of a pipeline on a biLM.

  spacy train THIS.cfg --output DIR --paths.train TRAIN.spacy --paths.dev DEV.spacy

Any setting can be given as an option, as the paths are: --training.max_steps 2000
"""

_X = r"components\.[^.]+\.model\.tok2vec"

#: Comments by what they stand above; the first component's ``tok2vec`` has them for all.
COMMENTS = {
    r"paths\.train": "The annotated Docs to train on and those to evaluate on, as `spacy convert` "
    "writes them.",
    r"paths\.bilm": "The biLM, in any supported format. A trained pipeline holds its weights and "
    "does not look here again.",
    r"paths\.vectors": "A pipeline with static vectors, as `spacy init vectors` writes it; null "
    "for none. With one, set include_static_vectors below.",
    r"paths\.kb": "The knowledge base of the entity linker.",
    r"components\.elmo": "The biLM, which all components share.",
    r"components\.elmo\.frozen": "true: only the components learn, and the biLM stays as it is. "
    "false trains it along: slower, and often no better.",
    r"components\.elmo\.layer_weights": "The mix of doc.tensor, which no component here reads: "
    '"average", "top", a layer\'s number, or a weight a layer.',
    r"components\.elmo\.set_tensor": "Write doc.tensor, from which token.vector comes.",
    r"components\.elmo\.store_layers": "Keep all layers on each Doc; null: only where components "
    "listen.",
    r"components\.elmo\.vector_hooks": "Have token.vector and similarity follow the context also "
    "where static vectors are loaded.",
    r"components\.elmo\.model\.width": "Of the biLM's vectors, 2 x projection_dim.",
    r"components\.elmo\.model\.initial_state": 'What the LSTMs start a segment from: "warm" or '
    '"zero".',
    r"components\.elmo\.model\.batch_tokens": "Positions in one sub-batch. It bounds memory and "
    "changes no result.",
    r"components\.elmo\.model\.layer_store": "Keeps the layers of a frozen biLM from the first "
    "epoch on, up to max_bytes; null: they are computed in every epoch.",
    r"components\.elmo\.model\.segments": "What the biLM reads in one go: sentences where the Doc "
    "has them, else windows.",
    _X: "Word features of the component's own, joined to its mix of the biLM's <n_layers> layers "
    "and encoded. The same block in each component.",
    _X + r"\.join": 'Where ELMo is joined: "input" or "output" of the encoder, or "both".',
    _X + r"\.project_input": "Bring the joined input to the encoder's width by a layer of its own; "
    "false: set the encoder's width to the sum.",
    _X + r"\.elmo": "A biLM of the component's own; replace_listeners writes it here.",
    _X + r"\.embed": "Hashed features of words; any embedding layer of spaCy does.",
    _X + r"\.embed\.include_static_vectors": "true where [paths] vectors names a table.",
    _X + r"\.encode": "Any encoder of spaCy. The biLM has read the context already, so one layer "
    "will do.",
    _X + r"\.input_mix": "A softmax-weighted sum of the layers, times gamma, with learned weights.",
    _X + r"\.input_mix\.dropout": "On the mixed vectors, while training. Sensible: 0.2 to 0.5.",
    _X + r"\.input_mix\.l2": "A penalty that draws the weights to the average of the layers.",
    _X + r"\.input_mix\.learn_rate_factor": "How much faster the mix learns than other weights.",
    r"components\.[^.]+\.scorer": "The other settings of components are spaCy's defaults, see "
    "https://spacy.io/api.",
    r"training\.max_steps": "The first of these limits that is reached ends the run.",
    r"training\.patience": "Steps without a better score that end the run; 0: they never do.",
    r"training\.dropout": "For the components' own layers; the mixes have a dropout of theirs.",
    r"training\.frozen_components": "The elmo component has a setting frozen of its own and does "
    "not belong here.",
    r"training\.optimizer\.learn_rate": "Sensible: 0.001.",
}

_SKELETON = """\
[paths]
train = null
dev = null
bilm = null
vectors = null

[system]
seed = 0
gpu_allocator = null

[components]

[components.elmo]
factory = "elmo"

[components.elmo.model]
@architectures = "spacy-elmo.Elmo.v1"
source = ${paths.bilm}
width = null

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.train}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.dev}

[training]
seed = ${system.seed}
gpu_allocator = ${system.gpu_allocator}
train_corpus = "corpora.train"
dev_corpus = "corpora.dev"
dropout = 0.2
patience = 1600
max_epochs = 0
max_steps = 20000
eval_frequency = 200

[training.optimizer]
@optimizers = "Adam.v1"
learn_rate = 0.001

[training.batcher]
@batchers = "spacy.batch_by_words.v1"
size = 1000
tolerance = 0.2
discard_oversize = false

[initialize]
vectors = ${paths.vectors}
"""

_TOK2VEC = f"""\
[tok2vec]
@architectures = "spacy-elmo.Tok2VecElmo.v1"
width = ${{components.elmo.model.width}}
upstream = "elmo"
join = "input"

[tok2vec.embed]
@architectures = "spacy.MultiHashEmbed.v2"
width = {WIDTH}
attrs = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
rows = [5000, 1000, 2500, 2500]
include_static_vectors = false

[tok2vec.encode]
@architectures = "spacy.MaxoutWindowEncoder.v2"
width = {WIDTH}
window_size = 1
maxout_pieces = 3
depth = 1

[tok2vec.input_mix]
@architectures = "spacy-elmo.ScalarMix.v1"
dropout = 0.3
"""
