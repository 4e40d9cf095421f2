"""One vector of a word's characters by an LSTM, as ELMoForManyLangs describes it.

That tool's own code for it fails as soon as it has characters, so no model of it is published;
the sizes and names of the weights are its. It would also read the padding behind short words,
whose amount depends on the other words of the batch; here a word is read as if it stood alone.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


class CharacterLSTM(nn.LSTM):
    """An LSTM over the characters of words in both directions, of which the last states count.

    :param size: size of a character's vector and of each direction's state.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size, size, batch_first=True, bidirectional=True)

    def read(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """The last state of each direction, side by side, with gradients.

        :param characters: *Shape:* (n_words, n_characters, size)
        :param lengths: characters of each word, 1 or more; what stands behind is not read.
            *Shape:* (n_words,)
        :returns: *Shape:* (n_words, 2 * size)
        """
        with torch.autocast(characters.device.type, enabled=False):
            packed = pack_padded_sequence(
                characters.to(next(self.parameters()).dtype),
                lengths.cpu(),
                batch_first=True,
                enforce_sorted=False,
            )
            _, (hidden, _) = self(packed)
        return torch.cat([hidden[0], hidden[1]], dim=1)
