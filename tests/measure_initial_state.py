"""Print the perplexity of single sentences from each initial state: what the default rests on.

    python tests/measure_initial_state.py MODEL TEXT

MODEL is an output of `spacy elmo train`, TEXT a text file, in the quickstart
training/bilm/model-best and corpus/text/dev.txt.
"""

import math
import sys
from itertools import islice

import torch

from spacy_elmo.bilm import BOS, EOS, BiLMState
from spacy_elmo.training.storage import load_language_model
from spacy_elmo.training.text.corpus import build_text_corpus_v1
from spacy_elmo.training.vocabulary import BOS_ID, EOS_ID

N_SENTENCES = 1500


def main(model: str, text: str) -> None:
    torch.set_num_threads(1)
    lm, vocabulary = load_language_model(model)
    lm.eval()
    sentences = list(islice(build_text_corpus_v1(path=text), N_SENTENCES))
    for initial_state in ("zero", "warm", "carry"):
        losses, n_predictions, before = [0.0, 0.0], 0, None
        for sentence in sentences:
            if initial_state != "carry":
                before = lm.bilm.initial_states(initial_state, 1)
            words = [BOS, *sentence, EOS]
            ids = torch.tensor([BOS_ID, *map(vocabulary.id_of, sentence), EOS_ID])
            with torch.inference_mode():
                tokens = lm.bilm.encode_words(words)
                stacks = (lm.bilm.forward_lstm, lm.bilm.backward_lstm)
                after = []
                for direction, stack in enumerate(stacks):
                    x, y = (tokens, ids) if direction == 0 else (tokens.flip(0), ids.flip(0))
                    state = None if before is None else before[direction]
                    layers, state = stack(x, [1] * len(words), state)
                    losses[direction] += float(lm.head.exact_losses(layers[-1][:-1], y[1:]).sum())
                    after.append(state)
            before = BiLMState(*after)
            n_predictions += len(words) - 1
        forward, backward = (math.exp(loss / n_predictions) for loss in losses)
        sys.stdout.write(f"{initial_state:6} forward {forward:.2f} backward {backward:.2f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
