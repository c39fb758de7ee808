"""RWSADMM, variant slack: the opening of the tube for the last part of a run."""

import math

import numpy as np
import pytest
import torch


def test_the_tube_opens_at_open_at(problem):
    algorithm = problem().build("slack", eps=0.1, open_at=0.6)
    assert [algorithm.eps(at) for at in (0.0, 0.3, 0.5999)] == [0.1, 0.1, 0.1]
    assert [algorithm.eps(at) for at in (0.6, 0.8, 1.0)] == [math.inf] * 3


@pytest.mark.parametrize("open_at", [1.0, 1.5])
def test_with_open_at_one_or_more_it_never_opens(problem, contact, open_at):
    """Not even at the very end of a run, when the last diagnostics are taken."""
    algorithm = problem().build("slack", eps=0.1, open_at=open_at)
    algorithm.update(contact(0, 1))
    assert algorithm.eps(1.0) == 0.1
    assert algorithm.constraint(1.0) == algorithm.constraint(0.99)


def test_bytes_before_and_after_the_opening(problem, contact):
    algorithm = problem().build("slack", open_at=0.5)
    size = 4 * algorithm.model.parameters
    who = np.array([1, 2, 4])

    def bytes_at(progress):
        exchange = algorithm.exchange(who, progress)
        return exchange.bytes_down.tolist(), exchange.bytes_up.tolist()

    for _ in range(2):
        assert bytes_at(0.49) == ([size] * 3, [size] * 3)
        algorithm.update(contact(1, 2, 4, progress=0.49))
    assert bytes_at(0.5) == ([size] * 3, [0] * 3)
    assert bytes_at(0.5) == ([size] * 3, [0] * 3)  # a lost exchange changes nothing
    algorithm.update(contact(2, progress=0.5))
    assert bytes_at(0.6) == ([size, 0, size], [0] * 3)
    algorithm.update(contact(1, 2, 4, progress=0.6))
    assert bytes_at(0.7) == ([0] * 3, [0] * 3)
    exchange = algorithm.exchange(who, 0.7)
    np.testing.assert_array_equal(exchange.flops, algorithm.exchange(who, 0.1).flops)


def test_after_the_opening_clients_train_alone_from_the_token(problem, plain, contacts):
    small = problem()
    keys = {"open_at": 0.5, "local_steps": 4}
    algorithm, twin = small.build("slack", **keys), small.build("slack", **keys)
    for contact in contacts(7, 10, seed=1, progress=0.4, most=2):
        algorithm.update(contact)
        twin._batches(contact.clients)
    assert not algorithm.seen.all()  # some are met for the first time when the tube is open
    token, contributions, duals = algorithm.token.clone(), algorithm.contributions.clone(), algorithm.duals.clone()
    replay, own = plain.Replay(twin), {}
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
    assert torch.equal(algorithm.contributions, contributions)
    assert torch.equal(algorithm.duals, duals)


@pytest.mark.parametrize("keys", [{"eps": math.inf}, {"open_at": 0.0}, {"eps": math.inf, "open_at": 2.0}])
@pytest.mark.parametrize("double", [True, False])
def test_a_tube_open_from_the_start_is_local_training_bit_for_bit(problem, contacts, keys, double):
    small = problem(double=double)
    slack = small.build("slack", local_steps=4, **keys)
    local = small.build("local", reference=small.build("fedavg", local_steps=4))
    for contact in contacts(7, 20):
        a, b = slack.update(contact), local.update(contact)
        assert a.train_loss == b.train_loss
        assert torch.equal(slack.models, local.models)
    assert torch.equal(slack.token, small.start)
