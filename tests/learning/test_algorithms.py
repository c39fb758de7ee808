"""What all algorithms have in common."""

import numpy as np
import pytest
import torch

KINDS = ["slack", "derived", "printed", "fedavg", "walkman", "local"]
PER_CLIENT = ("models", "duals", "contributions", "participations", "last_step_sq", "seen", "released")


def prepared(small, kind, contacts):
    """An algorithm in the middle of a run; `printed` moves only from a start that is not its own."""
    algorithm = small.build(kind, local_steps=2, open_at=0.5, eps=0.01, beta=5.0, kappa=0.1)
    if kind == "printed":
        algorithm.token = small.start.clone()
        algorithm.models = torch.from_numpy(np.random.default_rng(0).normal(size=algorithm.models.shape))
    for contact in contacts(7, 4, seed=3, progress=0.1):
        algorithm.update(contact)
    return algorithm


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("progress", [0.2, 0.9])
def test_an_update_touches_the_delivered_only(problem, contacts, contact, state, kind, progress):
    algorithm = prepared(problem(), kind, contacts)
    before = state(algorithm)
    algorithm.update(contact(1, 4, progress=progress))
    after = state(algorithm)
    others = [0, 2, 3, 5, 6]
    for name, was in before.items():
        if name.split(".")[-1] in PER_CLIENT:
            np.testing.assert_array_equal(after[name][others], was[others])
    assert (after["models"][[1, 4]] != before["models"][[1, 4]]).any(axis=1).all()
    assert (after["participations"] - before["participations"]).tolist() == [0, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("progress", [0.2, 0.9])
def test_asking_what_an_exchange_weighs_changes_nothing(problem, contacts, contact, state, kind, progress):
    algorithm = prepared(problem(), kind, contacts)
    algorithm.update(contact(1, progress=progress))
    before = state(algorithm)
    exchanges = [algorithm.exchange(np.array([0, 1, 6]), progress) for _ in range(2)]
    after = state(algorithm)
    assert before.keys() == after.keys()
    for name, was in before.items():
        np.testing.assert_array_equal(after[name], was)
    np.testing.assert_array_equal(exchanges[0].bytes_down, exchanges[1].bytes_down)


@pytest.mark.parametrize("kind", KINDS)
def test_diagnostics_change_nothing(problem, contacts, state, kind):
    algorithm = prepared(problem(), kind, contacts)
    before = state(algorithm)
    assert algorithm.constraint(0.2) == algorithm.constraint(0.2)
    after = state(algorithm)
    for name, was in before.items():
        np.testing.assert_array_equal(after[name], was)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bits(problem, contacts, state, kind):
    one, again = (problem(double=False).build(kind, local_steps=3) for _ in range(2))
    for contact in contacts(7, 30):
        assert one.update(contact) == again.update(contact)
    other = state(again)
    for name, value in state(one).items():
        np.testing.assert_array_equal(value, other[name])


@pytest.mark.parametrize("kind", KINDS)
def test_algorithms_do_not_share_state(problem, contact, kind):
    small = problem()
    start = small.start.clone()
    one, other = small.build(kind), small.build(kind)
    one.update(contact(0, 3))
    other.token.add_(1.0)
    assert torch.equal(small.start, start)
    assert torch.equal(other.models, torch.zeros_like(other.models) if kind == "printed" else start.repeat(7, 1))
    assert not other.participations.any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_length_of_a_clients_last_step(problem, contacts, kind):
    algorithm = prepared(problem(), kind, contacts)
    expected = algorithm.last_step_sq.copy()
    for contact in contacts(7, 20, seed=5):
        before = algorithm.models.numpy().copy()
        algorithm.update(contact)
        for client in contact.clients:
            expected[client] = ((algorithm.models.numpy()[client] - before[client]) ** 2).sum()
    np.testing.assert_allclose(algorithm.last_step_sq, expected, rtol=1e-12)
    assert (expected > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_weight_of_an_exchange(problem, kind):
    small = problem(features=5)
    algorithm = small.build(kind, local_steps=4, batch_size=10)
    exchange = algorithm.exchange(np.array([0, 2, 5]), 0.0)
    assert exchange.bytes_down.tolist() == exchange.bytes_up.tolist() == [4 * 6 * 3] * 3  # float32
    steps = 4 if kind in ("slack", "fedavg", "local") else 1
    assert algorithm.steps == steps
    one_step = small.model.flops(10)
    assert exchange.flops.shape == (3,)
    assert (exchange.flops >= steps * one_step).all()
    assert (exchange.flops <= steps * (one_step + 20 * small.model.parameters)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_everyone_begins_with_the_same_model(problem, kind):
    algorithm = problem().build(kind)
    assert torch.equal(algorithm.models, algorithm.token.repeat(7, 1))
