"""The ``elmo`` component: contextual vectors on Docs, and layers for the listeners."""

from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from spacy.errors import Errors
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Config, Model, Optimizer, set_dropout_rate

from ..models.elmo import bilm_of, embed_docs, settings_of
from ..models.encoder import SourceT, lazy_bilm
from ..models.layer_store import LayerStore
from ..models.listener import layers_extension, receive, store_layers
from ..models.scalar_mix import fixed_weights, stored_weights
from ..models.types import ElmoModelT, LayersT, LayerWeightsT
from .hooks import set_vector_hooks
from .listened_to import ListenedTo

DEFAULT_CONFIG = """
[elmo]
frozen = true
layer_weights = "average"
store_layers = null
set_tensor = true
vector_hooks = false

[elmo.model]
@architectures = "spacy-elmo.Elmo.v1"
source = "en_elmo_sm"
width = null
initial_state = "warm"
batch_tokens = 4096
precision = "float32"
device = "auto"
cached_words = 32768

[elmo.model.segments]
@misc = "spacy-elmo.sentences.v1"

[elmo.model.layer_store]
@misc = "spacy-elmo.MemoryStore.v1"
"""


@Language.factory(
    "elmo",
    assigns=["doc.tensor", "doc._.elmo_layers"],
    default_config=Config().from_str(DEFAULT_CONFIG)["elmo"],
)
def make_elmo(
    nlp: Language,
    name: str,
    model: Model,
    frozen: bool,
    layer_weights: LayerWeightsT,
    store_layers: Optional[bool],
    set_tensor: bool,
    vector_hooks: bool,
) -> "Elmo":
    """Make an ``elmo`` component, see :class:`Elmo`."""
    lazy_bilm(model.layers[0]).lang = nlp.lang
    return Elmo(
        nlp.vocab,
        model,
        name,
        frozen=frozen,
        layer_weights=layer_weights,
        store_layers=store_layers,
        set_tensor=set_tensor,
        vector_hooks=vector_hooks,
    )


class Elmo(ListenedTo, TrainablePipe):
    """Writes a mix of a biLM's layers to ``doc.tensor``, and the layers themselves to
    ``doc._.elmo_layers`` (``doc._.<name>_layers`` under another name) where something listens.

    vocab (Vocab): The pipeline's vocabulary.
    model (Model[List[Doc], List[Floats3d]]): The model, ``spacy-elmo.Elmo.v1``.
    name (str): The component's name.
    frozen (bool): Keep the biLM bit-equal in training; listeners learn their mixes all the same.
    layer_weights (Union[str, int, List[float]]): The mix of ``doc.tensor``: "average", "top", the
        number of a layer, a weight a layer, or "stored", the mix that came with the weights. No
        loss could train it.
    store_layers (Optional[bool]): Keep all layers on each Doc, 4 x (n_layers + 1) x width bytes a
        token. None: only where a later component listens.
    set_tensor (bool): Write ``doc.tensor``.
    vector_hooks (bool): Have ``vector`` and ``similarity`` follow ``doc.tensor`` also where spaCy
        would not, see :func:`set_vector_hooks`.
    RAISES (ValueError): ``layer_weights`` names no fixed mix, or there are no vectors for hooks.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: ElmoModelT,
        name: str = "elmo",
        *,
        frozen: bool = True,
        layer_weights: LayerWeightsT = "average",
        store_layers: Optional[bool] = None,
        set_tensor: bool = True,
        vector_hooks: bool = False,
    ) -> None:
        self.vocab = vocab
        self.model = model
        self.name = name
        self.cfg: Dict[str, Any] = {}
        self.layer_weights = layer_weights
        self.store_layers = store_layers
        self.set_tensor = set_tensor
        self.vector_hooks = vector_hooks
        self.frozen = frozen
        self.init_listening()
        if layer_weights == "learned":
            raise ValueError(
                f"[components.{name}] layer_weights is 'learned', but no loss reaches doc.tensor; "
                "expected 'average', 'top', the number of a layer, or a list with a weight a "
                "layer. Listeners learn mixes of their own."
            )
        if vector_hooks and not set_tensor:
            raise ValueError(
                f"[components.{name}] vector_hooks = true needs the vectors in doc.tensor, but "
                "set_tensor is false. Set set_tensor = true or vector_hooks = false."
            )
        layers_extension(name)

    @property
    def frozen(self) -> bool:
        """Does training leave the biLM alone?"""
        return settings_of(self.model).frozen

    @frozen.setter
    def frozen(self, value: bool) -> None:
        settings_of(self.model).frozen = value

    @property
    def layer_store(self) -> Optional[LayerStore]:
        """What keeps the layers of a frozen biLM while components train on them."""
        return settings_of(self.model).layer_store

    @property
    def width(self) -> int:
        """Size of a vector. Loads the biLM if that has not happened."""
        return bilm_of(self.model).width

    # Prediction

    @property
    def _stores_layers(self) -> bool:
        return bool(self.listener_map) if self.store_layers is None else self.store_layers

    def predict(self, docs: Iterable[Doc]) -> List[Any]:
        """The layers of Docs where they are to be stored, else their mix at once, since all
        layers of a large batch would take much memory.

        docs (Iterable[Doc]): The Docs, also without tokens.
        RETURNS (List[Union[Floats2d, Floats3d]]): An array a Doc.
        """
        docs = list(docs)
        if self._stores_layers:
            return self.model.predict(docs)
        return embed_docs(self.model, docs, self._mix())

    def set_annotations(self, docs: Sequence[Doc], outputs: Sequence[Any]) -> None:
        """Write what :meth:`predict` gave.

        docs (Sequence[Doc]): The Docs.
        outputs (Sequence[Union[Floats2d, Floats3d]]): An array a Doc.
        RAISES (ValueError): The vectors would replace those of a Tok2Vec component that later
            components read.
        """
        self._check_tensor_readers()
        ops = self.model.ops
        for doc, output in zip(docs, outputs):
            if output.ndim == 3:
                store_layers(doc, self.name, ops.to_numpy(output))
                weights = ops.asarray1f(self._mix())
                output = ops.xp.tensordot(weights, output, axes=(0, 0))
            if self.set_tensor:
                doc.tensor = output
                # spaCy caches the average on first access.
                doc.vector = None  # type: ignore[assignment]
                doc.vector_norm = None  # type: ignore[assignment]
                if self.vector_hooks:
                    set_vector_hooks(doc)

    def _mix(self) -> List[float]:
        bilm = bilm_of(self.model)
        if self.layer_weights == "stored":
            return stored_weights(bilm)
        return fixed_weights(self.layer_weights, bilm.config.mixture_size)

    def _check_tensor_readers(self) -> None:
        if self.set_tensor and self._tensor_readers:
            readers = ", ".join(map(repr, self._tensor_readers))
            raise ValueError(
                f"{self.name!r} would replace the vectors of a tok2vec component before it in "
                f"doc.tensor, where {readers} would read them by spacy.Tok2VecListener.v1. Set "
                f"[components.{self.name}] set_tensor = false, or place {self.name!r} before the "
                f"tok2vec component. What is to read the vectors of {self.name!r} needs "
                "spacy-elmo.ElmoListener.v1 in its place."
            )

    # Training

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
    ) -> Dict[str, float]:
        """Compute the layers of a batch once and hand them to all listeners, which learn from
        them; unless frozen, take their gradients back.

        examples (Iterable[Example]): The batch.
        drop (float): The training block's dropout; the biLM has its own.
        sgd (Optional[Optimizer]): The optimizer.
        losses (Optional[Dict[str, float]]): Gets 0.0 under the component's name while frozen, else
            the squared norm of the gradients.
        RETURNS (Dict[str, float]): The losses.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "Elmo.update")
        docs = [example.predicted for example in examples]
        if not self.listeners or not docs:
            return losses
        set_dropout_rate(self.model, drop)
        layers, backprop_layers = self.model.begin_update(docs)
        if self.frozen:
            for listener in self.listeners:
                receive(listener, docs, layers, backprop_layers)
            return losses
        d_layers = [self.model.ops.alloc3f(*doc_layers.shape) for doc_layers in layers]

        def accumulate(d_listener: List[Any]) -> None:
            for total, gradient in zip(d_layers, d_listener):
                # A component without tokens to learn from cannot know the number of layers.
                if gradient.size:
                    total += gradient
                    losses[self.name] += float((gradient**2).sum())

        def backprop(d_listener: LayersT) -> Any:
            accumulate(d_listener)
            d_docs = backprop_layers(d_layers)
            if sgd is not None:
                self.finish_update(sgd)
            return d_docs

        # torch goes back through a graph once, so only the last listener starts it.
        for listener in self.listeners[:-1]:
            receive(listener, docs, layers, accumulate)
        receive(self.listeners[-1], docs, layers, backprop)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the gradients, unless frozen."""
        if not self.frozen:
            self.model.finish_update(sgd)

    def get_loss(self, examples: Any, scores: Any) -> None:
        """The component has no loss of its own."""

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        source: Optional[SourceT] = None,
    ) -> None:
        """Load the weights, if that has not happened.

        get_examples (Callable[[], Iterable[Example]]): Sample examples.
        nlp (Optional[Language]): The pipeline.
        source (Optional[Union[str, Dict[str, Any]]]): Weights to load in place of what the model
            has, by ``[initialize.components.elmo]``. With it, the model's own ``source`` may stay
            empty.
        RAISES (OSError): There is nothing at the path of the weights, or no permission to read it.
        RAISES (ValueError): The weights cannot be loaded, or the pipeline's components would
            write over each other's vectors.
        """
        validate_get_examples(get_examples, "Elmo.initialize")
        if self.layer_store is not None:
            # What another training left takes the room of this one's text.
            self.layer_store.close()
        docs = [example.x for example in islice(get_examples(), 10)]
        if not docs:
            raise ValueError(Errors.E923.format(name=self.name))
        module = lazy_bilm(self.model.layers[0])
        if source is not None:
            module.load(source, f"[initialize.components.{self.name}] source")
        elif module.bilm is None:
            module.load_source()
        self.model.initialize(X=docs)
        self._mix()
        self._check_tensor_readers()

    def from_disk(self, path: Union[str, Path], *, exclude: Sequence[str] = ()) -> "Elmo":
        """Read what ``to_disk`` wrote.

        path (Union[str, Path]): The component's directory.
        exclude (Sequence[str]): Names of parts to leave as they are.
        RETURNS (Elmo): This component.
        RAISES (ValueError): The file of the model is damaged, or of another biLM than the config's.
        """
        try:
            return super().from_disk(path, exclude=exclude)
        except ValueError as error:
            raise ValueError(
                f"{Path(path) / 'model'} cannot be loaded as the model of {self.name!r}; expected "
                f"what nlp.to_disk() wrote there ({error})."
            ) from error

    def add_label(self, label: str) -> None:
        """Not for this component."""
        raise NotImplementedError(f"{self.name!r} has no labels.")
