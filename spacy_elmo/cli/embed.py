"""``spacy elmo embed``."""

import os
import sys
from pathlib import Path
from typing import Annotated, BinaryIO, List, Optional, Union

import typer
from tqdm import tqdm

from ..bilm import BATCH_TOKENS, BiLM
from ..embedding import EmbeddedCorpus, Layers, embed_corpus
from ..embedding.corpus import FULL_DISK
from ..embedding.partial import partial_path
from ..embedding.sinks import SINKS
from .evaluate import device_of
from .screen import BarOwner, ResultPrinter
from .train import INTERRUPTED, is_out_of_memory

STREAM = "-"

BAR_FORMAT = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{remaining} left, {rate_fmt}]"


def embed_cli(
    model_path: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Weights, in any format that `source` takes")
    ],
    input_path: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help=".txt (a sentence a line), .jsonl or .spacy file, also .gz, .xz or .zst; - for "
            "lines from the standard input",
        ),
    ],
    output_path: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT",
            help=".hdf5, .npz, .safetensors or .parquet file; - for the standard output",
        ),
    ],
    all_layers: Annotated[
        bool, typer.Option("--all", help="Write all layers (the default)")
    ] = False,
    top: Annotated[bool, typer.Option("--top", help="Write the top layer")] = False,
    average: Annotated[bool, typer.Option("--average", help="Write the layers' average")] = False,
    layer: Annotated[
        Optional[int], typer.Option("--layer", help="Write one layer; 0 is the token layer")
    ] = None,
    mix: Annotated[
        Optional[str],
        typer.Option(
            "--mix", metavar="W0,W1,...", help="Write the sum of the layers with these weights"
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="float32|float16", help="Type of the values that are written")
    ] = "float32",
    format: Annotated[
        Optional[str],
        typer.Option(
            metavar="|".join(SINKS), help="Format, where the name of OUTPUT does not tell it"
        ),
    ] = None,
    forget_sentences: Annotated[
        bool,
        typer.Option("--forget-sentences", help="Leave the text out of .hdf5 and .parquet files"),
    ] = False,
    lang: Annotated[
        Optional[str],
        typer.Option(
            help="Language whose tokenizer splits raw text; without it words stand between blanks"
        ),
    ] = None,
    initial_state: Annotated[
        str,
        typer.Option(
            metavar="zero|warm|carry",
            help="LSTM state before a sentence; carry is AllenNLP's and bilm-tf's",
        ),
    ] = "warm",
    batch_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens that run at a time, which bounds memory")
    ] = BATCH_TOKENS,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, or auto")] = "cpu",
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with a run that was stopped; start anew if there is none, and leave a "
            "file that is complete",
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file, or a run that was stopped")
    ] = False,
) -> None:
    """
    Write the vectors of all sentences of a text to a file, in the order of the text, in memory
    that does not grow with it. The array of each line, counted from 0, has the line's number as
    its key (.hdf5, in the layout of allennlp elmo; .npz; .safetensors); or each token has a row
    (.parquet). A blank line has no tokens.

    OUTPUT appears when it is complete. What is done until then is in OUTPUT.partial, and --resume
    goes on from there. .npz, .safetensors and .parquet can be piped: give - and --format.
    """
    printer = ResultPrinter(to_stderr=output_path == STREAM)
    with _Bar() as bar:
        try:
            layers = _choose_layers(all_layers, top, average, layer, mix)
            source: Union[Path, BinaryIO] = Path(input_path)
            if input_path == STREAM:
                source = sys.stdin.buffer
            elif not Path(input_path).exists():
                raise ValueError(f"INPUT is {input_path!r}, which does not exist.")
            place = device_of(device)
            result = embed_corpus(
                BiLM.from_pretrained(model_path).to(place),
                source,
                sys.stdout.buffer if output_path == STREAM else Path(output_path),
                layers=layers,
                precision=precision,
                format=format,
                keep_sentences=not forget_sentences,
                lang=lang,
                initial_state=initial_state,  # type: ignore[arg-type]
                batch_tokens=batch_tokens,
                resume=resume,
                overwrite=overwrite,
                progress=bar.show,
            )
        except BrokenPipeError:
            # Who reads has enough. Python must not fail once more when it flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (ValueError, OSError, ImportError) as error:
            bar.close()
            text = f"{error}{_partial(output_path)}"
            if isinstance(error, OSError) and error.errno in FULL_DISK:
                text = _full_disk(error, output_path)
            printer.fail("Embedding failed", text, status=1)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            bar.close()
            text = (
                f"There is not enough memory ({str(error).splitlines()[0]}). Lower --batch-tokens, "
                f"or cut the longest sentences.{_partial(output_path)}"
            )
            printer.fail("Embedding failed", text, status=1)
        except KeyboardInterrupt:
            bar.close()
            printer.fail("Stopped", _partial(output_path).strip(), status=INTERRUPTED)
    printer.good(_told(result, output_path))


def _choose_layers(
    all_layers: bool, top: bool, average: bool, layer: Optional[int], mix: Optional[str]
) -> Layers:
    given: List[str] = []
    layers: Layers = "all"
    for name, is_given in (("all", all_layers), ("top", top), ("average", average)):
        if is_given:
            given.append(f"--{name}")
            layers = name
    if layer is not None:
        given.append("--layer")
        layers = layer
    if mix is not None:
        given.append("--mix")
        try:
            layers = [float(weight) for weight in mix.split(",")]
        except ValueError:
            raise ValueError(
                f"--mix is {mix!r}; expected a number a layer, such as 0.2,0.3,0.5."
            ) from None
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} were given; expected one of them.")
    return layers


def _partial(output_path: str) -> str:
    """What is said of a run that can be resumed."""
    partial = partial_path(Path(os.path.realpath(output_path)))
    if output_path == STREAM or not partial.exists():
        return ""
    return f" What is done is in {partial}: go on with --resume."


def _full_disk(error: OSError, output_path: str) -> str:
    partial = _partial(output_path)
    again = "give the same command with --resume" if partial else "run the same command again"
    return f"{error}. Free some space there, then {again}.{partial}"


def _told(result: EmbeddedCorpus, output_path: str) -> str:
    if result.n_embedded == 0 and result.n_tokens > 0:
        return f"{output_path} was complete; nothing was left to do"
    where = "Written" if output_path == STREAM else f"Saved: {output_path}"
    before = result.n_tokens - result.n_embedded
    resumed = f" ({before:,} of them before)" if before else ""
    return f"{where}, {result.n_tokens:,} tokens{resumed}, {result.n_sentences:,} sentences"


class _Bar(BarOwner):
    """Shows how much is read, then how much is embedded, tokens/s and the time left. It is shown
    on the standard error, where that is a screen."""

    def __init__(self) -> None:
        super().__init__()
        self._what = ""

    def show(self, what: str, n: int, total: int) -> None:
        """Show that ``n`` of ``total`` bytes are read, or tokens embedded."""
        if what != self._what:
            self.close()
            self._what = what
            # None: where the standard error is no screen, there is no bar.
            self._bar = tqdm(
                total=total,
                # Those of a resumed run do not count for the speed.
                initial=n,
                desc="Reading" if what == "read" else "Embedding",
                unit="B" if what == "read" else " tokens",
                unit_scale=True,
                bar_format=BAR_FORMAT,
                leave=False,
                disable=None,
            )
        assert self._bar is not None
        self._bar.update(n - self._bar.n)
