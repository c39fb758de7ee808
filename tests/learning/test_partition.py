"""Partitions: each sample belongs to at most one client, and to one of its parts."""

import random
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmule.learning.data.partition import as_published, by_column, by_dirichlet, by_labels, evenly, split
from fedmule.learning.data.samples import Samples
from fedmule.learning.errors import DataError


def pool(count=2000, classes=10, seed=0, owners=None):
    generator = np.random.default_rng(seed)
    features = np.arange(count, dtype=np.float32)[:, None]  # the only feature of a sample is its index
    labels = generator.integers(0, classes, count)
    return Samples(features, labels, classes, None if owners is None else generator.integers(0, owners, count))


KINDS = {
    "labels": partial(by_labels, labels=2),
    "published": partial(as_published, labels=2),
    "dirichlet": partial(by_dirichlet, alpha=0.3),
    "iid": evenly,
    "column": by_column,
}


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    clients=st.integers(1, 25),
    seed=st.integers(0, 1000),
    test=st.floats(0.05, 0.6),
    validation=st.sampled_from([0.0, 0.1, 0.3]),
    most=st.sampled_from([None, 1, 7, 10_000]),
)
def test_a_sample_belongs_to_one_client_and_one_part(kind, clients, seed, test, validation, most):
    samples = pool(seed=seed, owners=clients)
    rows = KINDS[kind](samples, clients, np.random.default_rng(seed))
    everyone = np.concatenate(rows)
    assert len(rows) == clients
    assert len(set(everyone.tolist())) == len(everyone)
    data = split(samples, rows, np.random.default_rng(seed), test, validation, most)
    numbers = data.features[:, 0].numpy().astype(int)
    assert len(set(numbers.tolist())) == len(numbers)
    assert (data.labels.numpy() == samples.labels[numbers]).all()
    for client, mine in enumerate(rows):
        inside = numbers[data.first[client] : data.first[client + 1]]
        assert set(inside.tolist()) <= set(mine.tolist())
    assert (data.train_count >= 1).all()
    assert (data.test_count >= 1).all()
    assert (data.validation_count >= (validation > 0)).all()
    assert (data.train_count + data.validation_count + data.test_count == np.diff(data.first)).all()
    if most is not None:
        assert data.train_count.max() <= most
    sizes = np.array([len(mine) for mine in rows])
    assert np.abs(data.test_count - test * sizes).max() <= 1
    if most is None:
        assert len(numbers) == len(everyone)


@given(st.integers(3, 9), st.floats(0.01, 0.98), st.floats(0.0, 0.98), st.sampled_from([None, 1, 4]))
def test_every_part_gets_a_sample_even_if_there_are_few(size, test, validation, most):
    validation = min(validation, 0.99 - test)
    data = split(pool(size), [np.arange(size)], np.random.default_rng(0), test, validation, most)
    checks = int(data.validation_count[0])
    assert data.train_count[0] >= 1
    assert data.test_count[0] >= 1
    assert (checks >= 1) == (validation > 0)
    assert sorted(data.features[:, 0].tolist()) == sorted(set(data.features[:, 0].tolist()))
    if most is None:
        assert len(data.labels) == size
    if size * min(test, 1 - test) > 3:
        assert abs(data.test_count[0] - test * size) <= 1


@given(
    sizes=st.lists(st.integers(3, 60), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    test=st.floats(0.05, 0.6),
    validation=st.sampled_from([0.0, 0.1, 0.3]),
    most=st.sampled_from([1, 2, 5, 20, 100]),
)
def test_fewer_training_samples_leave_test_and_validation_samples_as_they_are(sizes, seed, test, validation, most):
    """So that runs with different max_train_samples are scored on the same samples."""
    samples, rows = pool(sum(sizes)), np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    every, some = (split(samples, rows, np.random.default_rng(seed), test, validation, limit) for limit in (None, most))
    for client in range(len(sizes)):
        numbers = [data.features[data.first[client] : data.first[client + 1], 0].tolist() for data in (every, some)]
        trains = [int(data.train_count[client]) for data in (every, some)]
        assert trains[1] == min(trains[0], most)
        assert numbers[1][trains[1] :] == numbers[0][trains[0] :]
        assert numbers[1][: trains[1]] == numbers[0][: trains[1]]  # the first of those there are without a limit
    assert some.validation_count.tolist() == every.validation_count.tolist()
    assert some.test_count.tolist() == every.test_count.tolist()


def test_labels_gives_each_client_its_number_of_labels_in_unequal_sizes():
    samples = pool(20_000)
    for labels in (1, 2, 5, 10):
        rows = by_labels(samples, 20, np.random.default_rng(0), labels)
        assert [len(set(samples.labels[mine])) for mine in rows] == [labels] * 20
        holders = np.bincount(np.concatenate([np.unique(samples.labels[mine]) for mine in rows]), minlength=10)
        assert (holders == 2 * labels).all()  # every label has the same number of holders
    sizes = [len(mine) for mine in rows]
    assert max(sizes) > 1.5 * min(sizes)


def test_dirichlet_skew_follows_alpha():
    samples = pool(20_000)

    def skew(alpha):
        rows = by_dirichlet(samples, 10, np.random.default_rng(1), alpha)
        shares = [np.bincount(samples.labels[mine], minlength=10) / len(mine) for mine in rows]
        return np.mean([share.max() for share in shares])

    assert skew(0.1) > skew(1.0) > skew(100.0)
    assert skew(1000.0) == pytest.approx(0.1, abs=0.02)


def test_iid_is_even_and_mixed():
    samples = pool(10_000)
    rows = evenly(samples, 7, np.random.default_rng(0))
    assert max(map(len, rows)) - min(map(len, rows)) <= 1
    assert all(np.bincount(samples.labels[mine], minlength=10).min() > 90 for mine in rows)


def test_column_follows_the_owners_in_the_data():
    samples = pool(500, owners=6)
    for client, mine in enumerate(by_column(samples, 6, np.random.default_rng(0))):
        assert (samples.owner[mine] == client).all()
        assert len(mine) == (samples.owner == client).sum()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: by_labels(pool(100), 90, g, 2), "100 samples are not enough for 90 clients: each needs at least 3"),
        (lambda g: by_labels(pool(100), 5, g, 11), "only 10 labels"),
        (lambda g: by_dirichlet(pool(100), 60, g, 0.05), "100 samples are not enough for 60 clients"),
        (lambda g: evenly(pool(100), 90, g), "client 0 of 90 would get 2 samples"),
        (lambda g: by_column(pool(100), 5, g), "do not say which client"),
        (lambda g: by_column(pool(100, owners=4), 5, g), "belong to 4 clients"),
    ],
)
def test_impossible_partitions_are_reported(make, message):
    with pytest.raises(DataError, match=message):
        make(np.random.default_rng(0))


def published_sizes():
    """Sizes [20,2] that the published generator of CIFAR-10 gives, step by step as it goes."""
    weights = np.random.RandomState(1).lognormal(0, 2, (10, 20, 2))
    uniform = random.Random(1)
    sizes, used = np.zeros((20, 2), dtype=int), dict.fromkeys(range(10), 0)
    for client, j in np.ndindex(20, 2):
        sizes[client, j] = 10
        used[(client + j) % 10] += 10
    for client, j in np.ndindex(20, 2):
        label = (client + j) % 10
        share = int((6000 - 20) * weights[label, client // 2, j] / weights[label].sum())
        more = (share + uniform.randint(300, 600)) * 2
        if used[label] + more < 6000:
            sizes[client, j] += more
            used[label] += more
    return sizes


@pytest.mark.parametrize("seed", [0, 1])
def test_the_published_division_has_the_sizes_of_the_published_program(seed):
    labels = np.random.default_rng(5).permutation(np.repeat(np.arange(10), 6000))
    samples = Samples(np.zeros((60_000, 1), dtype=np.float32), labels, 10)
    rows = as_published(samples, 20, np.random.default_rng(seed), labels=2)
    theirs = published_sizes()
    assert theirs.sum() == 41_696
    for client, mine in enumerate(rows):
        counts = np.zeros(10, dtype=int)
        counts[[client % 10, (client + 1) % 10]] = theirs[client]
        assert (np.bincount(labels[mine], minlength=10) == counts).all()


def test_the_published_division_draws_which_samples_a_client_gets():
    one, other = (as_published(pool(), 20, np.random.default_rng(seed), labels=2) for seed in (0, 1))
    assert any(set(a.tolist()) != set(b.tolist()) for a, b in zip(one, other, strict=True))


def test_the_published_division_needs_enough_labels():
    with pytest.raises(DataError, match="labels = 11: the data have only 10 labels"):
        as_published(pool(), 20, np.random.default_rng(0), labels=11)
