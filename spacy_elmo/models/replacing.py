"""What ``Language.replace_listeners`` asks of an elmo model: the configs of its listeners'
stand-ins, and copies that are independent."""

from copy import deepcopy
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from thinc.api import Model
from thinc.shims import Shim

ELMO_LISTENER = "spacy-elmo.ElmoListener.v1"
MIXED_ELMO = "spacy-elmo.MixedElmo.v1"
TOK2VEC_ELMO = "spacy-elmo.Tok2VecElmo.v1"

ConfigT = Dict[str, Any]


class StandIn(NamedTuple):
    """The config of a stand-in, that of the elmo model, and a component's ``tok2vec`` block with
    the stand-in in it and as it was before."""

    config: ConfigT
    elmo: ConfigT
    block: ConfigT
    block_before: ConfigT


class StandIns:
    """Configs that wait to be filled in. spaCy asks for the config of a stand-in without a word
    on where in the component's ``tok2vec`` block it will be, puts it there, and copies the model
    only then. So a config is filled in when its place, and with it the listener's own config, can
    be seen."""

    def __init__(self) -> None:
        self._waiting: List[StandIn] = []

    def __deepcopy__(self, memo: Dict) -> "StandIns":
        return StandIns()

    def add(self, elmo: ConfigT, tok2vec: ConfigT) -> ConfigT:
        """The config of a stand-in, empty for now.

        elmo (Dict[str, Any]): The config of the elmo model.
        tok2vec (Dict[str, Any]): The component's ``tok2vec`` block.
        RETURNS (Dict[str, Any]): The config.
        """
        config: ConfigT = {}
        self._waiting.append(StandIn(config, elmo, tok2vec, deepcopy(tok2vec)))
        return config

    def finish(self, frozen: bool, width: int) -> None:
        """Fill in all configs.

        frozen (bool): Does the biLM that is copied stay bit-equal in training?
        width (int): The width of its vectors.
        RAISES (ValueError): A path was not that of a listener. All blocks are what they were.
        """
        waiting, self._waiting = self._waiting, []
        places = [_find(stand_in) for stand_in in waiting]
        for (*_, before), stand_in in zip(places, waiting):
            if not is_listener(before):
                _restore(places, waiting)
                expected = [".".join(path) for path in _listener_paths(stand_in.block_before)]
                raise ValueError(
                    f"replace_listeners got the path of a block that is no listener to an elmo "
                    f"component: {before!r}. Expected all of the paths "
                    f"{', '.join(repr(f'model.tok2vec{path}') for path in expected)}."
                )
        for (*_, before), stand_in in zip(places, waiting):
            common = {"elmo": stand_in.elmo, "frozen": frozen}
            if before["@architectures"] == TOK2VEC_ELMO:
                # The number: a config's width often names a block of the elmo component, which need
                # not stay in the pipeline.
                stand_in.config.update(before, width=width, **common)
            else:
                mix = before.get("mix")
                stand_in.config.update({"@architectures": MIXED_ELMO, "mix": mix, **common})


def is_listener(config: Any) -> bool:
    """Does this block make a listener?"""
    if not isinstance(config, dict):
        return False
    name = config.get("@architectures")
    return name == ELMO_LISTENER or (name == TOK2VEC_ELMO and config.get("elmo") is None)


def find_block(config: Any, architecture: str) -> Optional[ConfigT]:
    """The first block of a config with this architecture, at any depth."""
    if not isinstance(config, dict):
        return None
    if config.get("@architectures") == architecture:
        return config
    found = (find_block(value, architecture) for value in config.values())
    return next((block for block in found if block is not None), None)


def replace_listener(model: Model, listener: Model, upstream: Any) -> Model:
    """Make a copied elmo model independent. Optimizers keep their moments by shim id, which a copy
    shares with its origin until it gets its own.

    model (Model): The copy.
    listener (Model): The listener that it will replace.
    upstream (Elmo): The component whose model it is a copy of.
    RETURNS (Model): The copy.
    RAISES (ValueError): A path was not that of a listener.
    """
    settings = upstream.model.attrs["elmo_settings"]
    settings.stand_ins.finish(settings.frozen, upstream.width)
    for node in model.walk():
        for shim in node.shims:
            with Shim.global_id_lock:
                Shim.global_id += 1
                shim.id = Shim.global_id
    return model


PlaceT = Tuple[Optional[ConfigT], str, Any]


def _find(stand_in: StandIn) -> PlaceT:
    """The block that holds a stand-in, under which key, and what was there before. No block: it
    took the place of all."""

    def walk(block: Any, before: Any) -> Optional[PlaceT]:
        if not (isinstance(block, dict) and isinstance(before, dict)):
            return None
        for key, value in block.items():
            if value is stand_in.config:
                return block, key, before[key]
            if (found := walk(value, before.get(key))) is not None:
                return found
        return None

    return walk(stand_in.block, stand_in.block_before) or (None, "", stand_in.block_before)


def _restore(places: List[PlaceT], waiting: List[StandIn]) -> None:
    # The last first, as one may have been put inside another's place.
    for (parent, key, before), stand_in in reversed(list(zip(places, waiting))):
        if parent is None:
            stand_in.config.update(before)
        else:
            parent[key] = before


def _listener_paths(config: Any, path: Tuple[str, ...] = ("",)) -> Iterator[Tuple[str, ...]]:
    if is_listener(config):
        yield path
    elif isinstance(config, dict):
        for key, value in config.items():
            yield from _listener_paths(value, (*path, key))
