"""``spacy elmo evaluate``."""

import json
import math
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import (
    Annotated,
    Any,
    BinaryIO,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Tuple,
)

import torch
import typer
from tqdm import tqdm

from ..training import SentenceScore, load_language_model, score_sentences, summarize
from ..training.distributed import find_device
from ..training.files import open_atomic
from ..training.scoring import BATCH_SIZE
from ..training.text.corpus import build_text_corpus_v1
from .screen import ResultPrinter
from .train import INTERRUPTED

FAILED = "Evaluation failed"

# Stands for the standard output.
STDOUT = Path("-")

# Digits after the point of a log-probability; more would be rounding errors.
N_DIGITS = 5

#: A file, and what makes a line of it.
Writer = Tuple[BinaryIO, Callable[[SentenceScore], Dict[str, Any]]]


def evaluate_cli(
    model_path: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Directory that spacy elmo train wrote")
    ],
    text_path: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="Text file, directory of them or pattern in quotes"),
    ],
    lang: Annotated[str, typer.Option(help="Language whose tokenizer is used")] = "en",
    tokenized: Annotated[
        bool,
        typer.Option("--tokenized", help="A line is a sentence, its words stand between blanks"),
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Sentences to read at most, 0 for all")] = 0,
    batch_size: Annotated[
        int,
        typer.Option(min=1, help="Rows of text read side by side; changes speed and memory only"),
    ] = BATCH_SIZE,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, or auto")] = "cpu",
    on_error: Annotated[
        str, typer.Option(help="stop at what is no text, or skip it with a warning")
    ] = "stop",
    sentences_path: Annotated[
        Optional[Path],
        typer.Option(
            "--sentences", help="JSONL file for the score of each sentence; - for standard output"
        ),
    ] = None,
    tokens_path: Annotated[
        Optional[Path],
        typer.Option(
            "--tokens", help="JSONL file for the scores of each token; - for standard output"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON")] = False,
) -> None:
    """
    Perplexity of a text in both directions, under the whole distribution of the softmax: each
    token and one mark a sentence is predicted once a direction. Words that the vocabulary lacks
    are predicted as <UNK>, so only models with the same vocabulary compare.

    --sentences and --tokens write a line for each sentence, with its "words" and natural
    logarithms of probabilities. --tokens: "forward" holds log p(word | words before it) of each
    word, at last that of the sentence's end </S>; "backward" holds log p(word | words after it)
    of each word, at last that of the sentence's begin <S>; "unknown" tells for each word whether
    the vocabulary lacks it. The sentences before (after) count among the words before (after).
    --sentences: "forward" and "backward" are the sums of those, over "n_predictions" each, of
    which "n_unknown" are of unknown words.
    """
    outputs = [path for path in (sentences_path, tokens_path) if path is not None]
    printer = ResultPrinter(to_stderr=STDOUT in outputs)
    for path in outputs:
        if path.exists() and Path(text_path).exists() and path.samefile(text_path):
            printer.fail(
                FAILED, f"{path} is the text itself; expected another place for the scores."
            )
    if len(outputs) == 2 and sentences_path == tokens_path:
        printer.fail(
            FAILED, f"--sentences and --tokens are both {tokens_path}; expected two places."
        )
    try:
        corpus = build_text_corpus_v1(
            path=text_path, lang=lang, tokenized=tokenized, limit=limit, on_error=on_error
        )
        model, vocabulary = load_language_model(model_path)
        model.to(device_of(device))
        with ExitStack() as stack:
            writers: List[Writer] = [
                (_open(path, stack), line_of)
                for path, line_of in ((sentences_path, sentence_line), (tokens_path, token_line))
                if path is not None
            ]
            scores = score_sentences(model, vocabulary, corpus, batch_size=batch_size)
            result = summarize(_write(_show_progress(scores), writers))
    except (ValueError, OSError, ImportError) as error:
        printer.fail(FAILED, str(error))
    except KeyboardInterrupt:
        printer.fail(FAILED, "Stopped", INTERRUPTED)
    if as_json:
        printer.show(json.dumps(result, indent=2))
        return
    printer.table(
        {
            "Text": f"{result['n_tokens']:,} tokens, {result['n_sentences']:,} sentences",
            "Unknown": f"{result['unknown_rate']:.2%} of the tokens",
            "Predictions": f"{result['n_predictions']:,} a direction",
            "Forward perplexity": f"{result['forward']:.2f}",
            "Backward perplexity": f"{result['backward']:.2f}",
            "Mean perplexity": f"{result['mean']:.2f}",
        }
    )


def device_of(name: str) -> torch.device:
    """The device that ``--device`` names.

    RAISES ValueError: There is no such device.
    """
    if not re.fullmatch(r"cpu|cuda(:\d+)?|auto", name):
        raise ValueError(f"--device is {name!r}; expected cpu, cuda, cuda:N or auto.")
    return find_device(name, setting="--device")


def sentence_line(score: SentenceScore) -> Dict[str, Any]:
    """What ``--sentences`` writes of a sentence."""
    return {
        "words": score.words,
        "forward": round(math.fsum(score.forward), N_DIGITS),
        "backward": round(math.fsum(score.backward), N_DIGITS),
        "n_predictions": len(score.forward),
        "n_unknown": sum(score.unknown),
    }


def token_line(score: SentenceScore) -> Dict[str, Any]:
    """What ``--tokens`` writes of a sentence."""
    return {
        "words": score.words,
        "forward": [round(value, N_DIGITS) for value in score.forward],
        "backward": [round(value, N_DIGITS) for value in score.backward],
        "unknown": score.unknown,
    }


def _open(path: Path, stack: ExitStack) -> BinaryIO:
    return sys.stdout.buffer if path == STDOUT else stack.enter_context(open_atomic(path))


def _write(scores: Iterable[SentenceScore], writers: List[Writer]) -> Iterator[SentenceScore]:
    for score in scores:
        for file, line_of in writers:
            text = json.dumps(line_of(score), ensure_ascii=False)
            # Half a surrogate pair, which UTF-8 cannot hold, becomes an escape of JSON.
            file.write(text.encode("utf-8", "backslashreplace") + b"\n")
        yield score


def _show_progress(scores: Iterable[SentenceScore]) -> Iterator[SentenceScore]:
    # None: where the standard error is no screen, there is no bar.
    with tqdm(unit=" tokens", unit_scale=True, leave=False, disable=None) as bar:
        for score in scores:
            yield score
            bar.update(len(score.words))
