"""Data that differ from site to site."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.partition import by_column, by_dirichlet, by_labels, evenly
from fedmule.learning.data.samples import Samples
from fedmule.learning.data.sites import Shift, SiteData, rotated, share_within
from fedmule.learning.errors import DataError

SHAPES = [(1, 8, 8), (1, 7, 7), (3, 9, 9), (1, 6, 10), (2, 11, 5)]


def images(shape, count=3):
    pixels = np.random.default_rng(0).random((count, *shape)).astype(np.float32)
    return pixels, torch.from_numpy(pixels.reshape(count, -1))


# --- rotated images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1] == s[2]])
@pytest.mark.parametrize("quarters", [-1, 1, 2, 3, 5])
def test_quarter_rotations_are_exact_and_counter_clockwise(shape, quarters):
    pixels, features = images(shape)
    expected = np.rot90(pixels, quarters, axes=(2, 3))
    np.testing.assert_allclose(
        rotated(features, shape, 90 * quarters).numpy().reshape(pixels.shape), expected, atol=1e-6
    )
    np.testing.assert_allclose(ndimage.rotate(pixels, 90 * quarters, axes=(3, 2)), expected, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("degrees", [45, 30, 90, 180, -120, 200])
def test_other_rotations_equal_those_of_scipy(shape, degrees):
    pixels, features = images(shape)
    keys = {"axes": (3, 2), "reshape": False, "order": 1, "mode": "grid-constant"}
    expected = ndimage.rotate(pixels, degrees, **keys)
    found = rotated(features, shape, degrees)
    assert found.shape == features.shape
    np.testing.assert_allclose(found.numpy().reshape(pixels.shape), expected, atol=1e-5)


@pytest.mark.parametrize("degrees", [0, 360, -720])
def test_full_rotations_change_nothing(degrees):
    _, features = images((3, 9, 9))
    assert torch.equal(rotated(features, (3, 9, 9), degrees), features)


def test_many_images_are_rotated_like_one():
    _, features = images((1, 4, 4), 4100)  # more than are rotated at once
    each = torch.cat([rotated(features[[i]], (1, 4, 4), 50) for i in (0, 4095, 4096, 4099)])
    assert torch.equal(rotated(features, (1, 4, 4), 50)[[0, 4095, 4096, 4099]], each)


# --- differences between sites ---------------------------------------------------------------------------


def client_data(clients=6, samples=10, shape=(1, 5, 5), classes=6, seed=0):
    generator = np.random.default_rng(seed)
    features = torch.from_numpy(generator.random((clients * samples, int(np.prod(shape)))).astype(np.float32))
    labels = torch.from_numpy(generator.integers(0, classes, clients * samples))
    first = samples * np.arange(clients + 1)
    counts = np.full(clients, samples - 3)
    return ClientData(features, labels, classes, first, counts, shape=shape, site=np.arange(clients) % 3)


def shift(kind, data, sites=3):
    return Shift(kind, sites, data, np.random.default_rng(1))


def test_permuted_labels_are_a_permutation_for_each_site():
    data = client_data(classes=10)
    every = torch.arange(10)
    renamed = [shift("permuted", data).at(site, data.features, every) for site in range(3)]
    for features, labels in renamed:
        assert features is data.features
        assert sorted(labels.tolist()) == every.tolist()
    assert len({tuple(labels.tolist()) for _, labels in renamed}) == 3
    again = [shift("permuted", data).at(site, data.features, every)[1] for site in range(3)]
    assert all(torch.equal(a, b) for a, (_, b) in zip(again, renamed, strict=True))


def test_images_are_rotated_by_equal_steps_around_the_circle():
    data = client_data()
    for site in range(4):
        features, labels = shift("rotated", data, sites=4).at(site, data.features, data.labels)
        assert torch.equal(features, rotated(data.features, data.shape, 90.0 * site))
        assert labels is data.labels


def test_plain_features_cannot_be_rotated():
    with pytest.raises(DataError, match="needs images"):
        shift("rotated", client_data(shape=()))
    shift("permuted", client_data(shape=()))


@pytest.mark.parametrize("kind", ["none", "rotated", "permuted"])
def test_every_client_has_the_data_of_its_site(kind):
    plain, data = client_data(), client_data()
    SiteData(data, shift(kind, data), data.site, np.array([1]))
    for client in range(6):
        rows = slice(10 * client, 10 * client + 10)
        features, labels = shift(kind, plain).at(client % 3, plain.features[rows], plain.labels[rows])
        assert torch.equal(data.features[rows], features)
        assert torch.equal(data.labels[rows], labels)
    assert (kind == "rotated") == (not torch.equal(data.features, plain.features))
    assert (kind == "permuted") == (not torch.equal(data.labels, plain.labels))


@pytest.mark.parametrize("kind", ["rotated", "permuted"])
def test_moving_changes_only_the_movers_and_moving_back_restores_the_bits(kind):
    data = client_data()
    movers = np.array([1, 4])
    placed = SiteData(data, shift(kind, data), data.site.copy(), movers)
    was = data.features.clone(), data.labels.clone()
    held = data.features, data.labels
    placed.move(movers, np.array([2, 0]))
    mine = np.repeat(np.isin(np.arange(6), movers), 10)
    changed = (data.features != was[0]).any(dim=1).numpy() | (data.labels != was[1]).numpy()
    assert not changed[~mine].any()
    assert changed[mine].mean() > 0.5
    assert held[0] is data.features  # holders of the data see the change
    assert data.site.tolist() == [0, 2, 2, 0, 0, 2]
    there = client_data()
    SiteData(there, shift(kind, there), data.site, np.array([]))
    assert torch.equal(data.features, there.features)  # as if they had started there
    assert torch.equal(data.labels, there.labels)
    placed.move(movers[::-1].copy(), np.array([1, 1]))
    assert torch.equal(data.features, was[0])
    assert torch.equal(data.labels, was[1])
    assert data.site.tolist() == [0, 1, 2, 0, 1, 2]


# --- a site's samples among its clients -------------------------------------------------------------------

site_lists = st.lists(st.integers(0, 4), min_size=1, max_size=12).map(lambda p: np.unique(p, return_inverse=True)[1])


@settings(max_examples=60)
@given(site_lists, st.integers(0, 100))
def test_every_sample_of_a_site_goes_to_one_of_its_clients(site, seed):
    generator = np.random.default_rng(seed)
    sizes = [int(generator.integers(3 * m, 9 * m)) for m in np.bincount(site)]
    numbers = generator.permutation(sum(sizes))
    rows = np.split(numbers, np.cumsum(sizes)[:-1])
    shared = share_within(rows, site, generator)
    assert len(shared) == len(site)
    for at, mine in enumerate(rows):
        parts = [shared[client] for client in np.flatnonzero(site == at)]
        assert sorted(np.concatenate(parts).tolist()) == sorted(mine.tolist())
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def pool(count=3000, owners=None, seed=0):
    generator = np.random.default_rng(seed)
    features = np.arange(count, dtype=np.float32)[:, None]
    owner = None if owners is None else generator.integers(0, owners, count)
    return Samples(features, generator.integers(0, 10, count), 10, owner)


SITE = np.array([0, 0, 1, 2, 2, 2, 1, 0, 3, 3])


@pytest.mark.parametrize(
    ("kind", "keys"), [(by_labels, {"labels": 2}), (by_dirichlet, {"alpha": 0.5}), (evenly, {}), (by_column, {})]
)
def test_partitions_over_sites(kind, keys):
    samples = pool(owners=4)
    over = kind(samples, 4, np.random.default_rng(0), **keys)
    rows = share_within(over, SITE, np.random.default_rng(0))
    everyone = np.concatenate(rows)
    assert len(set(everyone.tolist())) == len(everyone) == sum(map(len, over))
    shares = [np.bincount(samples.labels[mine], minlength=10) / len(mine) for mine in rows]
    for client, mine in enumerate(rows):
        at = SITE[client]
        expected = np.bincount(samples.labels[over[at]], minlength=10) / len(over[at])
        assert np.abs(shares[client] - expected).max() < 0.12  # the mix of its site
        assert abs(len(mine) - len(over[at]) / np.bincount(SITE)[at]) < 1
        if kind is by_labels:
            assert (shares[client] > 0).sum() == 2
        if kind is by_column:
            assert (samples.owner[mine] == at).all()


def test_too_few_samples_for_a_site_are_reported():
    with pytest.raises(DataError, match="would get 2 samples but needs 3"):
        share_within([np.arange(30), np.arange(30, 35)], np.array([0, 1, 1]), np.random.default_rng(0))


def test_a_column_with_another_number_of_sites_is_reported():
    with pytest.raises(DataError, match="belong to 5 clients or sites, but the scenario has 4"):
        by_column(pool(owners=5), 4, np.random.default_rng(0))
