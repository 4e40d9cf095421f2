"""What makes spaCy take a component for one that others listen to: the members that
``spacy.ty.ListenedToComponent`` names, and which listeners are whose."""

import weakref
from typing import Any, Dict, List, Tuple

from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from thinc.api import Model

from ..models.listener import ListenerState, state_of
from ..models.types import ElmoModelT


class Followers(weakref.WeakSet):
    """The pipes of this kind that came after another one in a pipeline. A copy learns its own."""

    def __reduce__(self) -> Tuple[Any, ...]:
        return Followers, ()


class ListenedTo:
    """The part of an ``elmo`` component that knows its listeners."""

    name: str
    cfg: Dict[str, Any]
    model: ElmoModelT

    def init_listening(self) -> None:
        """Begin without listeners."""
        self.cfg["former_names"] = []
        self._followers = Followers()
        self.listener_map = {}

    @property
    def listener_map(self) -> Dict[str, List[Model]]:
        """RETURNS (Dict[str, List[Model]]): The listeners of each component that listens."""
        return self._listener_map

    @listener_map.setter
    def listener_map(self, value: Dict[str, List[Model]]) -> None:
        # spaCy sets an empty map, then calls find_listeners() with each later component in order.
        self._listener_map = value
        # Components that read doc.tensor for the vectors of a Tok2Vec component before this one.
        self._tensor_readers: List[str] = []
        self._tok2vec_follows = False

    @property
    def listeners(self) -> List[Model]:
        """RETURNS (List[Model]): The listeners of all components, in pipeline order."""
        return [listener for name in self.listener_map for listener in self.listener_map[name]]

    @property
    def listening_components(self) -> List[str]:
        """RETURNS (List[str]): The names of the components that listen."""
        return list(self.listener_map)

    def add_listener(self, listener: Model, component_name: str) -> None:
        """Link a listener of a later component."""
        state = state_of(listener)
        assert state is not None
        if state.upstream is not None and state.upstream is not self:
            # It listens to this pipe alone; the other one would wait for its gradients.
            state.upstream.remove_listener(listener, component_name)
        state.link(self)
        state.component_name = component_name
        listeners = self.listener_map.setdefault(component_name, [])
        if listener not in listeners:
            listeners.append(listener)

    def remove_listener(self, listener: Model, component_name: str) -> bool:
        """Unlink a listener. RETURNS (bool): It was linked."""
        listeners = self.listener_map.get(component_name, [])
        if listener not in listeners:
            return False
        # A new list, since spaCy walks through the old one while it replaces several listeners.
        others = [other for other in listeners if other is not listener]
        if others:
            self.listener_map[component_name] = others
        else:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Link the listeners in a later component's model that name this component or "*". Since
        spaCy asks upstream components in pipeline order, "*" ends at the nearest one. It stays
        there when that one is disabled, of which spaCy tells neither of them."""
        if isinstance(component, ListenedTo):
            self._followers.add(component)
            component._followers.discard(self)
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        self._tok2vec_follows |= isinstance(component, Tok2Vec)
        for node in model.walk():
            state = state_of(node)
            if state is not None and self._is_named_by(state):
                if state.upstream_name == "*" and state.upstream in self._followers:
                    state.fall_back_to(self)
                else:
                    self.add_listener(node, component.name)
            # A Tok2Vec that follows writes doc.tensor anew for those that listen to it.
            if isinstance(node, Tok2VecListener) and not self._tok2vec_follows:
                self._tensor_readers.append(component.name)

    def _is_named_by(self, state: ListenerState) -> bool:
        if state.upstream_name in ("*", self.name, *self.cfg["former_names"]):
            return True
        if state.upstream is not self:
            return False
        # The component was renamed. The configs of its listeners cannot be reached from here, so
        # the old name is saved.
        self.cfg["former_names"].append(state.upstream_name)
        return True
