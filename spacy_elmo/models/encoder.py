"""The biLM inside a thinc model: a PyTorch wrapper whose weights may come later than the model.

A pipeline is built from its config before its weights are read, and a saved pipeline must load
where the file that its weights once came from is gone. So the wrapper starts empty; the biLM
enters when it is first needed, from ``source``, or when the pipeline's own file is read.
"""

import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, cast

import torch
from thinc.api import ArgsKwargs, Model, PyTorchWrapper_v3, torch2xp, xp2torch
from thinc.types import Floats3d
from torch import Tensor, nn

from ..bilm import BiLM, BiLMConfig, InitialState
from ..bilm.bilm import plan_batches
from ..formats import load
from ..formats.native import from_bytes, to_bytes
from ..pretrained import check_language, find_bundled

#: The name of a bundled model, a path to weights of any supported format, or the sizes of a biLM
#: with random weights.
SourceT = Union[str, Path, Dict[str, Any]]

SOURCE_SETTING = "[components.elmo.model] source"
NO_SOURCE = (
    "The elmo component has no weights: its source is null, and no saved pipeline or "
    "[initialize.components.elmo] gave any. Give it a biLM: "
    'nlp.add_pipe("elmo", config={"model": {"source": "path/to/weights"}}), or in a config '
    f'{SOURCE_SETTING} = "path/to/weights". Weights are a directory, .zip or .tar.gz '
    "in any supported format; `spacy elmo train config.cfg --output DIR` makes them from your text."
)


class LazyBiLM(nn.Module):
    """A place for a biLM.

    :param source: where the biLM comes from when it is first needed; none if only a saved
        pipeline or ``initialize`` can give one.
    :param width: the width that the config promises to listeners; none to take any.
    """

    def __init__(self, source: Optional[SourceT], width: Optional[int]) -> None:
        super().__init__()
        self.source = resolve_source(source)
        self.width = width
        #: spaCy's code of the pipeline's language; none where it is not known.
        self.lang: Optional[str] = None
        self.bilm: Optional[BiLM] = None

    def get(self) -> BiLM:
        """The biLM, loaded now if it has not been.

        :raises OSError: there is nothing at the source's path, or no permission to read it.
        :raises ValueError: there is no source, it cannot be read, or its width is another.
        """
        if self.bilm is None:
            if self.source is None:
                raise ValueError(NO_SOURCE)
            self.load_source()
            if isinstance(self.source, dict):
                warnings.warn(
                    "The elmo component has random weights: its source gives sizes, and nothing "
                    "was trained or loaded. Call nlp.initialize() to start from random weights "
                    f"on purpose, or set {SOURCE_SETTING} to a path.",
                    UserWarning,
                    stacklevel=2,
                )
        assert self.bilm is not None
        return self.bilm

    def load_source(self) -> None:
        """Take the biLM of the config's ``source``, in place of any other. No source: no change.

        :raises OSError: there is nothing at its path, or no permission to read it.
        :raises ValueError: it cannot be read, its width is another, or it is a bundled model of
            another language than the pipeline's.
        """
        if self.source is None:
            return
        if not isinstance(self.source, dict):
            check_language(self.source, self.lang)
        self.load(self.source)

    def load(self, source: SourceT, setting: str = SOURCE_SETTING) -> None:
        """Take the biLM of a source, in place of any other.

        :param setting: where the source is set, for the message.
        :raises OSError: there is nothing at the path, or no permission to read it.
        :raises ValueError: it cannot be read, or its width is another.
        """
        if isinstance(source, dict):
            try:
                bilm = BiLM(BiLMConfig.from_dict(source))
            except ValueError as error:
                raise ValueError(
                    f"{setting} is {source}, expected the sizes of a biLM, a path or a name: "
                    f"{error}"
                ) from error
            name = "the sizes in 'source'"
        else:
            name = str(source)
            try:
                bilm = load(source)
            except OSError as error:
                # The same kind: nothing there, no permission, a disk that fails.
                raise type(error)(f"{setting} is {name!r}: {error}") from error
            except ValueError as error:
                raise ValueError(f"{setting} is {name!r}: {error}") from error
        self.take(bilm, name)

    def take(self, bilm: BiLM, name: str) -> None:
        """Take this biLM, in place of any other.

        :param name: where it comes from, for the message.
        :raises ValueError: its width is not the promised one.
        """
        if self.width is not None and bilm.width != self.width:
            raise ValueError(
                f"The biLM of {name} has width {bilm.width} (2 x projection_dim), but the config "
                f"says {self.width}: set [components.elmo.model] width = {bilm.width} (or null), "
                "and the same width in every ElmoListener."
            )
        self.bilm = bilm

    def forward(
        self, sentences: Sequence[Sequence[str]], initial_state: InitialState, batch_tokens: int
    ) -> List[Tensor]:
        """Layers of sentences with gradients, in order. *Shape:* (n_layers + 1, n_tokens, width)"""
        bilm = self.get()
        found: Dict[int, Tensor] = {}
        for numbers in plan_batches(sentences, batch_tokens):
            state = bilm.initial_states(initial_state, len(numbers))
            layers, _ = bilm([sentences[number] for number in numbers], state)
            found.update(zip(numbers, layers))
        return [found[number] for number in range(len(sentences))]


def resolve_source(source: Optional[SourceT]) -> Optional[SourceT]:
    """A source whose path no longer depends on the working directory, which may change before the
    weights are needed.

    :raises ValueError: the source is an empty text.
    """
    if source == "":
        raise ValueError(f"{SOURCE_SETTING} is ''; expected the path of weights, sizes, or null.")
    if not isinstance(source, (str, Path)) or find_bundled(source) is not None:
        return source
    try:
        path = Path(source).expanduser().absolute()
        return path if path.exists() else source
    except (OSError, RuntimeError):
        # An unknown user's home, or a name that is too long: the same error as for a path that is
        # not there, once the weights are needed.
        return source


EncoderInputT = Tuple[List[List[str]], InitialState, int]
EncoderModelT = Model[EncoderInputT, List[Floats3d]]


def build_encoder(source: Optional[SourceT], width: Optional[int]) -> EncoderModelT:
    """The thinc wrapper of a :class:`LazyBiLM`. Its input is the arguments of
    :meth:`LazyBiLM.forward`; nothing is differentiated with respect to words."""
    model = PyTorchWrapper_v3(
        LazyBiLM(source, width),
        convert_inputs=_convert_inputs,
        convert_outputs=_convert_outputs,
        serialize_model=_serialize,
        deserialize_model=_deserialize,
    )
    model.name = "elmo_encoder"
    return model


def lazy_bilm(encoder: Model) -> LazyBiLM:
    """The torch module inside an encoder."""
    return encoder.shims[0]._model


def _convert_inputs(
    model: Model, X: EncoderInputT, is_train: bool
) -> Tuple[ArgsKwargs, Callable[[ArgsKwargs], List]]:
    return ArgsKwargs(args=X, kwargs={}), _no_gradient


def _no_gradient(d_inputs: ArgsKwargs) -> List:
    return []


def _convert_outputs(
    model: Model, X_Y: Tuple[EncoderInputT, List[Tensor]], is_train: bool
) -> Tuple[List[Floats3d], Callable[[List[Floats3d]], ArgsKwargs]]:
    _, outputs = X_Y

    def to_gradients(d_layers: List[Floats3d]) -> ArgsKwargs:
        gradients = [xp2torch(dY, device=layers.device) for dY, layers in zip(d_layers, outputs)]
        return ArgsKwargs(args=(outputs,), kwargs={"grad_tensors": gradients})

    arrays = [cast(Floats3d, torch2xp(layers, ops=model.ops)) for layers in outputs]
    return arrays, to_gradients


def _serialize(module: LazyBiLM) -> bytes:
    # A pipe that was never given weights can still be saved; a source that was not needed yet is
    # read now, since the saved pipeline will not look at it again.
    if module.bilm is None and module.source is None:
        return b""
    return to_bytes(module.get())


def _deserialize(module: LazyBiLM, data: bytes, device: "torch.device") -> LazyBiLM:
    if data:
        module.take(from_bytes(data), "the saved pipeline")
        module.to(device)
    return module
