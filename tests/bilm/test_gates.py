"""What gates do at a step of training: compiled, it is what torch's operations do."""

import pytest
import torch

from spacy_elmo.bilm import gates
from spacy_elmo.bilm.gates import CompiledGates, KeptValues, TorchGates, make_gates
from spacy_elmo.bilm.kernel import variants
from spacy_elmo.bilm.lstm_function import run_lstm

DTYPES = [torch.float32, torch.bfloat16]
# What one rounding of a number near 1 can change, and a few of them.
ATOL = {torch.float32: 1e-6, torch.bfloat16: 0.02}

needs_compiler = pytest.mark.skipif(
    not variants(), reason="the package was built without a C compiler (GCC or Clang)"
)


@pytest.fixture(params=variants(), ids=lambda variant: variant.name)
def variant(request):
    return request.param


def make_step(n, size, dtype):
    """Arguments of forward: products and cell value, and where results go."""
    generator = torch.Generator().manual_seed(0)
    products = (2 * torch.randn(n, 4 * size, generator=generator)).to(dtype)
    cell = torch.randn(n, size, generator=generator)
    columns = (4 * size, size, size, size)
    results = (torch.full((n, n_columns), 9.0, dtype=dtype) for n_columns in columns)
    return products, cell, KeptValues(*results)


def run_forward(passes, n, size, dtype):
    """What a step gives."""
    products, cell, kept = make_step(n, size, dtype)
    passes.forward(products, cell, kept)
    return [cell, *kept]


def run_back(passes, kept, n_after, dtype):
    """What its derivative gives, by what a step kept."""
    generator = torch.Generator().manual_seed(1)
    shape = kept.cell.shape
    d_gated, before = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    d_cell = torch.randn(shape, generator=generator)
    # What is behind the rows that go on is no gradient of anything.
    d_cell[n_after:] = float("nan")
    d_gates = torch.full_like(kept.gates, 9.0)
    passes.backward(d_gated, kept, before, d_cell, n_after, d_gates)
    return [d_cell, d_gates]


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cell_clip", [None, 0.5])
@pytest.mark.parametrize("n, size, n_after", [(1, 1, 1), (3, 16, 2), (5, 37, 0), (20, 100, 20)])
def test_compiled_gates_do_what_torchs_operations_do(variant, dtype, cell_clip, n, size, n_after):
    compiled = CompiledGates(variant, cell_clip, dtype)
    plain = TorchGates(n, size, cell_clip, dtype, torch.zeros(1))
    found, expected = (run_forward(passes, n, size, dtype) for passes in (compiled, plain))
    # Both by the same values: a rounding decides what is at the clip.
    kept = KeptValues(*(part.clone() for part in expected[1:]))
    found += run_back(compiled, kept, n_after, dtype)
    expected += run_back(plain, kept, n_after, dtype)
    for one, other in zip(found, expected):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, atol=ATOL[dtype], rtol=ATOL[dtype])


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_number_of_threads_changes_no_bit(variant, dtype):
    compiled = CompiledGates(variant, 3.0, dtype)
    before = torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            step = run_forward(compiled, 50, 70, dtype)
            found.append([*step, *run_back(compiled, KeptValues(*step[1:]), 31, dtype)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(*pair) for other in found[1:] for pair in zip(found[0], other))


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_number_stays_visible(variant, dtype):
    products, cell, kept = make_step(2, 20, dtype)
    products[0] = float("nan")
    CompiledGates(variant, 3.0, dtype).forward(products, cell, kept)
    assert all(part[0].isnan().all() and part[1].isfinite().all() for part in (cell, *kept))


@needs_compiler
def test_other_memory_than_expected_is_refused(variant):
    passes = CompiledGates(variant, 3.0, torch.float32)
    products, cell, kept = make_step(4, 8, torch.float32)
    for wrong in (products.double(), products[:3], products[:1].expand(4, -1), products[:, ::2]):
        with pytest.raises(ValueError, match=r"expected torch.float32, shape \(4, 32\), rows side"):
            passes.forward(wrong, cell, kept)
    with pytest.raises(ValueError, match=r"A tensor of torch.bfloat16, shape \(4, 8\)"):
        passes.forward(products, cell.bfloat16(), kept)


def test_torch_does_what_is_not_compiled(monkeypatch):
    def kind(dtype, like):
        return type(make_gates(2, 3, None, dtype, like))

    full, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert kind(torch.float64, double) is TorchGates
    assert kind(torch.float16, full) is TorchGates
    assert kind(torch.bfloat16, torch.zeros(1, device="meta")) is TorchGates
    if variants():
        assert kind(torch.float32, full) is CompiledGates
        assert kind(torch.bfloat16, full) is CompiledGates
    monkeypatch.setattr(gates, "variants", lambda: [])
    assert kind(torch.float32, full) is TorchGates


@needs_compiler
@pytest.mark.parametrize("is_low", [False, True])
@pytest.mark.parametrize("is_projected", [False, True])
@pytest.mark.parametrize("batch_sizes", [[6, 6, 4, 1], [3] * 9])
def test_a_layer_trains_the_same_either_way(is_low, is_projected, batch_sizes, monkeypatch):
    n, size, dim = sum(batch_sizes), 24, 10 if is_projected else 24
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return (torch.randn(*shape, generator=generator) / shape[-1] ** 0.5).requires_grad_()

    tensors = [draw(n, 7), draw(4 * size, 7), draw(4 * size, dim), draw(4 * size)]
    tensors.append(draw(dim, size) if is_projected else None)
    # A state of another precision, and one that several sequences share, are states too.
    hidden = torch.zeros(1, dim, dtype=torch.bfloat16).expand(batch_sizes[0], -1)
    cell = torch.ones(1, size).expand(batch_sizes[0], -1)
    # With few bits a rounding decides what is at a clip.
    clips = (9.0, 9.0) if is_low else (0.4, 0.5)
    found = []
    for is_compiled in (True, False):
        if not is_compiled:
            monkeypatch.setattr(gates, "variants", lambda: [])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_low):
            x, *weights = tensors
            outputs, *state = run_lstm(x, batch_sizes, hidden, cell, *weights, *clips)
        needed = [tensor for tensor in tensors if tensor is not None]
        outputs.square().sum().backward()
        found.append([outputs, *state, *(tensor.grad for tensor in needed)])
        for tensor in needed:
            tensor.grad = None
    atol = 0.05 if is_low else 1e-5
    for one, other in zip(*found):
        assert one.dtype == other.dtype == torch.float32
        torch.testing.assert_close(one, other, atol=atol, rtol=atol)
