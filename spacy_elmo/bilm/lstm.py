"""One direction of the biLM: a stack of LSTM layers with projection, over a packed batch.

The cell is bilm-tf's (TensorFlow's LSTMCell with ``num_proj``): the cell value is clamped before
the output tanh, the projection is clamped after it, and the clamped projection is both output and
recurrent input. torch's fused LSTM cannot do this, so the recurrence is our own.
"""

from functools import partial
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple, Union, cast

import torch
from torch import Tensor, nn

from .config import BiLMConfig
from .dropout import dropout
from .fixed_weights import Fingerprint, Kept, fingerprint
from .kernel import Chain, CompiledRecurrence, Variant, find_variant, run_chains
from .lstm_function import run_lstm
from .products import autocast_dtype
from .recurrence import Recurrence

AnyRecurrence = Union[Recurrence, CompiledRecurrence]


class LSTMState(NamedTuple):
    """What a layer remembers between two steps, one row a sequence by falling length.

    *Shapes:* hidden (n_sequences, hidden_size), cell (n_sequences, cell_size)
    """

    hidden: Tensor
    cell: Tensor


class BiLMState(NamedTuple):
    """The LSTM states of both directions, one entry a layer."""

    forward: List[LSTMState]
    backward: List[LSTMState]


class LSTMLayer(nn.Module):
    """An LSTM layer of one direction. Gate order: input, forget, candidate, output.

    :param input_size: size of the layer's input.
    :param config: the biLM's sizes. ``forget_bias`` is added at run time; ``bias`` holds what a
        bilm-tf file holds, so that writing and reading such a file changes no bit.
    """

    def __init__(self, input_size: int, config: BiLMConfig) -> None:
        super().__init__()
        self.cell_size = config.cell_size
        self.cell_clip = config.cell_clip
        self.proj_clip = config.proj_clip
        n_gates = 4 * config.cell_size
        self.input_weight = nn.Parameter(torch.empty(n_gates, input_size))
        self.state_weight = nn.Parameter(torch.empty(n_gates, config.hidden_size))
        self.bias = nn.Parameter(torch.empty(n_gates))
        self.projection_weight = (
            nn.Parameter(torch.empty(config.projection_dim, config.cell_size))
            if config.cell_projection and config.encoder == "elmo"
            else None
        )
        run_time_bias = torch.zeros(n_gates)
        run_time_bias[config.cell_size : 2 * config.cell_size] = config.forget_bias
        self.run_time_bias: Tensor
        self.register_buffer("run_time_bias", run_time_bias, persistent=False)
        self._recurrence: Kept[AnyRecurrence] = Kept()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.input_weight)
        nn.init.xavier_uniform_(self.state_weight)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            nn.init.xavier_uniform_(self.projection_weight)

    def forward(
        self, x: Tensor, batch_sizes: List[int], state: LSTMState
    ) -> Tuple[Tensor, LSTMState]:
        """Run over a packed batch. No gradient flows through states.

        :param x: *Shape:* (n_positions, input_size)
        :param batch_sizes: sequences running at each step.
        :param state: the state before the first step.
        :returns: outputs, *Shape:* (n_positions, projection_dim), and each sequence's state
            after its own last step.
        """
        if torch.is_grad_enabled():
            outputs, hidden, cell = run_lstm(
                x,
                batch_sizes,
                *state,
                self.input_weight,
                self.state_weight,
                self.bias + self.run_time_bias,
                self.projection_weight,
                self.cell_clip,
                self.proj_clip,
            )
        else:
            outputs, hidden, cell = self.arranged(autocast_dtype(x))(x, batch_sizes, *state)
        return outputs, LSTMState(hidden, cell)

    def variant(self, dtype: torch.dtype) -> Optional[Variant]:
        """The compiled recurrence for products of a precision; none if torch runs the layer."""
        is_full = self.bias.dtype == torch.float32
        return find_variant(dtype, self.bias.device) if is_full else None

    def arranged(self, dtype: torch.dtype, key: Optional[Fingerprint] = None) -> AnyRecurrence:
        """The layer arranged for inference with products of a precision.

        :param key: a fingerprint that the layer's weights are part of, if there is one already.
        """
        variant = self.variant(dtype)
        arrange: Callable[..., AnyRecurrence] = (
            partial(Recurrence, dtype=dtype)
            if variant is None
            else partial(CompiledRecurrence, variant=variant)
        )
        return self._recurrence.get(
            (dtype, variant, *(key or fingerprint(self.parameters()))),
            lambda: arrange(
                self.input_weight,
                self.state_weight,
                self.bias + self.run_time_bias,
                self.projection_weight,
                self.cell_clip,
                self.proj_clip,
            ),
        )


class LSTMStack(nn.Module):
    """The LSTM layers of one direction, with skip connections from the second layer on.

    :param config: the biLM's sizes.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.use_skip_connections = config.use_skip_connections
        self.dropout = config.dropout
        self.layers = nn.ModuleList(
            LSTMLayer(input_size, config) for input_size in config.layer_inputs
        )

    def forward(
        self, x: Tensor, batch_sizes: List[int], states: Optional[List[LSTMState]] = None
    ) -> Tuple[List[Tensor], List[LSTMState]]:
        """Run all layers over a packed batch, in this direction's reading order.

        :param x: token vectors. *Shape:* (n_positions, projection_dim)
        :param batch_sizes: sequences running at each step.
        :param states: a state a layer, by falling length of the sequences; none for zeros.
        :returns: each layer's outputs, *Shape:* (n_positions, projection_dim), and final states.
        """
        if states is None:
            states = self.zero_states(batch_sizes[0], x)
        outputs: List[Tensor] = []
        final: List[LSTMState] = []
        for number, (layer, state) in enumerate(zip(self.layers, states)):
            # As in bilm-tf, dropout falls on a layer's input, so also on its skip path.
            x = self.drop(x)
            y, state = layer(x, batch_sizes, state)
            if self.use_skip_connections and number > 0:
                y = y + x
            x = y
            outputs.append(y)
            final.append(state)
        outputs[-1] = self.drop(outputs[-1])
        return outputs, final

    @property
    def lstm_layers(self) -> List[LSTMLayer]:
        """The layers, from the one that reads the token vectors."""
        return [cast(LSTMLayer, layer) for layer in self.layers]

    def drop(self, x: Tensor) -> Tensor:
        """What is left of a layer's input in training; all of it otherwise."""
        # The mode of a module is shared by all threads, inference mode belongs to one: what runs
        # under it must not depend on who called train() last.
        is_training = self.training and not torch.is_inference_mode_enabled()
        return dropout(x, self.dropout) if is_training and self.dropout > 0 else x

    def zero_states(self, n_sequences: int, like: Tensor) -> List[LSTMState]:
        """The state of sequences that have read nothing, of the dtype and device of ``like``."""
        states: List[LSTMState] = []
        for layer in self.lstm_layers:
            hidden = like.new_zeros(n_sequences, layer.state_weight.shape[1])
            states.append(LSTMState(hidden, like.new_zeros(n_sequences, layer.cell_size)))
        return states


def run_side_by_side(
    stacks: Sequence[LSTMStack],
    inputs: Sequence[Tensor],
    batch_sizes: List[int],
    states: Sequence[Optional[List[LSTMState]]],
    key: Fingerprint,
) -> List[Tuple[List[Tensor], List[LSTMState]]]:
    """What each stack gives for its own input, for inference: no gradients, no dropout.

    :param inputs: what each stack reads. *Shape:* (n_positions, projection_dim)
    :param batch_sizes: sequences running at each step, in all stacks.
    :param key: a fingerprint of all weights.
    """
    dtype = autocast_dtype(inputs[0])
    if any(layer.variant(dtype) is None for stack in stacks for layer in stack.lstm_layers):
        return [stack(x, batch_sizes, before) for stack, x, before in zip(stacks, inputs, states)]
    chains: List[Chain] = []
    for stack, x, before in zip(stacks, inputs, states):
        layers = [
            cast(CompiledRecurrence, layer.arranged(dtype, key)) for layer in stack.lstm_layers
        ]
        start = stack.zero_states(batch_sizes[0], x) if before is None else before
        chains.append(Chain(layers, x, start, stack.use_skip_connections))
    run_chains(chains, batch_sizes)
    return [(chain.outputs, [LSTMState(*state) for state in chain.states]) for chain in chains]
