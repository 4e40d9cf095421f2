"""How much memory a training step will take."""

import torch
from torch import nn

from ..bilm.softmax import LOGITS_A_CHUNK, SampledSoftmax
from .lm import LanguageModel
from .optimizers import OptimizerMaker
from .settings import TrainingSettings

FLOAT = 4

# Numbers that the forward pass keeps for the backward one, by cell or by output of an LSTM
# position, and by filter of a word; measured, as they depend on how the layers are written.
A_CELL, AN_OUTPUT, A_FILTER = 12, 8, 16

# Copies of the logits that exist at the same time, and, of heads that form them chunk by chunk,
# the chunks whose memory the system does not get back at once; measured as well.
LOGITS, CHUNKS = 3, 4


def estimate_bytes(
    model: LanguageModel, make_optimizer: OptimizerMaker, settings: TrainingSettings
) -> int:
    """Memory that training takes on its device beside the text: parameters, gradients, what the
    optimizer remembers, and the activations of a window, all float32. Meant to tell whether a
    model fits; good to a factor of two.

    :param model: the model.
    :param make_optimizer: gives its optimizer.
    :param settings: rows and unroll steps.
    """
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    n_copies = 2 + count_slots(make_optimizer)
    config = model.bilm.config
    n_positions = 2 * settings.batch_size * settings.unroll_steps
    numbers = n_parameters * n_copies
    numbers += (
        n_positions
        * config.n_layers
        * (A_CELL * config.cell_size + AN_OUTPUT * config.projection_dim)
    )
    # Every position a word of its own, which is the most there can be.
    numbers += n_positions * A_FILTER * config.n_filters
    numbers += LOGITS * _count_logits(model, n_positions)
    return FLOAT * numbers


def count_slots(make_optimizer: OptimizerMaker) -> int:
    """Numbers that an optimizer remembers for each parameter, found out by a step of it."""
    parameter = nn.Parameter(torch.zeros(2, 3))
    optimizer = make_optimizer([parameter])
    parameter.grad = torch.ones(2, 3)
    optimizer.step()
    return sum(
        isinstance(value, torch.Tensor) and value.shape == parameter.shape
        for value in optimizer.state[parameter].values()
    )


def _count_logits(model: LanguageModel, n_predictions: int) -> int:
    head = model.head
    if isinstance(head, SampledSoftmax):
        return n_predictions * int(head.inclusion.sum())
    return min(n_predictions * head.n_words, CHUNKS * LOGITS_A_CHUNK)
