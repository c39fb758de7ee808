"""APFL."""

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.apfl import alpha_step, apfl_step, mixture
from fedmule.learning.algorithms.base import Contact


def random_point(seed=4):
    generator = np.random.default_rng(seed)
    v, w, features = (torch.from_numpy(generator.normal(size=size)) for size in ((2, 18), (2, 18), (2, 9, 5)))
    labels = torch.from_numpy(generator.integers(0, 3, (2, 9)))
    return v, w, torch.tensor([[0.3], [0.8]], dtype=torch.float64), features, labels


def test_steps_follow_the_gradients_of_the_mixture(problem):
    """The gradients of f(αv + (1 − α)w) with respect to v and to α, by autograd."""
    v, w, alpha, features, labels = random_point()
    v_, alpha_ = v.clone().requires_grad_(), alpha.clone().requires_grad_()
    x = alpha_ * v_ + (1 - alpha_) * w
    scores = torch.einsum("sbf,scf->sbc", features, x[:, :15].view(2, 3, 5)) + x[:, 15:].unsqueeze(1)
    loss = sum(torch.nn.functional.cross_entropy(scores[i], labels[i]) for i in range(2))
    to_v, to_alpha = torch.autograd.grad(loss, (v_, alpha_))
    g, _ = problem().model.gradient(mixture(v, w, alpha), features, labels)
    torch.testing.assert_close(apfl_step(v, g, alpha, 0.2), v - 0.2 * to_v, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(alpha_step(alpha, v, w, g, 0.02), alpha - 0.02 * to_alpha, rtol=1e-10, atol=1e-12)


def test_alpha_stays_between_zero_and_one():
    v, w, alpha, *_ = random_point()
    for sign, limit in ((1, 0.0), (-1, 1.0)):
        assert (alpha_step(alpha, v, w, sign * (v - w), 100.0) == limit).all()


@pytest.mark.parametrize("adaptive", [False, True])
def test_runs_follow_the_equations(problem, plain, contacts, adaptive):
    small = problem()
    keys = {"local_steps": 4, "batch_size": 6, "step_size": 0.3, "alpha": 0.4, "adaptive": adaptive}
    algorithm, replay = small.build("apfl", **keys), plain.Replay(small.build("apfl", **keys))
    y = small.start.numpy()
    v, personal, alpha = np.tile(y, (7, 1)), np.tile(y, (7, 1)), np.full(7, 0.4)
    for contact in contacts(7, 25):
        losses, delivered = [], []
        for i, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            w = y
            for rows in batches[:4]:
                x = alpha[i] * v[i] + (1 - alpha[i]) * w
                g = replay.gradient(x, rows)
                losses.append(replay.loss(x, rows))
                slope = g @ (v[i] - w)
                v[i], w = v[i] - 0.3 * alpha[i] * g, w - 0.3 * replay.gradient(w, rows)
                if adaptive:
                    alpha[i] = min(max(alpha[i] - 0.3 * slope, 0.0), 1.0)
            personal[i] = alpha[i] * v[i] + (1 - alpha[i]) * w
            delivered.append(w)
        before, y = y, np.average(delivered, axis=0, weights=small.data.train_count[contact.clients])
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        assert update.gradient_steps == 8
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
        np.testing.assert_allclose(algorithm.models.numpy(), personal, atol=1e-10)
        np.testing.assert_allclose(algorithm.alpha.numpy()[:, 0], alpha, atol=1e-10)
    assert (np.ptp(alpha) > 0.05) == adaptive


def test_alpha_zero_is_fedavg(problem, contacts):
    small = problem()
    apfl, fedavg = small.build("apfl", alpha=0.0), small.build("fedavg")
    for contact in contacts(7, 30):
        apfl.update(contact)
        fedavg.update(contact)
    torch.testing.assert_close(apfl.token, fedavg.token, rtol=0, atol=1e-12)
    torch.testing.assert_close(apfl.models, fedavg.models, rtol=0, atol=1e-12)


def test_alpha_one_is_local_training(problem, contacts):
    small = problem()
    apfl, local = small.build("apfl", alpha=1.0), small.build("local", reference=small.build("fedavg"))
    for contact in contacts(7, 30):
        apfl.update(contact)
        local.update(contact)
    torch.testing.assert_close(apfl.models, local.models, rtol=0, atol=1e-12)


def test_it_converges_to_the_fixed_point_of_its_objective(quadratic):
    """The token minimises Σ n_i f_i. With w = y the mixture minimises f_i; w then takes its local step."""
    algorithm = quadratic.build("apfl", local_steps=1, batch_size=16, step_size=0.3, alpha=0.7)
    for _ in range(600):
        algorithm.update(Contact(np.arange(3), 3, 0.0))
    weighted = np.array([4, 8, 16])[:, None, None] * quadratic.curvature
    y = np.linalg.solve(weighted.sum(axis=0), np.einsum("nij,nj->i", weighted, quadratic.least))
    np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
    np.testing.assert_allclose(algorithm.own.numpy(), (quadratic.least - 0.3 * y) / 0.7, atol=1e-9)
    local = 0.3 * np.einsum("nij,nj->ni", quadratic.curvature, y - quadratic.least)
    np.testing.assert_allclose(algorithm.models.numpy(), quadratic.least - 0.3 * local, atol=1e-9)
