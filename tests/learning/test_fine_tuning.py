"""FedAvg with fine-tuning: clients train alone in the last part of a run."""

import numpy as np
import pytest
import torch


def test_it_is_fedavg_until_the_opening_and_never_opens_without_the_key(problem, contacts):
    small = problem()
    tuned, plain_one, never = (
        small.build("fedavg", **keys) for keys in ({"fine_tune": True}, {}, {"fine_tune": True, "open_at": 1.0})
    )
    opened = False
    for contact in contacts(7, 40):
        assert plain_one.update(contact) == never.update(contact)
        tuned.update(contact)
        opened |= contact.progress >= 0.75
        assert torch.equal(tuned.token, plain_one.token) != opened
    assert torch.equal(plain_one.models, never.models)
    assert never.exchange(np.array([0]), 1.0).bytes_up.tolist() == [4 * 18]  # not even at the very end
    assert not torch.equal(plain_one.models, tuned.models)


def test_after_the_opening_the_token_is_sent_once_and_nothing_back(problem, contact):
    algorithm = problem().build("fedavg", open_at=0.5, fine_tune=True)
    who, size = np.array([1, 2, 4]), 4 * 18

    def bytes_at(progress):
        exchange = algorithm.exchange(who, progress)
        return exchange.bytes_down.tolist(), exchange.bytes_up.tolist()

    algorithm.update(contact(1, 2, 4, progress=0.49))
    assert bytes_at(0.49) == ([size] * 3, [size] * 3)
    for _ in range(2):
        assert bytes_at(0.5) == ([size] * 3, [0] * 3)  # asking for the cost releases nobody
    algorithm.update(contact(2, progress=0.5))
    assert bytes_at(0.6) == ([size, 0, size], [0] * 3)
    algorithm.update(contact(1, 2, 4, progress=0.6))
    assert bytes_at(0.7) == ([0] * 3, [0] * 3)
    np.testing.assert_array_equal(algorithm.exchange(who, 0.7).flops, algorithm.exchange(who, 0.1).flops)


def test_after_the_opening_clients_train_alone_from_the_token(problem, plain, contacts):
    small = problem()
    keys = {"open_at": 0.5, "local_steps": 4, "fine_tune": True}
    algorithm, twin = small.build("fedavg", **keys), small.build("fedavg", **keys)
    for contact in contacts(7, 10, seed=1, progress=0.4, most=2):
        algorithm.update(contact)
        twin._batches(contact.clients)
    token, replay, own = algorithm.token.clone(), plain.Replay(twin), {}
    for contact in contacts(7, 25, seed=2, progress=0.5):
        update = algorithm.update(contact)
        assert update.token_step_norm == 0
        assert update.gradient_steps == 4
        losses = []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            x = own.get(client, token.numpy())
            for rows in batches:
                losses.append(replay.loss(x, rows))
                x = x - 0.1 * replay.gradient(x, rows)
            own[client] = x
            np.testing.assert_allclose(algorithm.models[client].numpy(), x, atol=1e-10)
        assert update.train_loss == pytest.approx(np.mean(losses))
    assert len(own) == 7
    assert torch.equal(algorithm.token, token)
