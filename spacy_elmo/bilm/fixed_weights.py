"""What is made of weights that do not change: packed matrices, vectors of words.

Such things are kept as long as the weights stay as they are. Nobody has to say that weights have
changed: :func:`fingerprint` tells.
"""

from typing import Callable, Generic, Hashable, Iterable, List, Optional, Tuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

T = TypeVar("T")
Fingerprint = Tuple[Hashable, ...]

# Numbers of a tensor that are compared to tell whether it was changed; to read all of them would
# take longer than to embed a short sentence.
N_COMPARED = 64

# Rows of a product that its packed weight is laid out for; it serves any number of rows.
ROWS = 32


def fingerprint(tensors: Iterable[Tensor]) -> Fingerprint:
    """A value that is another one after the contents of any of the tensors were changed.

    torch counts the changes of a tensor, but not those by its fused optimizers, nor those through
    ``.data`` (thinc's optimizers work there). Optimizers move all numbers of a tensor, or nearly
    so; therefore some of them count too. Where a tensor has a gradient, all of them do.
    """
    facts: List[Hashable] = []
    contents: List[Tensor] = []
    for tensor in tensors:
        # Tensors made in inference mode count no changes.
        version = None if tensor.is_inference() else tensor._version
        facts.append((tensor.data_ptr(), version, tensor.dtype, tensor.device))
        numbers = tensor.detach()
        if version is not None and tensor.grad is None:
            contents.append(numbers.reshape(-1)[:: max(1, tensor.numel() // N_COMPARED)])
        else:
            contents.append(numbers.sum(dtype=torch.float64).reshape(1))
    if contents:
        facts.append(torch.cat(contents).double().cpu().numpy().tobytes())
    return tuple(facts)


class Kept(Generic[T]):
    """Something that is made of weights, and made anew when they have changed. A copy or a pickle
    of what holds it starts without it."""

    def __init__(self) -> None:
        self._held: Optional[Tuple[Fingerprint, T]] = None

    def get(self, key: Fingerprint, make: Callable[[], T]) -> T:
        """What was made under this key; made now if the last one was another."""
        # Read and written in one go each, so threads can at worst make it twice.
        held = self._held
        if held is None or held[0] != key:
            self._held = held = (key, make())
        return held[1]

    def __reduce__(self) -> Tuple[type, Tuple[()]]:
        return type(self), ()


class FixedLinear:
    """A linear layer without gradients whose weight is packed once, where that is possible.

    A product of few rows reads its weight once and does little else, so on a CPU the order in
    which the weight lies in memory decides. oneDNN packs it for its own products; elsewhere the
    product is torch's.

    :param weight: *Shape:* (n_out, n_in)
    :param bias: *Shape:* (n_out,)
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        with torch.inference_mode(False), torch.no_grad():
            weight = weight.detach().contiguous()
            self._bias = bias
            self._is_packed = can_pack(weight)
            self._weight = (
                torch.ops.mkldnn._reorder_linear_weight(weight, ROWS) if self._is_packed else weight
            )

    def __call__(self, x: Tensor, add: Optional[Tensor] = None) -> Tensor:
        """
        :param x: *Shape:* (n_rows, n_in)
        :param add: what is added to the result. *Shape:* (n_rows, n_out)
        :returns: *Shape:* (n_rows, n_out)
        """
        if not self._is_packed:
            if add is None:
                return functional.linear(x, self._weight, self._bias)
            return torch.addmm(add, x, self._weight.t())
        product = torch.ops.mkldnn._linear_pointwise
        if add is None:
            return product(x, self._weight, self._bias, "none", [], "")
        return product.binary(x, add, self._weight, None, "add")


def can_pack(weight: Tensor) -> bool:
    """Has torch oneDNN's packed products for such a weight on this machine?"""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32
