"""The loss against a sample of the vocabulary, with a backward pass of its own.

Logits are the largest thing in a training step. They exist once here, in a buffer that is kept
from step to step, become probabilities in place and then, less one at the target, their own
gradient.
"""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .buffers import Lease, take_buffer
from .products import COLUMNS, autocast_dtype, round_up

# Rows are filled up to a multiple of this many: oneDNN compiles and keeps a kernel for each shape
# that it meets, and each batch has another number of predictions.
ROWS = 256


def sampled_loss(
    hidden: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor,
    samples: Tensor,
    correction: Tensor,
) -> Tensor:
    """The sum of the cross-entropies of each target against a sample, in nats.

    A sampled word that is a row's target is left out of that row. Under autocast the products and
    the probabilities are of the low precision.

    :param hidden: *Shape:* (n_predictions, projection_dim)
    :param targets: vocabulary ids. *Shape:* (n_predictions,)
    :param weight: *Shape:* (n_words, projection_dim)
    :param bias: *Shape:* (n_words,)
    :param samples: rising vocabulary ids. *Shape:* (n_samples,)
    :param correction: added to the samples' logits. *Shape:* (n_samples,)
    :returns: a scalar.
    """
    dtype = autocast_dtype(hidden)
    with torch.autocast(hidden.device.type, enabled=False):
        loss: Tensor = _SampledLoss.apply(
            hidden.to(weight.dtype), targets, weight, bias, samples, correction, dtype
        )
    return loss


class _SampledLoss(Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor,
        samples: Tensor,
        correction: Tensor,
        dtype: torch.dtype,
    ) -> Tensor:
        (n_rows, size), n_samples = hidden.shape, len(samples)
        target_weight = weight[targets]
        # After the output stands a one, which the bias is the weight of.
        shape = (round_up(n_rows, ROWS), round_up(size + 1, COLUMNS))
        inputs = hidden.new_zeros(shape, dtype=dtype)
        inputs[:n_rows, :size] = hidden
        inputs[:n_rows, size] = 1
        # Samples, one place for the target, and some without probability.
        sample_weight = inputs.new_zeros(round_up(n_samples + 1, COLUMNS), shape[1])
        sample_weight[:n_samples, :size] = weight[samples]
        sample_weight[:n_samples, size] = bias[samples] + correction
        sample_weight[n_samples:, size] = -torch.inf
        logits = take_buffer((shape[0], len(sample_weight)), dtype, hidden.device)
        torch.mm(inputs, sample_weight.t(), out=logits)
        logits[n_rows:] = 0
        if n_samples > 0:
            columns = torch.searchsorted(samples, targets).clamp(max=n_samples - 1)
            hits = (samples[columns] == targets).nonzero().squeeze(1)
            logits[hits, columns[hits]] = -torch.inf
        logits[:n_rows, n_samples] = (hidden * target_weight).sum(1) + bias[targets]
        torch.softmax(logits, dim=1, out=logits)
        probabilities = logits[:n_rows, n_samples].to(hidden.dtype)
        # A probability that underflows is a finite loss all the same.
        smallest = torch.finfo(probabilities.dtype).tiny
        loss = -probabilities.clamp(min=smallest).log().sum()
        d_targets = probabilities - 1
        logits[:n_rows, n_samples] = d_targets
        sample_weight[n_samples:] = 0
        ctx.save_for_backward(inputs, targets, target_weight, samples, sample_weight, d_targets)
        ctx.kept = Lease(logits)
        ctx.n_words = len(weight)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], ...]:
        inputs, targets, target_weight, samples, sample_weight, d_targets = ctx.saved_tensors
        (d_logits,) = ctx.kept.buffers
        n_samples, size, full = len(samples), target_weight.shape[1], target_weight.dtype
        d_target = d_targets * grad
        # The weight of the target's column is zero here, as it is another one in each row.
        n_rows = len(targets)
        d_hidden = torch.mm(d_logits, sample_weight)[:n_rows, :size].to(full, copy=True)
        d_hidden.mul_(grad).addcmul_(d_target.unsqueeze(1), target_weight)
        inputs = inputs * grad.to(inputs.dtype)
        # The product runs faster this way round.
        d_samples = torch.mm(inputs.t().contiguous(), d_logits)[:, :n_samples].t().contiguous()
        d_weight = target_weight.new_zeros(ctx.n_words, size)
        d_weight[samples] = d_samples[:, :size].to(full)
        d_weight.index_add_(0, targets, d_targets.unsqueeze(1) * inputs[:n_rows, :size])
        d_bias = target_weight.new_zeros(ctx.n_words)
        d_bias[samples] = d_samples[:, size].to(full)
        d_bias.index_add_(0, targets, d_target)
        return d_hidden, None, d_weight, d_bias, None, None, None
