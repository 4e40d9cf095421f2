"""The ``lstm`` encoder of ELMoForManyLangs: a plain LSTM of two directions, each layer of which
reads both directions of the layer below. It is no language model of two directions: from the
second layer on, a position sees the word that it would have to predict."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from .lstm import LSTMStack, LSTMState


def run_joint_lstm(
    forward_lstm: LSTMStack,
    backward_lstm: LSTMStack,
    projection: nn.Linear,
    tokens: Tensor,
    batch_sizes: List[int],
    reverse: Tensor,
    states: Tuple[Optional[List[LSTMState]], Optional[List[LSTMState]]],
) -> Tuple[Tuple[Tensor, Tensor], Tuple[List[LSTMState], List[LSTMState]]]:
    """Run all layers of both directions over a packed batch.

    :param forward_lstm: the layers of each direction.
    :param projection: from a cell's output to that of the biLM, for both directions.
    :param tokens: *Shape:* (n_positions, projection_dim)
    :param batch_sizes: sequences running at each step.
    :param reverse: packed row of the position that mirrors each one.
    :param states: a state a layer, for each direction; none for zeros.
    :returns: what each direction's last layer gives, *Shape:* (n_positions, projection_dim), rows
        as in ``tokens``, and the final states.
    """
    stacks = (forward_lstm, backward_lstm)
    before = [
        stack.zero_states(batch_sizes[0], tokens) if of_stack is None else of_stack
        for stack, of_stack in zip(stacks, states)
    ]
    final: Tuple[List[LSTMState], List[LSTMState]] = ([], [])
    x, outputs = tokens, (tokens, tokens)
    for number, (ahead, back) in enumerate(zip(forward_lstm.layers, backward_lstm.layers)):
        x = forward_lstm.drop(x)
        read_ahead, state_ahead = ahead(x, batch_sizes, before[0][number])
        read_back, state_back = back(x[reverse], batch_sizes, before[1][number])
        outputs = (read_ahead, read_back[reverse])
        x = torch.cat(outputs, dim=1)
        final[0].append(state_ahead)
        final[1].append(state_back)
    return (projection(outputs[0]), projection(outputs[1])), final
