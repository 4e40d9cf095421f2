"""The scalar mix against torch autograd and against the formula."""

import numpy
import pytest
import torch
from spacy import registry

from spacy_elmo.models import layer_weights
from spacy_elmo.models.scalar_mix import LAYER_NORM_EPSILON, build_scalar_mix_v1
from spacy_elmo.models.types import ConstantLayers

WIDTH = 6
LENGTHS = [3, 0, 1, 5]


def make_layers(n_layers=3, seed=0):
    rng = numpy.random.default_rng(seed)
    return [rng.normal(size=(n_layers, n, WIDTH)).astype("float32") for n in LENGTHS]


def torch_mix(layers, scalars, gamma, layer_norm):
    if layer_norm:
        mean = layers.mean(dim=2, keepdim=True)
        variance = ((layers - mean) ** 2).mean(dim=2, keepdim=True)
        layers = (layers - mean) / torch.sqrt(variance + LAYER_NORM_EPSILON)
    weights = torch.softmax(scalars, 0)
    return gamma * (weights[:, None, None] * layers).sum(0)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_forward_and_gradients_equal_torch_autograd(layer_norm, l2, factor):
    X = make_layers()
    mix = build_scalar_mix_v1(layer_norm=layer_norm, l2=l2, learn_rate_factor=factor)
    mix.initialize(X)
    mix.set_param("scalar_parameters", numpy.asarray([0.3, -0.2, 0.9], dtype="float32") / factor)
    mix.set_param("gamma_offset", numpy.asarray([0.7], dtype="float32") / factor)
    Y, backprop = mix(X, is_train=True)
    rng = numpy.random.default_rng(1)
    dY = [rng.normal(size=y.shape).astype("float32") for y in Y]
    dX = backprop(dY)

    scalars = torch.tensor([0.3, -0.2, 0.9], requires_grad=True)
    gamma = torch.tensor(1.7, requires_grad=True)
    inputs = [torch.tensor(x, requires_grad=True) for x in X]
    outputs = [torch_mix(x, scalars, gamma, layer_norm) for x in inputs]
    loss = sum((out * torch.tensor(d)).sum() for out, d in zip(outputs, dY))
    (loss + l2 * (scalars**2).sum()).backward()

    for ours, theirs in zip(Y, outputs):
        numpy.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-5)
    for ours, theirs in zip(dX, inputs):
        numpy.testing.assert_allclose(ours, theirs.grad.numpy(), atol=1e-4)
    d_scalars, d_gamma = mix.get_grad("scalar_parameters"), mix.get_grad("gamma_offset")[0]
    numpy.testing.assert_allclose(d_scalars / factor, scalars.grad.numpy(), atol=1e-4)
    numpy.testing.assert_allclose(d_gamma / factor, gamma.grad.numpy(), atol=1e-4)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_layers_that_take_no_gradient_get_none_and_the_mix_learns_the_same(layer_norm):
    X = make_layers()
    for layers in X:
        layers.flags.writeable = False
    found = []
    for inputs in (X, ConstantLayers(X)):
        mix = build_scalar_mix_v1(layer_norm=layer_norm)
        mix.initialize(X)
        Y, backprop = mix(inputs, is_train=True)
        d_layers = backprop([y + 1 for y in Y])
        found.append((Y, mix.get_grad("scalar_parameters"), mix.get_grad("gamma_offset")))
        assert [d.shape for d in d_layers] == ([x.shape for x in X] if inputs is X else [])
    for left, right in zip(*found):
        assert all(numpy.array_equal(a, b) for a, b in zip(left, right))


@pytest.mark.parametrize(
    "choice,weights",
    [
        ([0, 0, 1], [0, 0, 1]),
        ("top", [0, 0, 1]),
        (0, [1, 0, 0]),
        (1, [0, 1, 0]),
        ([0.5, 2.0, -1.0], [0.5, 2.0, -1.0]),
        ("average", [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_fixed_weights_are_used_as_they_are(choice, weights):
    X = make_layers()
    mix = build_scalar_mix_v1(layer_weights=choice)
    mix.initialize(X)
    assert not mix.param_names
    for y, x in zip(mix.predict(X), X):
        expected = sum(weight * layer for weight, layer in zip(weights, x))
        numpy.testing.assert_allclose(y, expected, atol=1e-6)
    if weights == [0, 0, 1]:
        assert all(numpy.array_equal(y, x[2]) for y, x in zip(mix.predict(X), X))


def test_learned_weights_start_at_the_average():
    X = make_layers()
    mix = build_scalar_mix_v1()
    mix.initialize(X)
    for y, x in zip(mix.predict(X), X):
        numpy.testing.assert_allclose(y, x.mean(axis=0), atol=1e-6)
    (found,) = layer_weights(mix)
    assert found.weights == pytest.approx([1 / 3] * 3)
    assert found.gamma == 1.0


def test_batches_without_tokens():
    X = [numpy.zeros((1, 0, WIDTH), dtype="float32")] * 2
    mix = build_scalar_mix_v1()
    mix.initialize(make_layers())
    Y, backprop = mix(X, is_train=True)
    assert [y.shape for y in Y] == [(0, WIDTH)] * 2
    assert [x.shape for x in backprop(Y)] == [(1, 0, WIDTH)] * 2


def test_dropout_falls_in_training_only_and_keeps_the_mean():
    X = [numpy.ones((2, 400, 50), dtype="float32")]
    mix = build_scalar_mix_v1(dropout=0.4)
    mix.initialize(X)
    assert (mix.predict(X)[0] == 1).all()
    (trained,), backprop = mix(X, is_train=True)
    dropped = trained == 0
    assert 0.35 < dropped.mean() < 0.45
    assert trained.mean() == pytest.approx(1.0, abs=0.05)
    (d_layers,) = backprop([numpy.ones_like(trained)])
    assert ((d_layers[0] == 0) == dropped).all()


def test_another_number_of_layers_is_an_error():
    mix = build_scalar_mix_v1()
    mix.initialize(make_layers(n_layers=3))
    with pytest.raises(ValueError, match="has 3 weights, but the biLM gives 2 layers"):
        mix.predict(make_layers(n_layers=2))


@pytest.mark.parametrize("choice", [3, -1, [1, 0], "middle"])
def test_weights_that_fit_no_layer_are_an_error(choice):
    with pytest.raises(ValueError, match="layer_weights"):
        build_scalar_mix_v1(layer_weights=choice).initialize(make_layers())


@pytest.mark.parametrize(
    "name,value",
    [("dropout", 1.0), ("dropout", -0.1), ("l2", -1.0), ("learn_rate_factor", 0.0)],
)
def test_settings_out_of_range_are_an_error(name, value):
    with pytest.raises(ValueError, match=f"'{name}' of the scalar mix is {value}"):
        build_scalar_mix_v1(**{name: value})


def test_round_trip_keeps_the_parameters_and_the_config_keeps_the_settings():
    X = make_layers()
    make = registry.get("architectures", "spacy-elmo.ScalarMix.v1")
    mix = make(l2=0.5)
    mix.initialize(X)
    mix.set_param("scalar_parameters", numpy.asarray([1, 2, 3], dtype="float32"))
    loaded = make(l2=0.1).from_bytes(mix.to_bytes())
    assert loaded.attrs["scalar_mix_settings"].l2 == 0.1
    for ours, theirs in zip(loaded.predict(X), mix.predict(X)):
        assert numpy.array_equal(ours, theirs)
