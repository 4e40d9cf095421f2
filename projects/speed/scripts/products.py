"""The matrix products of a training step: which they are, and how fast they are alone."""

from dataclasses import dataclass
from typing import List, Sequence

import torch
from torch.utils.benchmark import Timer

from spacy_elmo import BiLMConfig
from spacy_elmo.training.batches import Batch

# Seconds for which a product is repeated.
RUN_TIME = 0.05


@dataclass(frozen=True)
class Product:
    """``count`` products of [rows, inner] and [inner, columns]."""

    what: str
    count: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of all of them."""
        return 2 * self.count * self.rows * self.inner * self.columns


def list_products(config: BiLMConfig, batch: Batch, n_samples: int) -> List[Product]:
    """All products of a training step, forward and backward.

    :param config: sizes of a biLM with both projections, as all sizes of ``init-bilm`` have.
    :param batch: what the step reads, in windows that no row ends in.
    :param n_samples: words that the softmax compares with, the targets not counted.
    """
    n_rows, n_steps = batch.batch_sizes[0], len(batch.batch_sizes)
    n_positions = n_rows * n_steps
    n_words = sum(group.n_words for group in batch.tokens)
    widths = [width for width, _ in config.filters]
    characters = [group.characters for group in batch.tokens if group.characters is not None]
    n_windows = sum(len(ids) * (ids.shape[1] - min(widths) + 1) for ids in characters)
    window = max(widths) * config.char_embedding_dim
    filters, output, cell = config.n_filters, config.projection_dim, config.cell_size

    # Each layer of each direction. What a step needs from the step before it cannot be joined
    # over the steps; the gradients of inputs and weights can.
    n_layers = 2 * config.n_layers
    n_all_steps = n_layers * n_steps
    return [
        *_linear("convolutions", 1, n_windows, window, filters),
        *_linear("highway", 2 * config.n_highway, n_words, filters, filters),
        *_linear("token projection", 1, n_words, filters, output),
        Product("LSTM: gates", n_all_steps, n_rows, 2 * output, 4 * cell),
        Product("LSTM: projection", n_all_steps, n_rows, cell, output),
        Product("LSTM: d cell output", n_all_steps, n_rows, output, cell),
        Product("LSTM: d output before", n_all_steps, n_rows, 4 * cell, output),
        Product("LSTM: d input", n_layers, n_positions, 4 * cell, output),
        Product("LSTM: d gate weights", n_layers, 2 * output, n_positions, 4 * cell),
        Product("LSTM: d projection weights", n_layers, output, n_positions, cell),
        *_linear("softmax", 1, batch.n_predictions, output, n_samples),
    ]


def _linear(what: str, count: int, rows: int, inner: int, columns: int) -> List[Product]:
    """The products of a linear layer and of its two gradients."""
    products = [
        Product(what, count, rows, inner, columns),
        Product(f"{what}: d input", count, rows, columns, inner),
        Product(f"{what}: d weights", count, inner, rows, columns),
    ]
    return products if count > 0 else []


class ProductsAlone:
    """Runs products on random numbers, with all memory taken before.

    :param products: what to run.
    :param dtype: of factors and results.
    """

    def __init__(
        self, products: Sequence[Product], dtype: torch.dtype, device: torch.device
    ) -> None:
        self._timers: List[Timer] = []
        for product in products:
            left = torch.randn(product.rows, product.inner, device=device).to(dtype)
            right = torch.randn(product.inner, product.columns, device=device).to(dtype)
            operands = {
                "left": left,
                "right": right,
                "result": left.new_empty(product.rows, product.columns),
            }
            timer = Timer(
                "torch.mm(left, right, out=result)",
                globals=operands,
                num_threads=torch.get_num_threads(),
            )
            self._timers.append(timer)

    def time(self) -> List[float]:
        """Median seconds of one of each. A product is repeated, so that its operands are as near
        as they can be: the rate is the machine's best, not what a step could reach."""
        return [timer.blocked_autorange(min_run_time=RUN_TIME).median for timer in self._timers]
