"""Catalogue registries that every part of the package, and other packages, can add to.

An entry is a line in a package's entry points (group ``spacy_elmo_<name>``), so nothing has to be
imported first and ``bilm`` needs no import of the parts above it.
"""

import catalogue

#: How weights come from and go to disk: "load" (path -> BiLM) and "save" (BiLM, path -> None).
persistence = catalogue.create("spacy_elmo", "persistence", entry_points=True)

#: What scores text with the softmax of a biLM: "perplexity" (BiLM, sentences -> dict).
scoring = catalogue.create("spacy_elmo", "scoring", entry_points=True)

#: Formats of published weights, by name: ``spacy_elmo.formats.Format`` objects.
formats = catalogue.create("spacy_elmo", "formats", entry_points=True)

#: Softmax heads of the language model while it trains (``@softmax_heads`` in a config).
softmax_heads = catalogue.create("spacy_elmo", "softmax_heads", entry_points=True)

#: Makers of torch optimizers and learning-rate schedules (``@torch_optimizers``,
#: ``@torch_schedules`` in a config).
torch_optimizers = catalogue.create("spacy_elmo", "torch_optimizers", entry_points=True)
torch_schedules = catalogue.create("spacy_elmo", "torch_schedules", entry_points=True)
