"""Local training beside a reference."""

import numpy as np
import pytest
import torch

KINDS = ["slack", "relay", "derived", "printed", "fedavg", "walkman", "ditto", "apfl", "pfedme", "per_fedavg"]


@pytest.mark.parametrize("kind", KINDS)
def test_sgd_steps_use_the_batches_of_the_reference(problem, plain, contacts, kind):
    small = problem()
    keys = {"local_steps": 3, "batch_size": 5, "step_size": 0.2}
    local = small.build("local", reference=small.build(kind, **keys), **keys)
    reference = small.build(kind, **keys)
    replay = plain.Replay(small.build(kind, **keys))
    x = np.tile(small.start.numpy(), (7, 1))
    for contact in contacts(7, 20):
        losses = []
        for client, batches in zip(contact.clients, replay.batches(contact.clients), strict=True):
            for rows in batches:
                losses.append(replay.loss(x[client], rows))
                x[client] = x[client] - 0.2 * replay.gradient(x[client], rows)
        update, theirs = local.update(contact), reference.update(contact)
        assert update.gradient_steps == theirs.gradient_steps == len(losses) / len(contact.clients)
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == 0
        np.testing.assert_allclose(local.models.numpy(), x, atol=1e-10)
        assert torch.equal(local.token, small.start)
    np.testing.assert_array_equal(local.participations, reference.participations)


@pytest.mark.parametrize("kind", KINDS)
def test_exchanges_cost_the_same_as_the_reference_but_are_not_charged(problem, contacts, kind):
    small = problem()
    keys = {"local_steps": 2, "open_at": 0.5}
    local, reference = small.build("local", reference=small.build(kind, **keys), **keys), small.build(kind, **keys)
    down = set()
    for contact in contacts(7, 60):
        ours, theirs = (one.exchange(contact.clients, contact.progress) for one in (local, reference))
        assert theirs.charged
        assert not ours.charged
        assert ours.broadcast == theirs.broadcast
        np.testing.assert_array_equal(ours.bytes_down, theirs.bytes_down)
        np.testing.assert_array_equal(ours.bytes_up, theirs.bytes_up)
        np.testing.assert_array_equal(ours.flops, theirs.flops)
        down |= set(ours.bytes_down.tolist())
        local.update(contact)
        reference.update(contact)
    assert down == ({0, 72} if kind in ("slack", "relay") else {72})


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_runs_as_it_would_alone(problem, contacts, kind):
    small = problem()
    reference, alone = (small.build(kind, local_steps=3) for _ in range(2))
    local = small.build("local", reference=reference)
    for contact in contacts(7, 30):
        local.update(contact)
        alone.update(contact)
    assert torch.equal(local.reference.token, alone.token)
    assert torch.equal(local.reference.models, alone.models)


def test_a_client_learns_nothing_from_others(problem, contact):
    small = problem()
    together, alone = small.build("local"), small.build("local")
    for _ in range(5):
        together.update(contact(0, 2, 5))
        alone.update(contact(2))
    torch.testing.assert_close(together.models[2], alone.models[2], rtol=1e-12, atol=1e-12)
    assert together.constraint(0.5) is None
