"""The training pass of an LSTM layer against torch's autograd over the plain recurrence."""

from itertools import product

import pytest
import torch

from spacy_elmo.bilm.buffers import reuse_buffers
from spacy_elmo.bilm.lstm_function import run_lstm

INPUT, PROJECTION, CELL = 5, 4, 6
SIZES = {"equal": [3, 3, 3], "falling": [4, 4, 2, 1, 1], "one": [1]}


def plain_lstm(x, sizes, hidden, cell, input_weight, state_weight, bias, projection, *clips):
    """The equations of bilm-tf's cell, step by step, with autograd."""
    cell_clip, proj_clip = clips
    outputs, hiddens, cells = [], [], []
    for rows in x.split(sizes):
        n = len(rows)
        hiddens.append(hidden[n:])
        cells.append(cell[n:])
        gates = rows @ input_weight.t() + hidden[:n] @ state_weight.t() + bias
        i, f, g, o = gates.chunk(4, dim=1)
        cell = torch.sigmoid(f) * cell[:n] + torch.sigmoid(i) * torch.tanh(g)
        if cell_clip is not None:
            cell = cell.clamp(-cell_clip, cell_clip)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        if projection is not None:
            hidden = hidden @ projection.t()
            if proj_clip is not None:
                hidden = hidden.clamp(-proj_clip, proj_clip)
        outputs.append(hidden)
    final = (
        torch.cat([last, *reversed(ended)]) for last, ended in ((hidden, hiddens), (cell, cells))
    )
    return torch.cat(outputs), *final


def make_inputs(sizes, has_projection=True, dtype=torch.float64, scale=1.0):
    torch.manual_seed(0)
    output = PROJECTION if has_projection else CELL
    shapes = [(4 * CELL, INPUT), (4 * CELL, output), (4 * CELL,)]
    x = torch.randn(sum(sizes), INPUT, dtype=dtype, requires_grad=True)
    state = [torch.randn(sizes[0], size, dtype=dtype) * 0.1 for size in (output, CELL)]
    weights = [torch.randn(shape, dtype=dtype) * scale for shape in shapes]
    weights.append(torch.randn(PROJECTION, CELL, dtype=dtype) * scale if has_projection else None)
    for weight in weights:
        if weight is not None:
            weight.requires_grad_()
    return x, state, weights


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    "has_projection, cell_clip, proj_clip",
    list(product([True, False], [None, 0.4], [None, 0.3])),
)
def test_outputs_states_and_gradients_are_those_of_autograd(
    sizes, has_projection, cell_clip, proj_clip
):
    """The clips are low enough to cut many values."""
    x, state, weights = make_inputs(sizes, has_projection)
    clips = (cell_clip, proj_clip)
    inputs = [x, *(weight for weight in weights if weight is not None)]
    expected = plain_lstm(x, sizes, *state, *weights, *clips)
    found = run_lstm(x, sizes, *state, *weights, *clips)
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(expected[0])
    torch.testing.assert_close(
        torch.autograd.grad(found[0], inputs, grad), torch.autograd.grad(expected[0], inputs, grad)
    )


def test_no_gradient_flows_through_states():
    x, state, weights = make_inputs([2, 2])
    state[0].requires_grad_()
    outputs, hidden, cell = run_lstm(x, [2, 2], *state, *weights, None, None)
    assert outputs.requires_grad and not hidden.requires_grad and not cell.requires_grad
    outputs.sum().backward()
    assert state[0].grad is None


def test_bfloat16_is_near_and_gives_float32():
    sizes = [4, 4, 2]
    x, state, weights = make_inputs(sizes, dtype=torch.float32, scale=0.5)
    exact = run_lstm(x, sizes, *state, *weights, 3.0, 3.0)
    with torch.autocast("cpu", torch.bfloat16):
        low = run_lstm(x, sizes, *state, *weights, 3.0, 3.0)
    gradients = [torch.autograd.grad(out[0].sum(), [x, *weights]) for out in (exact, low)]
    for one, other in zip((*exact, *gradients[0]), (*low, *gradients[1])):
        assert other.dtype == torch.float32
        assert 0 < (one - other).norm() / one.norm() < 0.02


def test_reused_buffers_change_no_bit():
    sizes = [3, 3, 2]
    x, state, weights = make_inputs(sizes)

    def gradients():
        return torch.autograd.grad(
            run_lstm(x, sizes, *state, *weights, 3.0, 3.0)[0].square().sum(), [x, *weights]
        )

    expected = gradients()
    with reuse_buffers():
        for _ in range(3):
            for one, other in zip(gradients(), expected):
                assert torch.equal(one, other)


def test_two_passes_before_a_backward_pass_do_not_share_buffers():
    sizes = [3, 3]
    x, state, weights = make_inputs(sizes)
    other = torch.randn_like(x, requires_grad=True)
    expected = torch.autograd.grad(run_lstm(x, sizes, *state, *weights, None, None)[0].sum(), x)
    with reuse_buffers():
        first = run_lstm(x, sizes, *state, *weights, None, None)[0]
        run_lstm(other, sizes, *state, *weights, None, None)[0].sum().backward()
        assert torch.equal(torch.autograd.grad(first.sum(), x)[0], expected[0])
