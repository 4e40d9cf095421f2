"""The registry that training configs are resolved with: spaCy's, and the trainer's own parts."""

from spacy.util import registry as spacy_registry

from .. import registry as elmo_registry


class registry(spacy_registry):
    """spaCy's registry with ``@softmax_heads``, ``@torch_optimizers`` and ``@torch_schedules``.

    Other packages add to them by entry points of the groups ``spacy_elmo_softmax_heads`` and so
    on.
    """

    softmax_heads = elmo_registry.softmax_heads
    torch_optimizers = elmo_registry.torch_optimizers
    torch_schedules = elmo_registry.torch_schedules
