"""Per-FedAvg."""

import numpy as np
import pytest
import torch
from torch.autograd import functional

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.per_fedavg import adapted, first_order_step, hessian_free_step


def batch(problem, rows):
    small = problem(clients=4, samples=(30, 30))
    features, labels = small.data.features[rows], small.data.labels[rows]

    def loss(x):
        return torch.nn.functional.cross_entropy(features @ x[:15].view(5, 3) + x[15:], labels) + x.square().sum() / 20

    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(loss(x), x)[0]

    return loss, gradient


def test_the_hessian_free_step_follows_the_exact_gradient(problem):
    """∇ f(w − α∇f(w)) = (I − α∇²f(w)) ∇f(w − α∇f(w)): by autograd through the adaptation; the error falls like δ²."""
    loss, gradient = batch(problem, torch.arange(20))
    w = torch.from_numpy(np.random.default_rng(1).normal(size=18)).requires_grad_()
    inner = torch.autograd.grad(loss(w), w, create_graph=True)[0]
    exact = torch.autograd.grad(loss(w - 0.4 * inner), w)[0]
    w = w.detach()
    g_adapted = gradient(adapted(w, gradient(w), 0.4))
    found = [
        float((hessian_free_step(w, g_adapted, gradient, 0.3, 0.4, delta) - (w - 0.3 * exact)).norm())
        for delta in (1.0, 0.1, 1e-4)
    ]
    assert found[2] < 1e-8
    assert 50 < found[0] / found[1] < 200
    first_order = first_order_step(w, g_adapted, 0.3)
    assert float((first_order - (w - 0.3 * exact)).norm()) > 1e-3  # the error of ignoring the Hessian
    torch.testing.assert_close(first_order, w - 0.3 * g_adapted)


def test_the_difference_quotient_is_the_hessian_times_the_gradient_on_other_batches(problem):
    _, on_one = batch(problem, torch.arange(10))
    loss, on_other = batch(problem, torch.arange(40, 60))
    w = torch.from_numpy(np.random.default_rng(2).normal(size=18))
    g_adapted = on_one(adapted(w, on_one(w), 0.2))
    product = functional.hvp(loss, w, g_adapted)[1]
    step = hessian_free_step(w, g_adapted, on_other, 0.5, 0.2, 1e-3)
    torch.testing.assert_close(step, w - 0.5 * (g_adapted - 0.2 * product), rtol=0, atol=1e-8)


@pytest.mark.parametrize("variant", ["first_order", "hessian_free"])
def test_runs_follow_the_equations(problem, plain, contacts, variant):
    small = problem()
    alpha, delta, per_step = 0.2, 0.05, 3 if variant == "hessian_free" else 2
    keys = {"local_steps": 3, "batch_size": 6, "step_size": 0.3, "adapt_step_size": alpha}
    keys |= {"variant": variant, "delta": delta}
    algorithm, replay = small.build("per_fedavg", **keys), plain.Replay(small.build("per_fedavg", **keys))
    y = small.start.numpy()
    personal = np.tile(y, (7, 1))
    for contact in contacts(7, 25):
        losses, delivered = [], []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            w, left = y, iter(batches)
            for _ in range(3):
                x = w - alpha * replay.gradient(w, next(left))
                rows = next(left)
                losses.append(replay.loss(x, rows))
                p = replay.gradient(x, rows)
                step = p
                if variant == "hessian_free":
                    rows = next(left)
                    ahead, behind = replay.gradient(w + delta * p, rows), replay.gradient(w - delta * p, rows)
                    step = p - alpha * (ahead - behind) / (2 * delta)
                w = w - 0.3 * step
            personal[client] = w - alpha * replay.gradient(w, next(left))
            delivered.append(w)
        before, y = y, np.mean(delivered, axis=0)
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        assert update.gradient_steps == (13 if per_step == 3 else 7)
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
        np.testing.assert_allclose(algorithm.models.numpy(), personal, atol=1e-10)


@pytest.mark.parametrize("variant", ["first_order", "hessian_free"])
def test_it_converges_to_the_fixed_point_of_its_objective(quadratic, variant):
    """Σ of the clients' steps is zero: A(I − αA) applied to y − b, and (I − αA) once more with the Hessian."""
    keys = {"step_size": 0.2, "adapt_step_size": 0.3, "variant": variant, "delta": 0.5}
    algorithm = quadratic.build("per_fedavg", local_steps=1, batch_size=16, **keys)
    for _ in range(500):
        algorithm.update(Contact(np.arange(3), 3, 0.0))
    adapt = np.eye(3) - 0.3 * quadratic.curvature
    slopes = quadratic.curvature @ adapt if variant == "first_order" else adapt @ quadratic.curvature @ adapt
    y = np.linalg.solve(slopes.sum(axis=0), np.einsum("nij,nj->i", slopes, quadratic.least))
    np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-9)
    w = y - 0.2 * np.einsum("nij,nj->ni", slopes, y - quadratic.least)
    expected = quadratic.least + np.einsum("nij,nj->ni", adapt, w - quadratic.least)
    np.testing.assert_allclose(algorithm.models.numpy(), expected, atol=1e-9)


def test_without_adaptation_it_is_fedavg_with_equal_weights(problem):
    """α = 0, one step on the second of two batches."""
    small = problem(clients=3)
    algorithm = small.build("per_fedavg", adapt_step_size=0.0, local_steps=1, batch_size=5)
    rows = small.build("per_fedavg", local_steps=1, batch_size=5)._batches(np.arange(3))
    algorithm.update(Contact(np.arange(3), 3, 0.0))
    g, _ = small.model.gradient(small.start.repeat(3, 1), small.data.features[rows[1]], small.data.labels[rows[1]])
    torch.testing.assert_close(algorithm.models, small.start - 0.1 * g)
    torch.testing.assert_close(algorithm.token, (small.start - 0.1 * g).mean(dim=0))
