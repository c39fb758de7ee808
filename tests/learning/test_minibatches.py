"""A client's batches: its own training samples, determined by its participation count alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from making import common_settings

from fedmule.learning.algorithms.base import Algorithm, Task
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR
from fedmule.simulator.streams import Streams

KINDS = ["slack", "relay", "derived", "printed", "fedavg", "walkman", "local", "ditto", "apfl", "pfedme", "per_fedavg"]


def ids(*clients):
    return np.array(clients, dtype=np.int64)


def blank(train, test, draw, batch=8, steps=3):
    """An algorithm over clients of these sizes; samples are all zero."""
    sizes = np.array(train) + np.array(test)
    first = np.concatenate([[0], np.cumsum(sizes)])
    data = ClientData(torch.zeros(first[-1], 2), torch.zeros(first[-1]).long(), 2, first, np.array(train))
    model = MLR(2, 2)
    return Algorithm(Task(data, model, common_settings(batch_size=batch, local_steps=steps), torch.zeros(6), draw))


def by_client(algorithm, contacts):
    """The batches of each client, in the order of its participations."""
    found = {}
    for clients in contacts:
        rows = algorithm._batches(ids(*clients))
        for position, client in enumerate(clients):
            found.setdefault(client, []).append(rows[:, position])
    return found


def test_shape():
    algorithm = blank([5, 9, 30], [2, 3, 4], Streams(1).draw("batches"))
    assert algorithm._batches(ids(0, 2)).shape == (3, 2, 8)


def test_drawing_more_batches_does_not_change_the_first():
    sizes = [5, 9, 30], [2, 3, 4]
    few, many = (blank(*sizes, Streams(1).draw("batches")) for _ in range(2))
    for _ in range(2):
        assert torch.equal(many._batches(ids(0, 2), 7)[:3], few._batches(ids(0, 2)))
    np.testing.assert_array_equal(many.participations, few.participations)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=12), st.randoms())
def test_batches_depend_only_on_the_clients_own_count(contacts, random):
    """Contacts one by one, in shuffled order, give each client the same batches as joint contacts."""
    sizes = [1, 3, 8, 20, 50, 7], [1, 1, 2, 5, 10, 3]
    together = by_client(blank(*sizes, Streams(4).draw("batches")), [sorted(who) for who in contacts])
    alone = [(client,) for who in contacts for client in who]
    random.shuffle(alone)
    apart = by_client(blank(*sizes, Streams(4).draw("batches")), alone)
    assert together.keys() == apart.keys()
    for client, batches in together.items():
        assert len(batches) == len(apart[client])
        assert all(torch.equal(a, b) for a, b in zip(batches, apart[client], strict=True))


def test_batches_differ_between_seeds_counts_steps_and_clients():
    def offsets(seed):
        algorithm = blank([1000, 1000], [1, 1], Streams(seed).draw("batches"), batch=20, steps=2)
        first = algorithm._batches(ids(0, 1)) - torch.tensor([0, 1001])[None, :, None]
        second = algorithm._batches(ids(0, 1)) - torch.tensor([0, 1001])[None, :, None]
        return torch.cat([first, second]).reshape(8, 20)

    rows = torch.cat([offsets(1), offsets(2)])
    assert len({tuple(row.tolist()) for row in rows}) == 16


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=8), st.integers(0, 2**32))
def test_batches_hold_only_the_clients_training_rows(sizes, seed):
    train, test = zip(*sizes, strict=True)
    algorithm = blank(train, test, Streams(seed).draw("batches"))
    everyone = np.arange(len(train))
    for _ in range(3):
        rows = algorithm._batches(everyone)
        for client in everyone:
            first = int(algorithm.data.first[client])
            assert first <= int(rows[:, client].min())
            assert int(rows[:, client].max()) < first + train[client]


@pytest.mark.parametrize("u", [0.0, np.nextafter(1.0, 0.0)])
def test_extreme_random_numbers_stay_inside_the_training_rows(u):
    def draw(clients, counts, k):
        return np.full((len(clients), k), u)

    train = list(range(1, 300)) + [2**k + j for k in range(9, 24) for j in (-1, 0, 1)]
    data = ClientData(torch.zeros(1, 2), torch.zeros(1).long(), 2, np.cumsum([0, *train]), np.array(train))
    algorithm = Algorithm(Task(data, MLR(2, 2), common_settings(batch_size=1, local_steps=1), torch.zeros(6), draw))
    offset = algorithm._batches(np.arange(len(train)))[0, :, 0].numpy() - data.first[:-1]
    np.testing.assert_array_equal(offset, 0 if u == 0 else np.array(train) - 1)


def test_every_training_row_is_drawn_about_equally_often():
    algorithm = blank([10, 7], [3, 3], Streams(1).draw("batches"), batch=20, steps=20)
    rows = torch.cat([algorithm._batches(ids(0)).flatten() for _ in range(25)])
    counts = np.bincount(rows.numpy(), minlength=10)
    assert len(counts) == 10
    assert np.abs(counts / len(rows) - 0.1).max() < 0.02


def test_participations_are_counted():
    algorithm = blank([5, 5, 5], [1, 1, 1], Streams(1).draw("batches"))
    for clients in [(0,), (0, 2), (2,), (0, 2)]:
        algorithm._batches(ids(*clients))
    np.testing.assert_array_equal(algorithm.participations, [3, 0, 3])


@pytest.mark.parametrize("kind", KINDS)
def test_clients_with_fewer_samples_than_a_batch_learn(problem, contact, kind):
    tiny = problem(clients=4, samples=(3, 3))
    tiny = replace(tiny, data=replace(tiny.data, train_count=np.ones(4, dtype=np.int64)))  # one to learn from
    algorithm = tiny.build(kind, batch_size=20, local_steps=2)
    for _ in range(3):
        update = algorithm.update(contact(0, 1, 3))
        assert np.isfinite(update.train_loss)
    assert torch.isfinite(algorithm.models).all()


@pytest.mark.parametrize("kind", KINDS)
def test_updates_use_only_training_rows_of_delivered_clients(problem, contact, kind):
    """Setting every other row to nan changes nothing."""
    one, other = problem(), problem()
    keep = torch.zeros(len(one.data.labels), dtype=torch.bool)
    for client in (1, 4):
        keep[one.data.first[client] : one.data.first[client] + one.data.train_count[client]] = True
    other.data.features[~keep] = torch.nan
    left, right = one.build(kind, local_steps=3), other.build(kind, local_steps=3)
    for _ in range(4):
        assert left.update(contact(1, 4)) == right.update(contact(1, 4))
    assert torch.equal(left.models, right.models)
    assert torch.equal(left.token, right.token)


@pytest.mark.parametrize("kind", ["slack", "local"])
def test_algorithms_of_one_seed_draw_the_same_batches(problem, kind):
    small = problem()
    one, fedavg = small.build(kind), small.build("fedavg")
    for clients in [(0, 3), (3,), (0, 1, 3)]:
        assert torch.equal(one._batches(ids(*clients)), fedavg._batches(ids(*clients)))
