"""The listener: a downstream component's end of the line to an ``elmo`` pipe.

While training, the pipe hands over the layers of the batch and takes gradients back. In every
other case the listener reads the layers from the Doc, and where they are missing or no longer fit
its tokens, it has the pipe's model compute them. So a component gets right vectors or an error,
whatever is frozen, disabled, rehearsed or retokenized.
"""

import warnings
import weakref
import zlib
from typing import Any, Callable, Iterable, Iterator, List, Optional, Protocol, Sequence, Tuple

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats3d

from .elmo import embed_docs, keep_annotated, settings_of
from .types import ConstantLayers, ElmoModelT, LayersT, ListenerModelT

BackpropT = Callable[[LayersT], Any]


class Upstream(Protocol):
    """What a listener needs of an ``elmo`` pipe."""

    name: str
    model: ElmoModelT

    def remove_listener(self, listener: Any, component_name: str) -> bool: ...


class ListenerState:
    """What a listener knows beside its width. It is kept as a model attribute rather than in a
    subclass, so that ``Model.copy`` keeps it, and never enters a file.

    upstream_name (str): The ``elmo`` pipe to listen to, or "*".
    """

    def __init__(self, upstream_name: str) -> None:
        self.upstream_name = upstream_name
        self._linked: Callable[[], Optional[Upstream]]
        self._fallback: Callable[[], Optional[Upstream]]
        self.linked_name: Optional[str] = None
        self.component_name: Optional[str] = None
        self.unlink()
        self.clear()

    @property
    def upstream(self) -> Optional[Upstream]:
        """The pipe that is listened to; no longer, once it was removed and is gone."""
        linked = self._linked()
        if linked is None and (linked := self._fallback()) is not None:
            self.linked_name = linked.name
        return linked

    def link(self, upstream: Upstream) -> None:
        """Listen to this pipe from now on. The pipeline owns it, not the listener."""
        self.unlink()
        self._linked, self.linked_name = weakref.ref(upstream), upstream.name

    def fall_back_to(self, upstream: Upstream) -> None:
        """Listen to this pipe if the one that is listened to is removed."""
        self._fallback = weakref.ref(upstream)

    def unlink(self) -> None:
        self._linked = self._fallback = _nothing
        self._owned: Optional[Upstream] = None

    def clear(self) -> None:
        """Forget the batch."""
        self.batch_id: Optional[Tuple[int, ...]] = None
        self.layers: LayersT = []
        self.backprop: Optional[BackpropT] = None

    def __getstate__(self) -> dict:
        # Backprop callbacks are closures, which cannot be pickled. The link stays, as spaCy makes
        # none in an unpickled pipeline or in the processes of nlp.pipe.
        kept = ("upstream_name", "linked_name", "upstream", "component_name")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict) -> None:
        self.__init__(state["upstream_name"])  # type: ignore[misc]
        if state["upstream"] is not None:
            self.link(state["upstream"])
            # A process of nlp.pipe gets no disabled pipe but this one.
            self._owned = state["upstream"]
        self.linked_name, self.component_name = state["linked_name"], state["component_name"]

    def __deepcopy__(self, memo: dict) -> "ListenerState":
        # A copy listens to the same pipe; copying its model along would double the biLM.
        copied = ListenerState(self.upstream_name)
        copied.__dict__.update(vars(self))
        copied.clear()
        return copied


def _nothing() -> None:
    return None


def build_listener(width: int, upstream_name: str) -> ListenerModelT:
    """Docs to the layers of an ``elmo`` pipe, (n_layers + 1, n_tokens, width) a Doc."""
    attrs = {"elmo_listener": ListenerState(upstream_name)}
    return Model("elmo_listener", forward, dims={"nO": width}, attrs=attrs)


def state_of(model: Model) -> Optional[ListenerState]:
    """The state of a listener; none for any other model."""
    state = model.attrs.get("elmo_listener")
    return state if isinstance(state, ListenerState) else None


def receive(
    model: ListenerModelT, docs: Sequence[Doc], layers: LayersT, backprop: BackpropT
) -> None:
    """Hand a training batch to a listener.

    model (Model): The listener.
    docs (Sequence[Doc]): The batch.
    layers (List[Floats3d]): The layers of each Doc.
    backprop (Callable[[List[Floats3d]], Any]): Takes the gradient of the layers.
    """
    state = state_of(model)
    assert state is not None
    state.batch_id, state.layers, state.backprop = _batch_id(docs), layers, backprop


def store_layers(doc: Doc, name: str, layers: Any) -> None:
    """Put layers on a Doc, with a checksum of the tokens that they belong to.

    doc (Doc): The Doc.
    name (str): The name of the ``elmo`` pipe; the layers are read as ``doc._.<name>_layers``.
    layers (numpy.ndarray): (n_layers + 1, n_tokens, width)
    """
    doc._.set(layers_extension(name), layers)
    doc.user_data[f"{name}_tokens"] = _checksum(doc)


def layers_extension(name: str) -> str:
    """The Doc extension with the layers of the pipe of this name, registered if it is not."""
    extension = f"{name}_layers"
    if not Doc.has_extension(extension):
        Doc.set_extension(extension, default=None)
    return extension


def forward(model: ListenerModelT, docs: List[Doc], is_train: bool) -> Tuple[LayersT, BackpropT]:
    state = state_of(model)
    assert state is not None
    if is_train and state.batch_id is not None:
        if state.batch_id == _batch_id(docs):
            return _check_width(model, state, state.layers), _backprop_and_clear(state)
        if state.upstream is not None and not settings_of(state.upstream.model).frozen:
            state.clear()
            raise ValueError(
                f"{_component(state)} was updated with other Docs than {state.linked_name!r}, so "
                "its gradients cannot reach the biLM. Update both with the same batch, or set "
                f"[components.{state.linked_name}] frozen = true."
            )
    layers = ConstantLayers(_read_or_compute(model, state, docs))
    if is_train and state.upstream is not None:
        keep_annotated(state.upstream.model)
    return _check_width(model, state, layers), _no_backprop


def _read_or_compute(model: ListenerModelT, state: ListenerState, docs: List[Doc]) -> LayersT:
    stored = [_stored_layers(doc, state.linked_name) for doc in docs]
    missing = [doc for doc, layers in zip(docs, stored) if layers is None and len(doc)]
    if missing and state.upstream is None:
        raise ValueError(
            f"{_component(state)} listens to upstream = {state.upstream_name!r}, but no elmo "
            "component of that name stands before it and is enabled, and its Docs hold no layers. "
            "Add or enable the elmo component, before this one, or correct 'upstream'."
        )
    computed: Iterator[Floats3d] = iter(())
    if missing and state.upstream is not None:
        computed = iter(embed_docs(state.upstream.model, missing))
    outputs: LayersT = []
    for doc, layers in zip(docs, stored):
        if not len(doc):
            outputs.append(model.ops.alloc3f(1, 0, model.get_dim("nO")))
        elif layers is None:
            outputs.append(next(computed))
        else:
            outputs.append(model.ops.asarray3f(layers))
    return outputs


def _stored_layers(doc: Doc, name: Optional[str]) -> Optional[Floats3d]:
    if name is None or not Doc.has_extension(f"{name}_layers"):
        return None
    layers = doc._.get(f"{name}_layers")
    if layers is None:
        return None
    if doc.user_data.get(f"{name}_tokens") == _checksum(doc):
        return layers
    warnings.warn(
        f"The tokens of a Doc changed after {name!r} ran (was it retokenized?), so its layers are "
        f"computed again for the listeners; doc.tensor is as the change left it. Place what "
        f"changes tokens before {name!r}.",
        UserWarning,
        stacklevel=2,
    )
    return None


def _check_width(model: ListenerModelT, state: ListenerState, layers: LayersT) -> LayersT:
    width = model.get_dim("nO")
    for array in layers:
        if array.shape[2] != width:
            raise ValueError(
                f"{_component(state)} has an ElmoListener of width {width}, but "
                f"{state.linked_name!r} gives vectors of width {array.shape[2]}: set width = "
                f"{array.shape[2]} where its config says spacy-elmo.ElmoListener.v1."
            )
    return layers


def _backprop_and_clear(state: ListenerState) -> BackpropT:
    received = state.backprop
    assert received is not None

    def backprop(d_layers: LayersT) -> Any:
        result = received(d_layers)
        state.clear()
        return result

    return backprop


def _batch_id(docs: Iterable[Doc]) -> Tuple[int, ...]:
    return tuple(_checksum(doc) for doc in docs)


def _checksum(doc: Doc) -> int:
    return zlib.crc32(doc.to_array("ORTH").tobytes())


def _component(state: ListenerState) -> str:
    return f"The component {state.component_name!r}" if state.component_name else "A component"


def _no_backprop(d_layers: LayersT) -> List:
    return []
