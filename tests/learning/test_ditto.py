"""Ditto."""

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.ditto import pull_to_token


def test_the_step_follows_the_gradient_of_the_personal_objective(problem):
    """f(v) + (λ/2)|v − y|², by autograd."""
    small = problem(clients=2)
    generator = np.random.default_rng(3)
    v, y = (torch.from_numpy(generator.normal(size=18)).requires_grad_() for _ in range(2))
    rows = torch.arange(4)
    features, labels = small.data.features[rows], small.data.labels[rows]
    loss = torch.nn.functional.cross_entropy(features @ v[:15].view(3, 5).T + v[15:], labels)
    g = torch.autograd.grad(loss, v, retain_graph=True)[0]
    total = torch.autograd.grad(loss + 0.7 / 2 * (v - y).square().sum(), v)[0]
    pull = pull_to_token(y, 0.3, 0.7)
    assert pull.first
    torch.testing.assert_close(pull(v) - 0.3 * g, v - 0.3 * total, rtol=1e-12, atol=1e-12)


def test_runs_follow_the_equations(problem, plain, contacts):
    small = problem()
    keys = {"local_steps": 4, "batch_size": 6, "step_size": 0.3, "strength": 0.8}
    algorithm, replay = small.build("ditto", **keys), plain.Replay(small.build("ditto", **keys))
    y = small.start.numpy()
    v = np.tile(y, (7, 1))
    for contact in contacts(7, 25):
        losses, delivered = [], []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            w = y
            for rows in batches[:4]:
                w = w - 0.3 * replay.gradient(w, rows)
                losses.append(replay.loss(v[client], rows))
                v[client] = v[client] - 0.3 * (replay.gradient(v[client], rows) + 0.8 * (v[client] - y))
            delivered.append(w)
        before, y = y, np.average(delivered, axis=0, weights=small.data.train_count[contact.clients])
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        assert update.gradient_steps == 8
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
        np.testing.assert_allclose(algorithm.models.numpy(), v, atol=1e-10)


@pytest.mark.parametrize("double", [True, False])
def test_without_pull_it_is_fedavg_and_local_training_bit_for_bit(problem, contacts, double):
    small = problem(double=double)
    ditto = small.build("ditto", strength=0.0)
    fedavg, local = small.build("fedavg"), small.build("local", reference=small.build("fedavg"))
    for contact in contacts(7, 30):
        update = ditto.update(contact)
        assert update.token_step_norm == fedavg.update(contact).token_step_norm
        assert update.train_loss == local.update(contact).train_loss
    assert torch.equal(ditto.token, fedavg.token)
    assert torch.equal(ditto.models, local.models)


def test_it_converges_to_the_fixed_point_of_its_objective(quadratic):
    """The token minimises Σ n_i f_i, personal models f_i(v) + (λ/2)|v − y|²."""
    algorithm = quadratic.build("ditto", local_steps=1, batch_size=16, step_size=0.3, strength=0.6)
    for _ in range(400):
        algorithm.update(Contact(np.arange(3), 3, 0.0))
    weighted = np.array([4, 8, 16])[:, None, None] * quadratic.curvature
    y = np.linalg.solve(weighted.sum(axis=0), np.einsum("nij,nj->i", weighted, quadratic.least))
    np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
    for v, a, b in zip(algorithm.models.numpy(), quadratic.curvature, quadratic.least, strict=True):
        np.testing.assert_allclose(v, np.linalg.solve(a + 0.6 * np.eye(3), a @ b + 0.6 * y), atol=1e-10)
        assert np.linalg.norm(v - b) > 0.01
