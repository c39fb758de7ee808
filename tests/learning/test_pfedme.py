"""pFedMe."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.pfedme import mixed, outer_step, pull_to_global


def test_the_inner_step_minimises_its_model_of_the_objective():
    """<g, θ> + (λ/2)|θ − w|² + |θ − θ'|²/2η has no slope there, by autograd."""
    theta, w, g = (torch.from_numpy(np.random.default_rng(seed).normal(size=(2, 5))) for seed in range(3))
    found = pull_to_global(w, 0.2, 3.0)(theta - 0.2 * g).requires_grad_()
    value = (g * found).sum() + 1.5 * (found - w).square().sum() + (found - theta).square().sum() / 0.4
    slope = torch.autograd.grad(value, found)[0]
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)


def test_the_outer_step_follows_the_gradient_of_the_moreau_envelope(quadratic):
    """F(w) = min over θ of f(θ) + (λ/2)|θ − w|², by autograd through its minimiser."""
    lam = 2.5
    w = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 3))).requires_grad_()
    a, b = torch.from_numpy(quadratic.curvature), torch.from_numpy(quadratic.least)
    shifted = a + lam * torch.eye(3, dtype=torch.float64)
    theta = torch.linalg.solve(shifted, (a @ b.unsqueeze(2)).squeeze(2) + lam * w)
    f = torch.einsum("ni,nij,nj->", theta - b, a, theta - b) / 2
    slope = torch.autograd.grad(f + lam / 2 * (theta - w).square().sum(), w)[0]
    torch.testing.assert_close(outer_step(w, theta, 0.1, lam), w - 0.1 * slope, rtol=0, atol=1e-12)


def test_the_outer_step_and_the_token():
    w, theta = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0, 2.0], [5.0, 0.0]])
    torch.testing.assert_close(outer_step(w, theta, 0.1, 5.0), torch.tensor([[0.5, 2.0], [4.0, 2.0]]))
    torch.testing.assert_close(mixed(torch.tensor([0.0, 1.0]), w, 0.25), torch.tensor([0.5, 1.5]))
    torch.testing.assert_close(mixed(torch.tensor([0.0, 1.0]), w, 2.0), torch.tensor([4.0, 5.0]))


def test_many_inner_steps_minimise_the_personal_objective(problem, plain):
    small = problem(clients=3)
    keys = {"local_steps": 1, "batch_size": 12, "penalty": 2.0, "inner_steps": 2000}
    algorithm, replay = small.build("pfedme", **keys), plain.Replay(small.build("pfedme", local_steps=1, batch_size=12))
    clients, w = np.arange(3), small.start.numpy()
    batches = replay.batches(clients)[:, 0]
    algorithm.update(Contact(clients, 3, 0.0))
    for theta, rows in zip(algorithm.models.numpy(), batches, strict=True):
        found = minimize(
            lambda x, rows=rows: replay.loss(x, rows) + np.sum((x - w) ** 2),
            w,
            jac=lambda x, rows=rows: replay.gradient(x, rows) + 2 * (x - w),
            options={"gtol": 1e-10},
        )
        np.testing.assert_allclose(theta, found.x, atol=1e-6)
        assert np.linalg.norm(theta - w) > 0.05


def test_runs_follow_the_equations(problem, plain, contacts):
    small = problem()
    eta, lam, inner, outer, mix = 0.3, 4.0, 3, 0.05, 0.8
    keys = {"local_steps": 4, "batch_size": 6, "step_size": eta, "penalty": lam, "inner_steps": inner}
    keys |= {"outer_step_size": outer, "mix": mix}
    algorithm, replay = small.build("pfedme", **keys), plain.Replay(small.build("pfedme", **keys))
    y = small.start.numpy()
    personal = np.tile(y, (7, 1))
    for contact in contacts(7, 25):
        losses, delivered = [], []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            w = theta = y
            for rows in batches[:4]:
                for _ in range(inner):
                    losses.append(replay.loss(theta, rows))
                    theta = (theta - eta * replay.gradient(theta, rows) + eta * lam * w) / (1 + eta * lam)
                w = w - outer * lam * (w - theta)
            personal[client] = theta
            delivered.append(w)
        before, y = y, (1 - mix) * y + mix * np.mean(delivered, axis=0)
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        assert update.gradient_steps == 12
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
        np.testing.assert_allclose(algorithm.models.numpy(), personal, atol=1e-10)


def test_it_converges_to_the_fixed_point_of_its_objective(quadratic):
    """The token minimises Σ of the Moreau envelopes, (A + λ)⁻¹λA around b; personal models f_i(θ) + (λ/2)|θ − y|²."""
    lam = 2.0
    keys = {"penalty": lam, "inner_steps": 30, "outer_step_size": 0.6, "step_size": 0.4}
    algorithm = quadratic.build("pfedme", local_steps=1, batch_size=16, **keys)
    for _ in range(100):
        algorithm.update(Contact(np.arange(3), 3, 0.0))
    envelopes = [np.linalg.solve(a + lam * np.eye(3), lam * a) for a in quadratic.curvature]
    y = np.linalg.solve(sum(envelopes), sum(e @ b for e, b in zip(envelopes, quadratic.least, strict=True)))
    np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-9)
    for theta, a, b in zip(algorithm.models.numpy(), quadratic.curvature, quadratic.least, strict=True):
        np.testing.assert_allclose(theta, np.linalg.solve(a + lam * np.eye(3), a @ b + lam * y), atol=1e-9)
