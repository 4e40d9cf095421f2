"""The language model that is trained: a biLM and the softmax head of both its directions."""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..bilm import BiLM, BiLMState, LSTMState
from ..bilm.softmax import SoftmaxHead
from .batches import Batch


class PerDirection(NamedTuple):
    """A tensor with a row for each prediction of each direction."""

    forward: Tensor
    backward: Tensor


class LanguageModel(nn.Module):
    """``p(t_k | t_1..t_{k-1})`` and ``p(t_k | t_{k+1}..t_N)`` (Peters et al. 2018, section 3.1).

    :param bilm: the bidirectional language model.
    :param head: what makes probabilities of its last layer, shared by both directions.
    """

    def __init__(self, bilm: BiLM, head: SoftmaxHead) -> None:
        super().__init__()
        self.bilm = bilm
        self.head = head

    def forward(self, batch: Batch, state: Optional[BiLMState] = None) -> Tuple[Tensor, BiLMState]:
        """The loss of one training step.

        :param batch: what to read and to predict.
        :param state: the state after the window before; none for zeros.
        :returns: the sum of both directions' losses, in nats, and the state after the window,
            cut off from the graph.
        """
        hidden, state = self.read(batch, state)
        targets = torch.cat([batch.forward.targets, batch.backward.targets])
        return self.head(torch.cat(hidden), targets), state

    def exact_losses(
        self, batch: Batch, state: Optional[BiLMState] = None
    ) -> Tuple[PerDirection, BiLMState]:
        """Negative log-probabilities of one window under the full softmax.

        :returns: one loss a prediction, in nats, and the state after the window.
        """
        hidden, state = self.read(batch, state)
        ahead = self.head.exact_losses(hidden.forward, batch.forward.targets)
        back = self.head.exact_losses(hidden.backward, batch.backward.targets)
        return PerDirection(ahead, back), state

    def read(self, batch: Batch, state: Optional[BiLMState]) -> Tuple[PerDirection, BiLMState]:
        """Run the biLM over one window of both directions.

        :returns: each direction's last layer at the positions that predict something, *Shape:*
            (n_predictions, projection_dim), and the state after the window.
        """
        # The token layer runs once a distinct word, for both directions together.
        words = torch.cat([self.bilm.token_layer(*ids) for ids in batch.tokens])
        before = (None, None) if state is None else _first_rows(state, batch.batch_sizes[0])
        outputs = []
        after = []
        for direction, lstm, lstm_state in (
            (batch.forward, self.bilm.forward_lstm, before[0]),
            (batch.backward, self.bilm.backward_lstm, before[1]),
        ):
            # An embedding's gradient is summed in a fixed order, which that of an index is not.
            tokens = functional.embedding(direction.words, words)
            layers, lstm_state = lstm(tokens, batch.batch_sizes, lstm_state)
            outputs.append(functional.embedding(direction.predicting, layers[-1]))
            after.append([LSTMState(*(part.detach() for part in layer)) for layer in lstm_state])
        return PerDirection(*outputs), BiLMState(*after)


def _first_rows(state: BiLMState, n_rows: int) -> BiLMState:
    """The state of the rows that go on, which stand first."""
    return BiLMState(
        *([LSTMState(layer.hidden[:n_rows], layer.cell[:n_rows]) for layer in s] for s in state)
    )
