"""A payload: exchanges cost what the network one has in mind costs, while a small model is trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from making import HIDDEN, TABLES

from fedmule.learning.algorithms.base import Payload
from fedmule.learning.tokens import AddedUp

KINDS = [kind for kind in TABLES if kind not in ("squad_oracle", *HIDDEN)]  # it needs sites, they hidden layers
WHO = np.array([1, 2, 4])


@pytest.fixture
def heavy(problem):
    """heavy(kind, payload, …): an algorithm whose models cost what a payload says."""
    return lambda kind, payload, **keys: problem().build(kind, payload=payload, **keys)


@pytest.mark.parametrize("kind", [*KINDS, "local"])
def test_bytes_and_flops_of_an_exchange_follow_the_payload(problem, heavy, kind):
    own = problem().build(kind, batch_size=8)
    other = heavy(kind, Payload(14_000_000, 0.9e9), batch_size=8)
    assert own.model_bytes == own.trained_bytes == other.trained_bytes == 4 * 18
    before, after = own.exchange(WHO, 0.0), other.exchange(WHO, 0.0)
    clusters = 8 if kind == "ifca" else 1  # models
    assert (before.bytes_down == clusters * 72).all()
    assert (after.bytes_down == clusters * 14_000_000).all()
    index = 4 if kind == "ifca" else 0  # of the model that a client has chosen: not a model, so as small as ever
    assert (before.bytes_up == 72 + index).all()
    assert (after.bytes_up == 14_000_000 + index).all()
    trials = 8 * 0.3e9 * own.data.train_count[WHO] if kind == "ifca" else 0
    np.testing.assert_allclose(after.flops, own.steps * 8 * 0.9e9 + trials, rtol=1e-12)
    round_too = 14_000_000 + 4 * 7 if kind == "fedex_sync" else 0  # its results, and how many of each client
    assert other.meeting(0.0).bytes_down.tolist() == [clusters * 14_000_000 + round_too]


@pytest.mark.parametrize("kind", KINDS)
def test_each_part_of_a_payload_stands_alone(problem, heavy, kind):
    own, size, work = (build.exchange(WHO, 0.0) for build in (
        problem().build(kind), heavy(kind, Payload(bytes=500)), heavy(kind, Payload(flops_per_sample=7.0)),
    ))  # fmt: skip
    np.testing.assert_array_equal(size.flops, own.flops)
    np.testing.assert_array_equal(work.bytes_down, own.bytes_down)
    np.testing.assert_array_equal(work.bytes_up, own.bytes_up)
    assert (size.bytes_down > own.bytes_down).all()
    assert (work.flops != own.flops).all()


def test_trials_of_mixtures_cost_two_payloads_and_small_error_rates(heavy, contact):
    algorithm = heavy("neighbourhood", Payload(1_000_000, 300.0), batch_size=10, local_steps=2)
    algorithm.update(contact(1))
    exchange = algorithm.exchange(np.array([1, 3]), 0.1)
    assert exchange.bytes_down.tolist() == [2_000_000, 1_000_000]
    assert exchange.bytes_up.tolist() == [1_000_000 + 3 * 4, 1_000_000]
    held_out = int(np.ceil(0.15 * algorithm.data.train_count[1]))
    assert exchange.flops.tolist() == [2 * 10 * 300.0 + 3 * held_out * 100.0, 2 * 10 * 300.0]


def test_vehicles_that_meet_send_payloads_and_a_few_bytes_about_them(heavy, contact):
    algorithm = heavy("slack", Payload(1_000_000))
    carried = AddedUp(algorithm, 2)
    carried.update(0, contact(1))
    cost = carried.meeting(0, 1, 0.1)
    about = 2 * 4 + 1  # counts of contacts of two vehicles, and a bit for each of seven clients
    assert (cost.bytes_down.tolist(), cost.bytes_up.tolist()) == ([1_000_000 + about], [about])


def test_after_the_opening_a_payload_goes_down_once(heavy, contact):
    algorithm = heavy("slack", Payload(1_000_000), open_at=0.5)
    algorithm.update(contact(2, progress=0.5))
    exchange = algorithm.exchange(WHO, 0.6)
    assert (exchange.bytes_down.tolist(), exchange.bytes_up.tolist()) == ([1_000_000, 0, 1_000_000], [0, 0, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_payload_does_not_touch_training(problem, heavy, contacts, kind):
    own, other = problem().build(kind), heavy(kind, Payload(10**9, 1e12))
    for contact in contacts(7, 12, seed=3):
        assert own.update(contact) == other.update(contact)
    assert torch.equal(own.models, other.models)
    assert torch.equal(own.token, other.token)
