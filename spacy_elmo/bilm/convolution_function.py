"""Character convolutions with max-pool as one product, with a backward pass of its own.

All filters run as if they had the width of the widest one, over windows that are laid side by
side in memory. Only one position of a word and filter, the highest, has a gradient.
"""

from typing import Any, List, Optional, Sequence, Tuple, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .buffers import Lease, give_back, take_buffer
from .products import autocast_dtype


def pooled_convolutions(
    char_ids: Tensor, embedding: Tensor, convolutions: Sequence[nn.Module]
) -> Tensor:
    """The highest value of each filter over the positions of each word, with gradients.

    Where several positions are equally high, the first one gets the gradient. Under autocast the
    product is of the low precision.

    :param char_ids: *Shape:* (n_words, n_characters)
    :param embedding: a vector a character. *Shape:* (n_distinct, char_embedding_dim)
    :param convolutions: ``nn.Conv1d`` layers of one or several widths.
    :returns: *Shape:* (n_words, n_filters), filters in the order given.
    """
    layers = [cast(nn.Conv1d, convolution) for convolution in convolutions]
    widths = [layer.kernel_size[0] for layer in layers]
    widest = max(widths)
    # [n_filters, widest * char_embedding_dim], characters outside
    kernels = torch.cat(
        [
            functional.pad(layer.weight.transpose(1, 2), (0, 0, 0, widest - width)).flatten(1)
            for layer, width in zip(layers, widths)
        ]
    )
    biases = [layer.bias for layer in layers if layer.bias is not None]
    filters = [(width, layer.out_channels) for width, layer in zip(widths, layers)]
    dtype = autocast_dtype(embedding)
    with torch.autocast(embedding.device.type, enabled=False):
        pooled: Tensor = _PooledConvolutions.apply(
            char_ids, embedding, kernels, torch.cat(biases), filters, dtype
        )
    return pooled


class _PooledConvolutions(Function):
    @staticmethod
    def forward(
        ctx: Any,
        char_ids: Tensor,
        embedding: Tensor,
        kernels: Tensor,
        bias: Tensor,
        filters: List[Tuple[int, int]],
        dtype: torch.dtype,
    ) -> Tensor:
        n_words, n_characters = char_ids.shape
        size = embedding.shape[1]
        widest = kernels.shape[1] // size
        # The narrowest filter has the most positions; wider ones read zeros behind the word
        # there, and take no part.
        n_positions = n_characters - min(width for width, _ in filters) + 1
        characters = torch.zeros(
            n_words, n_positions + widest - 1, size, dtype=dtype, device=char_ids.device
        )
        characters[:, :n_characters] = functional.embedding(char_ids, embedding)
        windows = characters.as_strided(
            (n_words, n_positions, widest * size), (characters.stride(0), size, 1)
        ).reshape(n_words * n_positions, -1)
        kernels = kernels.to(dtype)
        outputs = take_buffer((len(windows), len(kernels)), dtype, char_ids.device)
        torch.addmm(bias.to(dtype), windows, kernels.t(), out=outputs)
        values = outputs.view(n_words, n_positions, -1)
        first = 0
        for width, count in filters:
            values[:, n_characters - width + 1 :, first : first + count] = -torch.inf
            first += count

        highest = values.amax(dim=1)
        ctx.save_for_backward(char_ids, embedding, kernels, windows, highest)
        ctx.kept, ctx.n_positions = Lease(outputs), n_positions
        return highest.to(embedding.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], ...]:
        char_ids, embedding, kernels, windows, highest = ctx.saved_tensors
        n_words, n_characters = char_ids.shape
        size = embedding.shape[1]
        dtype, full = kernels.dtype, embedding.dtype
        n_positions = ctx.n_positions
        (outputs,) = ctx.kept.buffers
        d_outputs = take_buffer(tuple(outputs.shape), dtype, grad.device).copy_(outputs)
        # What the first of the highest positions takes leaves nothing for the others.
        left = grad.to(dtype, copy=True)
        for value in d_outputs.view(n_words, n_positions, -1).unbind(1):
            value.eq_(highest).mul_(left)
            left.sub_(value)
        d_kernels = torch.mm(d_outputs.t(), windows).to(full)
        d_windows = torch.mm(d_outputs, kernels).view(n_words, n_positions, -1)
        give_back(d_outputs)
        widest = kernels.shape[1] // size
        d_characters = grad.new_zeros(n_words, n_positions + widest - 1, size)
        for offset in range(widest):
            d_characters[:, offset : offset + n_positions].add_(
                d_windows[:, :, offset * size : (offset + 1) * size]
            )
        d_embedding = torch.zeros_like(embedding)
        d_embedding.index_add_(0, char_ids.flatten(), d_characters[:, :n_characters].flatten(0, 1))
        return None, d_embedding, d_kernels, grad.sum(0), None, None
