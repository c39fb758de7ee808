"""Limits of the algorithms on convex problems, against independent solutions."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from fedmule.learning.algorithms.base import Contact

ALL_CLIENTS = Contact(np.arange(3), 3, 0.0)


def in_a_tube(quadratic, eps):
    """Minimise Σ f_i(x_i) subject to |x_i − y| ≤ eps, as bounded least squares in x_i − y; return y and x."""
    n, d = quadratic.least.shape
    matrix, target = np.zeros((n * d, (n + 1) * d)), np.zeros(n * d)
    for i, (curvature, least) in enumerate(zip(quadratic.curvature, quadratic.least, strict=True)):
        root, rows = np.linalg.cholesky(curvature).T, slice(i * d, (i + 1) * d)
        matrix[rows, :d] = matrix[rows, (i + 1) * d : (i + 2) * d] = root
        target[rows] = root @ least
    bound = np.concatenate([np.full(d, np.inf), np.full(n * d, eps)])
    found = lsq_linear(matrix, target, (-bound, bound), method="bvls", tol=1e-14).x
    return found[:d], found[:d] + found[d:].reshape(n, d)


KEYS = {"batch_size": 16, "step_size": 0.3, "open_at": 2.0}


@pytest.mark.parametrize(
    "keys",
    [{}, {"growing_mean": False}, {"project_on_arrival": False}, {"local_steps": 1}, {"beta": 3.0, "kappa": 1.0}],
)
@pytest.mark.parametrize(("eps", "walls"), [(0.0, 9), (0.02, 9), (0.1, 7), (0.3, 3)])
def test_slack_converges_to_the_minimum_inside_the_tube(quadratic, eps, walls, keys):
    """Some clients are held by the tube's walls in some coordinates, others are free."""
    y, x = in_a_tube(quadratic, eps or 1e-12)
    assert (np.abs(np.abs(x - y) - eps) < 1e-9).sum() == walls
    algorithm = quadratic.build("slack", eps=eps, **{"local_steps": 2, "beta": 1.0, "kappa": 0.5, **KEYS, **keys})
    for _ in range(300):
        algorithm.update(ALL_CLIENTS)
    np.testing.assert_allclose(algorithm.models.numpy(), x, atol=1e-9)
    assert np.abs(algorithm.models.numpy() - algorithm.token.numpy()).max() < eps + 1e-9
    if walls > 6:  # else the token is free to move between the walls
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-9)


def test_derived_converges_to_it_where_every_wall_is_active(quadratic):
    """Its penalty pulls |x − y| to eps from inside too, so it does not find clients that are free inside the tube."""
    y, x = in_a_tube(quadratic, 0.02)
    algorithm = quadratic.build("derived", eps=0.02, beta=10.0, kappa=0.1, kappa_decay=1.0, **KEYS)
    for _ in range(500):
        algorithm.update(ALL_CLIENTS)
    np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-9)
    np.testing.assert_allclose(algorithm.models.numpy(), x, atol=1e-9)


def test_walkman_converges_to_consensus_on_the_minimum_of_the_sum(quadratic):
    least = np.einsum("nij,nj->i", quadratic.curvature, quadratic.least)
    y = np.linalg.solve(quadratic.curvature.sum(axis=0), least)
    algorithm = quadratic.build("walkman", beta=12.0, **KEYS)
    for _ in range(300):
        algorithm.update(ALL_CLIENTS)
    np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-9)
    np.testing.assert_allclose(algorithm.models.numpy(), np.tile(y, (3, 1)), atol=1e-9)


def test_fedavg_converges_to_where_the_weighted_steps_cancel(quadratic):
    """K steps from y end at b + (I − ηA)^K (y − b): with one step that is the minimum of Σ n_i f_i."""
    samples = np.array([4, 8, 16])
    for steps in (1, 4):
        algorithm = quadratic.build("fedavg", local_steps=steps, **KEYS)
        for _ in range(400):
            algorithm.update(ALL_CLIENTS)
        shrink = [np.linalg.matrix_power(np.eye(3) - 0.3 * a, steps) for a in quadratic.curvature]
        pull = samples[:, None, None] * (np.eye(3) - shrink)
        y = np.linalg.solve(pull.sum(axis=0), np.einsum("nij,nj->i", pull, quadratic.least))
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-9)
        if steps == 1:
            weighted = samples[:, None, None] * quadratic.curvature
            least = np.linalg.solve(weighted.sum(axis=0), np.einsum("nij,nj->i", weighted, quadratic.least))
            np.testing.assert_allclose(y, least, atol=1e-12)


def test_local_training_converges_to_each_clients_own_minimum(quadratic):
    algorithm = quadratic.build("local", local_steps=5, **KEYS)
    for _ in range(200):
        algorithm.update(ALL_CLIENTS)
    np.testing.assert_allclose(algorithm.models.numpy(), quadratic.least, atol=1e-9)
