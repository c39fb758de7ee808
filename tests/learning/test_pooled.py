"""Pooled training: one model on the samples of all clients."""

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Contact


def test_a_run_is_plain_sgd_on_the_samples_of_all(problem, plain, contacts):
    small = problem()
    keys = {"local_steps": 3, "batch_size": 6, "step_size": 0.3}
    algorithm, replay = small.build("pooled", **keys), plain.Replay(small.build("pooled", **keys))
    data, x = small.data, small.start.numpy()
    pool = [r for c in range(7) for r in range(data.first[c], data.first[c] + data.train_count[c])]
    taken = np.zeros(7, dtype=int)
    for contact in contacts(7, 20):
        before, losses = x, []
        for client in contact.clients:
            drawn = small.draw(np.array([client]), taken[[client]], 18)[0]
            for batch in drawn.reshape(3, 6):
                rows = torch.tensor([pool[int(u * len(pool))] for u in batch])
                losses.append(replay.loss(x, rows))
                x = x - 0.3 * replay.gradient(x, rows)
            taken[client] += 1
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(np.linalg.norm(x - before))
        assert update.gradient_steps == 3
        np.testing.assert_allclose(algorithm.token.numpy(), x, atol=1e-10)
        np.testing.assert_allclose(algorithm.models.numpy(), np.tile(x, (7, 1)), atol=1e-10)
    assert algorithm.participations.tolist() == taken.tolist()


def test_its_batches_come_from_everybody_and_never_from_test_samples(problem):
    small = problem()
    algorithm = small.build("pooled", local_steps=200, batch_size=10, step_size=1e-9)
    seen = []
    algorithm._descend = lambda x, batches: (seen.append(batches), (x, 0.0))[1]
    algorithm.update(Contact(np.array([2]), 1, 0.0))
    data, rows = small.data, np.unique(seen[0].numpy())
    client = np.searchsorted(data.first, rows, side="right") - 1
    assert set(client.tolist()) == set(range(7))
    assert (rows < data.first[client] + data.train_count[client]).all()


def test_no_bytes_are_charged(problem):
    algorithm = problem().build("pooled")
    assert not algorithm.exchange(np.arange(3), 0.0).charged
    assert not algorithm.meeting(0.0).charged
