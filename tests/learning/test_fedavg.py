"""FedAvg carried by the vehicle."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from making import make
from torch.nn import functional

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.fedavg import weighted_mean
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(-10, 10), st.integers(1, 1000)), min_size=1, max_size=9))
def test_weighted_mean(parts):
    values, samples = zip(*parts, strict=True)
    x = torch.tensor(values, dtype=torch.float64).unsqueeze(1).repeat(1, 3)
    mean = weighted_mean(x, torch.tensor(samples, dtype=torch.float64))
    assert mean.shape == (3,)
    np.testing.assert_allclose(mean.numpy(), np.average(values, weights=samples), atol=1e-10)


def test_runs_follow_the_equations(problem, plain, contacts):
    small = problem()
    keys = {"local_steps": 4, "batch_size": 6, "step_size": 0.3}
    algorithm, replay = small.build("fedavg", **keys), plain.Replay(small.build("fedavg", **keys))
    held, y = dict.fromkeys(range(7), small.start.numpy()), small.start.numpy()
    assert len(set(small.data.train_count)) > 3
    for contact in contacts(7, 25):
        losses = []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            x = y
            for rows in batches:
                losses.append(replay.loss(x, rows))
                x = x - 0.3 * replay.gradient(x, rows)
            held[client] = x
        before = y
        samples = small.data.train_count[contact.clients]
        y = sum(n * held[i] for i, n in zip(contact.clients, samples, strict=True)) / samples.sum()
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(np.linalg.norm(y - before))
        assert update.gradient_steps == 4
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
        np.testing.assert_allclose(algorithm.models.numpy(), np.array([held[i] for i in range(7)]), atol=1e-10)


def test_one_full_step_of_all_clients_is_gradient_descent_on_all_samples():
    """Clients of 5, 10 and 20 samples, each drawn equally often: the mean model descends on their union."""
    generator = np.random.default_rng(1)
    counts = np.array([5, 10, 20])
    first = np.concatenate([[0], np.cumsum(counts + 2)])
    features = torch.from_numpy(generator.normal(size=(first[-1], 4)))
    labels = torch.from_numpy(generator.integers(0, 3, first[-1]))
    data = ClientData(features, labels, 3, first, counts)
    start = torch.from_numpy(generator.normal(size=15))

    def draw(clients, visits, k):
        return np.tile((np.arange(k) + 0.5) / k, (len(clients), 1))

    algorithm = make("fedavg", data, MLR(4, 3), start, draw, step_size=0.7, batch_size=20, local_steps=1)
    algorithm.update(Contact(np.arange(3), 3, 0.0))

    union = torch.cat([torch.arange(a, a + n) for a, n in zip(first[:-1], counts, strict=True)])
    x = start.clone().requires_grad_()
    loss = functional.cross_entropy(features[union] @ x[:12].view(3, 4).T + x[12:], labels[union])
    loss.backward()
    torch.testing.assert_close(algorithm.token, start - 0.7 * x.grad, rtol=1e-10, atol=1e-12)


def test_it_has_no_constraint_and_a_constant_cost(problem):
    algorithm = problem().build("fedavg")
    assert algorithm.constraint(0.5) is None
    for progress in (0.0, 0.9):
        exchange = algorithm.exchange(np.array([0, 3]), progress)
        assert exchange.bytes_down.tolist() == exchange.bytes_up.tolist() == [4 * 18] * 2
