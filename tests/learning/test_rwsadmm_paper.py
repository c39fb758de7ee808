"""RWSADMM as published: `derived` against grid search, `printed` against its equations written independently."""

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.published import derived_c, derived_x, derived_z


def tensors(*arrays):
    return tuple(torch.from_numpy(np.asarray(array, dtype=np.float64)) for array in arrays)


def sgn(t):
    return (t > 0).astype(float) - (t < 0)


# --- derived -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.0, 0.01, 0.5])
@pytest.mark.parametrize("beta", [0.7, 3.0])
@pytest.mark.parametrize("sign", [-1, 0, 1])
def test_derived_x_minimises_its_subproblem(eps, beta, sign):
    generator = np.random.default_rng(1)
    y, g = generator.normal(size=60), generator.normal(size=60)
    z = sign * generator.exponential(1.5, 60)
    x = derived_x(*tensors(y, z, g), beta, eps).numpy()

    def cost(x):
        excess = np.abs(y - x) - eps
        return g * x + z * excess + beta / 2 * excess**2

    grid = y + np.linspace(-25, 25, 50001)[:, None]
    costs = cost(grid)
    best = np.argmin(costs, axis=0)
    assert (cost(x) <= costs.min(axis=0) + 1e-12).all()
    np.testing.assert_allclose(x, grid[best, np.arange(60)], atol=1.1e-3)
    if sign > 0:
        assert (x == y).any()  # a large dual keeps some coordinates at the token
        assert (x != y).any()


def test_derived_x_stays_at_the_token_where_the_gradient_is_zero():
    y, z, g = tensors([0.3, -1.0], [0.0, -2.0], [0.0, 0.0])
    assert torch.equal(derived_x(y, z, g, 2.0, 0.5), y)


def test_derived_z():
    x, y, z = tensors([0.0, 0.0, 2.0, -2.0, 0.1], [0.0, 1.0, 0.0, 0.0, 0.0], [0.4, 0.4, 0.0, 1.0, 0.0])
    # |y − x| = 0, 1, 2, 2, 0.1; eps = 0.5; κβ = 2
    expected = [0.0, 0.4 + 2 * 0.5, 2 * 1.5, 1.0 + 2 * 1.5, 0.0]
    np.testing.assert_allclose(derived_z(x, y, z, 4.0, 0.5, 0.5).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("eps", [0.4, 1.0])
def test_derived_c_minimises_over_the_token_on_its_side(eps):
    """Where the minimiser lies on the side of x that the token came from: z/β < eps."""
    beta = 2.0
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=60), generator.normal(size=60)
    z = generator.uniform(-1.0, 0.99 * eps * beta, 60)
    c = derived_c(*tensors(x, y, z), beta, eps).numpy()

    def cost(token):
        excess = np.abs(token - x) - eps
        return z * excess + beta / 2 * excess**2

    grid = x + sgn(y - x) * np.linspace(0, 10, 20001)[:, None]
    costs = cost(grid)
    assert (cost(c) <= costs.min(axis=0) + 1e-12).all()
    np.testing.assert_allclose(c, grid[np.argmin(costs, axis=0), np.arange(60)], atol=1e-3)
    assert (cost(c) < cost(c + 1e-3)).all()
    assert (cost(c) < cost(c - 1e-3)).all()


def test_derived_c_at_the_token_is_the_model():
    x, z = tensors([1.0, -2.0], [0.3, 0.0])
    assert torch.equal(derived_c(x, x, z, 2.0, 0.5), x)


@pytest.mark.parametrize("eps", [5e-6, 0.05])
def test_derived_runs_follow_the_equations(problem, plain, contacts, eps):
    small = problem()
    keys = {"beta": 6.0, "kappa": 0.3, "eps": eps, "batch_size": 7}
    algorithm, replay = small.build("derived", **keys), plain.Replay(small.build("derived", **keys))
    start = small.start.numpy()
    x, z, c = np.tile(start, (7, 1)), np.zeros((7, len(start))), np.tile(start, (7, 1))
    y, kappa = start, 0.3
    for contact in contacts(7, 40):
        losses = []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            assert len(batches) == 1
            losses.append(replay.loss(x[client], batches[0]))
            g = replay.gradient(x[client], batches[0])
            distance = np.maximum(0, eps + (np.abs(g) - z[client]) / 6.0)
            x[client] = y - sgn(g) * distance
            z[client] = np.maximum(0, z[client] + kappa * 6.0 * (np.abs(y - x[client]) - eps))
            c[client] = x[client] - (z[client] / 6.0 - eps) * sgn(y - x[client])
        before, y = y, c.mean(axis=0)
        update = algorithm.update(contact)
        assert update.kappa == pytest.approx(kappa)
        assert update.gradient_steps == 1
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        for ours, theirs in ((algorithm.models, x), (algorithm.duals, z), (algorithm.contributions, c)):
            np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-9)
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-9)
        kappa *= 0.99


@pytest.mark.parametrize("kind", ["derived", "printed"])
def test_kappa_decays_per_visit(problem, contact, kind):
    usual, own = problem().build(kind, kappa=0.5), problem().build(kind, kappa=0.5, kappa_decay=0.5)
    visits = [contact(0, 1, 2), contact(3), contact(0)]
    assert [usual.update(visit).kappa for visit in visits] == pytest.approx([0.5, 0.495, 0.49005])
    assert [own.update(visit).kappa for visit in visits] == pytest.approx([0.5, 0.25, 0.125])


def test_derived_learns_what_clients_share(shared, contacts, plain):
    together = shared()
    algorithm = together.build("derived", beta=10.0, kappa=1e-3, eps=5e-6)

    def accuracy():
        return np.mean([plain.test_accuracy(algorithm.token.numpy(), together.data, i) for i in range(20)])

    before = accuracy()
    for contact in contacts(20, 400, most=6):
        algorithm.update(contact)
    assert accuracy() > max(0.75, before + 0.3)


# --- printed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 4])
def test_printed_runs_follow_the_printed_equations(problem, plain, contacts, most):
    small = problem()
    beta, eps = 10.0, 0.02
    keys = {"beta": beta, "kappa": 0.2, "eps": eps, "batch_size": 7}
    algorithm, replay = small.build("printed", **keys), plain.Replay(small.build("printed", **keys))
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=(7, len(small.start))), generator.normal(size=len(small.start))
    z, kappa = np.zeros_like(x), 0.2
    algorithm.models, algorithm.token = torch.from_numpy(x.copy()), torch.from_numpy(y.copy())
    for contact in contacts(7, 6, most=most):
        new, old = np.zeros_like(y), np.zeros_like(y)
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            g = replay.gradient(x[client], batches[0])
            t_old = y - x[client]
            old += x[client] - (z[client] / beta + eps) * sgn(t_old)
            x[client] = y + 1 / beta * sgn(t_old) * (z[client] - eps - g)
            z[client] = z[client] + kappa * beta * (x[client] - y - eps)
            new += x[client] - (z[client] / beta + eps) * sgn(y - x[client])
        before, y = y, y + new / (contact.neighbourhood * len(contact.clients)) - old
        update = algorithm.update(contact)
        assert update.kappa == pytest.approx(kappa)
        assert update.gradient_steps == 1
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        scale = np.abs(y).max()
        for ours, theirs in ((algorithm.models, x), (algorithm.duals, z), (algorithm.token, y)):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-9 * scale)
        kappa *= 0.99


def test_printed_by_hand(problem):
    """One coordinate pattern, one client, n_i = 4: every term computed by hand."""
    small = problem()
    algorithm = small.build("printed", beta=2.0, kappa=0.5, eps=0.1)
    d = len(small.start)
    algorithm.token = torch.full((d,), 1.0, dtype=torch.float64)
    algorithm.models = torch.zeros(7, d, dtype=torch.float64)
    algorithm.duals = torch.full((7, d), 0.6, dtype=torch.float64)
    algorithm._gradient = lambda x, rows: (torch.full_like(x, 0.3), torch.zeros(len(x), dtype=x.dtype))
    algorithm.update(Contact(np.array([3]), 4, 0.0))
    # t' = 1: x = 1 + ½(0.6 − 0.1 − 0.3) = 1.1;  z = 0.6 + 1·(1.1 − 1 − 0.1) = 0.6;  t = −0.1
    # new bracket: 1.1 + (0.3 + 0.1) = 1.5;  old bracket: 0 − (0.3 + 0.1) = −0.4;  y = 1 + 1.5/4 + 0.4 = 1.775
    np.testing.assert_allclose(algorithm.models[3].numpy(), 1.1)
    np.testing.assert_allclose(algorithm.duals[3].numpy(), 0.6)
    np.testing.assert_allclose(algorithm.token.numpy(), 1.775)


def test_printed_never_moves_from_its_start(problem, contacts):
    algorithm = problem().build("printed", beta=10.0, kappa=1e-3, eps=5e-6)
    assert not algorithm.token.any()
    for contact in contacts(7, 50):
        assert algorithm.update(contact).token_step_norm == 0
    assert not algorithm.token.any()
    assert not algorithm.models.any()


@pytest.mark.parametrize("most", [1, 6])
def test_printed_does_not_learn_from_another_start(shared, contacts, plain, most):
    """Unlike `derived`: models diverge, or are no better than chance."""
    together = shared()
    algorithm = together.build("printed", beta=10.0, kappa=1e-3, eps=5e-6)
    algorithm.token = together.start.clone()
    algorithm.models = together.start.repeat(20, 1)
    algorithm.models += 0.01 * torch.from_numpy(np.random.default_rng(0).normal(size=algorithm.models.shape)).float()
    for contact in contacts(20, 400, most=most):
        algorithm.update(contact)
    blown_up = float(algorithm.token.abs().max()) > 1e6 or bool(torch.isnan(algorithm.token).any())
    token = torch.nan_to_num(algorithm.token).double().numpy()
    accuracy = np.mean([plain.test_accuracy(token, together.data, i) for i in range(20)])
    assert blown_up or accuracy < 0.45
