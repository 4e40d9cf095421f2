"""Loggers that were written for ``spacy train``: ``spacy.ConsoleLogger.v3``, spacy-loggers, ..."""

import sys
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import spacy
from spacy.language import Language
from thinc.api import Config

from .reporting import Evaluation, Plan, Reporter, Step

#: The component whose loss the loggers show.
COMPONENT = "elmo"

LogStep = Callable[[Optional[Dict[str, Any]]], None]
MakeLogger = Callable[..., Tuple[LogStep, Callable[[], None]]]


class LoggerReporter(Reporter):
    """Tells a logger of spaCy's protocol what ``spacy train`` would tell it.

    The score, which is better the higher it is, is minus the mean perplexity; the perplexities
    stand among the other scores. There is no ``output_path``, which loggers would load as a
    pipeline.

    :param make_logger: what ``[training.logger]`` stands for: (nlp, stdout, stderr) -> functions
        to log a step and to end with.
    :param config: the training config.
    :param evaluations: those that the run, which goes on, has made before.
    """

    def __init__(
        self,
        make_logger: MakeLogger,
        config: Mapping[str, Any],
        evaluations: Sequence[Evaluation] = (),
    ) -> None:
        self._make_logger = make_logger
        self._config = config
        self._log_step: Optional[LogStep] = None
        self._finalize: Optional[Callable[[], None]] = None
        self._checkpoints = [(-e.perplexity, e.step) for e in evaluations]
        self._is_pending = False

    def planned(self, plan: Plan) -> None:
        nlp = make_nlp(self._config, plan)
        self._log_step, self._finalize = self._make_logger(nlp, sys.stdout, sys.stderr)

    def stepped(self, step: Step) -> None:
        self._log_pending()
        self._is_pending = True

    def evaluated(self, evaluation: Evaluation, is_best: bool) -> None:
        assert self._log_step is not None
        self._is_pending = False
        score = -evaluation.perplexity
        self._checkpoints.append((score, evaluation.step))
        self._log_step(
            {
                "epoch": int(evaluation.epoch),
                "step": evaluation.step,
                "score": score,
                "other_scores": {
                    "forward_perplexity": evaluation.forward_perplexity,
                    "backward_perplexity": evaluation.backward_perplexity,
                    "perplexity": evaluation.perplexity,
                    "learn_rate": evaluation.learn_rate,
                    "speed": evaluation.tokens_per_second,
                },
                "losses": {COMPONENT: evaluation.loss},
                "checkpoints": list(self._checkpoints),
                "seconds": int(evaluation.seconds),
                "words": evaluation.n_tokens,
            }
        )

    def ended(self) -> None:
        self._log_pending()
        if self._finalize is not None:
            self._finalize()
            self._finalize = None

    def _log_pending(self) -> None:
        # spaCy logs each step once, with the info of its evaluation if it has one.
        if self._is_pending and self._log_step is not None:
            self._log_step(None)
        self._is_pending = False


def make_nlp(config: Mapping[str, Any], plan: Plan) -> Language:
    """A pipeline for loggers to look at: an ``elmo`` component without weights, and the training
    config with the fields that they read.

    config (Mapping[str, Any]): The training config.
    plan (Plan): What is known before the first step.
    RETURNS (Language): The pipeline.
    """
    nlp = spacy.blank("xx")
    nlp.add_pipe(COMPONENT)
    training = {
        # What spaCy's console logger would show as per cent is left out.
        "score_weights": {"speed": 0.0},
        "eval_frequency": 1000,
        **config["training"],
        "max_steps": plan.n_steps or 0,
    }
    nlp.config = Config({**nlp.config.interpolate(), **config, "training": training})
    return nlp
