"""Multinomial logistic regression against autograd and numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR, squared_norm
from fedmule.simulator.streams import Streams


def sample(model, models, batch, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(models, model.parameters, generator=g, dtype=dtype)
    features = torch.randn(models, batch, model.features, generator=g, dtype=dtype)
    labels = torch.randint(model.classes, (models, batch), generator=g)
    return x, features, labels


def autograd(model, x, features, labels):
    """One torch.nn.Linear after another."""
    gradients, losses = [], []
    cut = model.features * model.classes
    for one, f, y in zip(x, features, labels, strict=True):
        linear = torch.nn.Linear(model.features, model.classes, dtype=x.dtype)
        linear.weight.data = one[:cut].reshape(model.classes, model.features).clone()
        linear.bias.data = one[cut:].clone()
        loss = functional.cross_entropy(linear(f), y)
        loss.backward()
        gradients.append(torch.cat([linear.weight.grad.reshape(-1), linear.bias.grad]))
        losses.append(loss.detach())
    return torch.stack(gradients), torch.stack(losses)


@pytest.mark.parametrize("models", [1, 2, 9])
@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize(("features", "classes"), [(1, 2), (6, 4), (60, 10)])
def test_gradient_and_loss_are_those_of_autograd(models, batch, features, classes):
    model = MLR(features, classes)
    x, f, y = sample(model, models, batch)
    gradient, loss = model.gradient(x, f, y)
    expected, expected_loss = autograd(model, x, f, y)
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-10, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 7), st.integers(2, 5), st.integers(0, 99))
def test_gradient_of_any_shape(models, batch, features, classes, seed):
    model = MLR(features, classes)
    x, f, y = sample(model, models, batch, seed)
    torch.testing.assert_close(model.gradient(x, f, y), autograd(model, x, f, y), rtol=1e-9, atol=1e-12)


def test_gradient_in_single_precision_and_for_extreme_scores():
    model = MLR(6, 4)
    x, f, y = sample(model, 3, 20, dtype=torch.float32)
    torch.testing.assert_close(model.gradient(x, f, y), autograd(model, x, f, y), rtol=1e-4, atol=1e-6)
    gradient, loss = model.gradient(1e4 * x, f, y)
    assert torch.isfinite(gradient).all()
    assert torch.isfinite(loss).all()


def test_gradient_does_not_change_its_inputs():
    model = MLR(6, 4)
    parts = sample(model, 3, 20)
    before = [part.clone() for part in parts]
    model.gradient(*parts)
    assert all(torch.equal(a, b) for a, b in zip(parts, before, strict=True))


def test_scores(plain):
    model = MLR(6, 4)
    x, f, _ = sample(model, 1, 30)
    scores = model.scores(x[0], f[0])
    assert scores.shape == (30, 4)
    np.testing.assert_allclose(scores.numpy(), plain.scores(x[0].numpy(), f[0].numpy(), 4), rtol=1e-12, atol=1e-12)


def test_the_numpy_gradient_is_that_of_autograd(plain):
    """The numpy gradient that other tests compare with."""
    model = MLR(6, 4)
    x, f, y = sample(model, 1, 30)
    gradient, loss = autograd(model, x, f, y)
    np.testing.assert_allclose(plain.gradient(x[0].numpy(), f[0].numpy(), y[0].numpy(), 4), gradient[0], rtol=1e-9)
    assert plain.loss(x[0].numpy(), f[0].numpy(), y[0].numpy(), 4) == pytest.approx(float(loss[0]), rel=1e-12)


def test_start_is_random_small_and_single_precision():
    model = MLR(100, 10)
    start = model.start(Streams(1).generator("model"))
    assert start.shape == (1010,)
    assert start.dtype == torch.float32
    assert 0.09 < float(start.abs().max()) <= 0.1
    assert torch.equal(start, model.start(Streams(1).generator("model")))
    assert not torch.equal(start, model.start(Streams(2).generator("model")))


@pytest.mark.parametrize(("features", "classes", "batch"), [(60, 10, 20), (784, 10, 20), (60, 10, 100)])
def test_flops_match_the_count_of_torch(features, classes, batch):
    model = MLR(features, classes)
    weights = torch.zeros(features, classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        loss = functional.cross_entropy(torch.ones(batch, features) @ weights + bias, torch.zeros(batch).long())
        loss.backward()
    counted = counter.get_total_flops()  # the matrix products only
    assert counted > 0
    assert counted <= model.flops(batch) <= 1.05 * counted


@pytest.mark.parametrize("seed", [1, 2])
def test_smoothness_is_the_largest_half_eigenvalue(problem, plain, seed):
    small = problem(seed=seed)
    each = plain.smoothness(small.data)
    assert small.model.smoothness(small.data) == pytest.approx(max(each), rel=1e-9)
    single = problem(seed=seed, double=False)
    assert single.model.smoothness(single.data) == pytest.approx(max(each), rel=1e-4)


def test_gradients_are_as_smooth_as_stated(problem, plain):
    small = problem()
    generator = np.random.default_rng(0)
    for client, bound in enumerate(plain.smoothness(small.data)):
        rows = slice(small.data.first[client], small.data.first[client] + small.data.train_count[client])
        features, labels = small.data.features[rows].numpy(), small.data.labels[rows].numpy()
        for scale in (1e-3, 0.1, 1.0, 10.0):
            for _ in range(20):
                a = scale * generator.normal(size=small.model.parameters)
                b = a + scale * generator.normal(size=small.model.parameters)
                change = plain.gradient(a, features, labels, 3) - plain.gradient(b, features, labels, 3)
                assert np.linalg.norm(change) <= bound * np.linalg.norm(a - b)


def test_smoothness_is_tight_for_two_classes():
    """Along the main direction of the features, at even odds, the gradient changes as fast as L allows."""
    generator = np.random.default_rng(3)
    f, y = torch.from_numpy(generator.normal(1.0, 2.0, (40, 5))), torch.from_numpy(generator.integers(0, 2, 40))
    data = ClientData(f, y, 2, np.array([0, 40]), np.array([30]))
    model = MLR(5, 2)
    f, y = f[:30], y[:30]
    with_bias = torch.cat([f, f.new_ones(30, 1)], dim=1)
    main = torch.linalg.eigh(with_bias.T @ with_bias)[1][:, -1]
    step = 1e-5 * torch.outer(torch.tensor([1.0, -1.0], dtype=torch.float64), main)
    step = torch.cat([step[:, :-1].reshape(-1), step[:, -1]]).unsqueeze(0)
    up, _ = model.gradient(step, f[None], y[None])
    down, _ = model.gradient(-step, f[None], y[None])
    assert float((up - down).norm() / (2 * step).norm()) == pytest.approx(model.smoothness(data), rel=1e-4)


@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (1000, 5), (3, 400), (1, 1)])
@pytest.mark.parametrize("centre", [0.0, 0.5])
def test_squared_norm_is_that_of_the_largest_singular_value(shape, centre):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)) + centre
    exact = float(torch.linalg.matrix_norm(x.double(), 2)) ** 2
    assert exact * (1 - 1e-4) <= squared_norm(x) <= exact * (1 + 1e-5)


def test_squared_norm_of_orthogonal_rows_is_the_longest():
    x = torch.diag(torch.linspace(1.0, 3.0, 150, dtype=torch.float64))
    assert squared_norm(x) == pytest.approx(9.0, rel=1e-4)
