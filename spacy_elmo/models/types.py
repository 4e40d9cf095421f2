"""Aliases shared by the thinc layers. Sizes: a mixture has ``n_layers + 1`` layers."""

from typing import Callable, List, Sequence, Union

from spacy.tokens import Doc, Span
from thinc.api import Model
from thinc.types import Floats2d, Floats3d

#: Cuts Docs into what the biLM reads in one go: a list of spans a Doc, in order, each token once.
SegmenterT = Callable[[Sequence[Doc]], List[List[Span]]]

#: Layers of one Doc. *Shape:* (n_layers + 1, n_tokens, width)
LayersT = List[Floats3d]


class ConstantLayers(List[Floats3d]):
    """Layers that take no gradient, so that none needs to be computed, nor are to be written to."""


ElmoModelT = Model[List[Doc], List[Floats3d]]
ListenerModelT = Model[List[Doc], List[Floats3d]]
ScalarMixModelT = Model[List[Floats3d], List[Floats2d]]
Tok2VecModelT = Model[List[Doc], List[Floats2d]]
EncodeModelT = Model[List[Floats2d], List[Floats2d]]

#: "learned" (listeners), "stored" (the component), "average", "top", the number of one layer, or a
#: weight a layer.
LayerWeightsT = Union[str, int, List[float]]
