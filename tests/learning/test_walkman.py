"""Walkman."""

import numpy as np
import pytest

from fedmule.learning.algorithms.base import Contact


@pytest.mark.parametrize("most", [1, 4])
def test_runs_follow_the_equations(problem, plain, contacts, most):
    small = problem()
    beta = 8.0
    keys = {"beta": beta, "batch_size": 6, "local_steps": 10}
    algorithm, replay = small.build("walkman", **keys), plain.Replay(small.build("walkman", **keys))
    start = small.start.numpy()
    x, lam, c = np.tile(start, (7, 1)), np.zeros((7, len(start))), np.tile(start, (7, 1))
    y = start
    for contact in contacts(7, 30, most=most):
        losses = []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            assert len(batches) == 1  # one step, whatever local_steps
            losses.append(replay.loss(x[client], batches[0]))
            g = replay.gradient(x[client], batches[0])
            x[client] = y - (lam[client] + g) / beta
            lam[client] = -g  # lam + β(x − y), simplified
            c[client] = x[client] - g / beta
        before, y = y, c.mean(axis=0)
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.gradient_steps == 1
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        for ours, theirs in ((algorithm.models, x), (algorithm.duals, lam), (algorithm.contributions, c)):
            np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-10)
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)


def test_consensus_is_the_minimiser_of_the_mean_loss(problem, plain):
    """With full batches and all clients at every visit, token and models converge to the minimum of Σ f_i."""
    small = problem(clients=3, samples=(40, 40))
    algorithm = small.build("walkman", beta=12.0, batch_size=30)
    algorithm._draw = lambda clients, counts, k: np.tile((np.arange(k) + 0.5) / k, (len(clients), 1))
    for _ in range(1500):
        algorithm.update(Contact(np.arange(3), 3, 0.0))
    y = algorithm.token.numpy()
    rows = [slice(a, a + 30) for a in small.data.first[:-1]]
    each = [plain.gradient(y, small.data.features[r].numpy(), small.data.labels[r].numpy(), 3) for r in rows]
    assert min(np.linalg.norm(g) for g in each) > 0.1  # not the minimiser of any client
    assert np.linalg.norm(np.mean(each, axis=0)) < 0.01
    np.testing.assert_allclose(algorithm.models.numpy(), np.tile(y, (3, 1)), atol=1e-2)
