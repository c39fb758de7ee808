"""Synthetic(alpha, beta), and the layout of the clients' samples."""

import numpy as np
import pytest
import torch
from making import synthetic
from scipy.optimize import linprog
from scipy.stats import ks_2samp

from fedmule.learning.data.partition import by_column, split
from fedmule.learning.models.logistic import MLR
from fedmule.simulator.streams import Streams

PUBLISHED = {"features": 1, "classes": 2, "samples": (250, 1_000_000_000), "size_factor": 5}


def make(clients, seed=1, test_share=0.25, **keys):
    pool = synthetic(clients, Streams(seed).generator("data"), **keys)
    generator = Streams(seed).generator("split")
    return split(pool, by_column(pool, clients, generator), generator, test_share)


def separable(features, labels, classes):
    """Whether a linear classifier gives every sample its label, by linear programming."""
    x = np.hstack([features, np.ones((len(features), 1))])
    rows = []
    for one, label in zip(x, labels, strict=True):
        for other in set(range(classes)) - {int(label)}:
            row = np.zeros((classes, x.shape[1]))
            row[label], row[other] = -one, one
            rows.append(row.ravel())
    cost = np.zeros(classes * x.shape[1])
    return linprog(cost, A_ub=np.array(rows), b_ub=-np.ones(len(rows)), bounds=(None, None)).status == 0


def test_shapes():
    data = make(30, features=7, classes=4, samples=(10, 90))
    total = len(data.labels)
    assert data.clients == 30
    assert data.features.shape == (total, 7)
    assert data.features.dtype == torch.float32
    assert data.labels.dtype == torch.int64
    assert data.classes == 4
    assert 0 <= int(data.labels.min()) <= int(data.labels.max()) < 4
    assert data.first.shape == (31,)
    assert data.first[0] == 0
    assert data.first[-1] == total
    np.testing.assert_array_equal(data.first[:-1] + data.train_count, data.test_first)
    np.testing.assert_array_equal(data.train_count + data.test_count, np.diff(data.first))


def test_defaults_are_sixty_features_and_ten_classes():
    data = make(3)
    assert data.features.shape[1] == 60
    assert data.classes == 10


@pytest.mark.parametrize("samples", [(3, 9), (50, 1000), (20, 20)])
def test_sizes_are_within_their_range(samples):
    sizes = np.diff(make(200, features=3, classes=3, samples=samples).first)
    assert sizes.min() >= samples[0]
    assert sizes.max() <= samples[1]
    if samples[0] < samples[1]:
        assert len(set(sizes)) > 3


def test_published_sizes_are_five_times_fifty_and_a_log_normal_number():
    """(⌊exp N(4, 2²)⌋ + 50) · 5: half of the clients have 250 to about 520 samples, a tenth over 3,700."""
    ours = np.bincount(synthetic(4000, np.random.default_rng(1), **PUBLISHED).owner)
    theirs = (np.random.default_rng(2).lognormal(4, 2, 4000).astype(int) + 50) * 5
    assert ours.min() >= 250
    assert not (ours % 5).any()
    assert ks_2samp(ours, theirs).pvalue > 0.01
    assert np.quantile(ours, [0.25, 0.5, 0.9]) == pytest.approx(np.quantile(theirs, [0.25, 0.5, 0.9]), rel=0.1)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.01, 0.99])
def test_share_of_test_samples(share):
    data = make(100, features=3, classes=3, samples=(3, 300), test_share=share)
    sizes = np.diff(data.first)
    assert data.train_count.min() >= 1
    assert data.test_count.min() >= 1
    usual = (sizes * share >= 1) & (sizes * (1 - share) >= 1)
    assert np.abs(data.test_count - sizes * share)[usual].max() <= 0.5


def test_labels_are_those_of_a_linear_classifier():
    data = make(6, features=5, classes=4, samples=(150, 150))
    shuffled = np.random.default_rng(0)
    several = 0
    for client in range(6):
        rows = slice(data.first[client], data.first[client + 1])
        features, labels = data.features[rows].double().numpy(), data.labels[rows].numpy()
        assert separable(features, labels, 4)
        if np.bincount(labels).max() < 120:
            several += 1
            assert not separable(features, shuffled.permutation(labels), 4)
    assert several >= 2


def test_long_training_fits_the_training_samples():
    data = make(8, samples=(100, 100))
    model = MLR(60, 10)
    rows = torch.from_numpy(data.first[:-1, None] + np.arange(75))
    features, labels = data.features[rows], data.labels[rows]
    x = torch.zeros(8, model.parameters)
    for _ in range(1500):
        x = x - 0.1 * model.gradient(x, features, labels)[0]
    right = [
        float((model.scores(one, f).argmax(dim=1) == y).float().mean())
        for one, f, y in zip(x, features, labels, strict=True)
    ]
    assert np.mean(right) > 0.97


def test_same_seed_same_bits_other_seed_other_data():
    one, again, other = make(9), make(9), make(9, seed=2)
    assert torch.equal(one.features, again.features)
    assert torch.equal(one.labels, again.labels)
    np.testing.assert_array_equal(one.first, again.first)
    np.testing.assert_array_equal(one.train_count, again.train_count)
    count = min(len(one.features), len(other.features))
    assert not torch.equal(one.features[:count], other.features[:count])


def test_training_and_test_samples_follow_the_same_distribution():
    """The test part has the same mean as the training part."""
    data = make(20, features=3, classes=3, samples=(2000, 2000))
    for client in range(20):
        part = data.features[data.first[client] : data.first[client + 1]]
        train, test = part[: data.train_count[client]], part[data.train_count[client] :]
        assert float((train.mean(dim=0) - test.mean(dim=0)).abs().max()) < 0.2


def test_later_features_have_a_smaller_spread():
    data = make(10, features=30, samples=(3000, 3000))
    within = np.mean([data.features[a : a + 3000].var(dim=0).numpy() for a in data.first[:-1]], axis=0)
    np.testing.assert_allclose(within, np.arange(1.0, 31.0) ** -1.2, rtol=0.1)


def test_beta_sets_how_features_differ():
    def spread(beta):
        data = make(150, beta=beta, features=20, classes=3, samples=(20, 20))
        return np.std([float(data.features[a : a + 20].mean()) for a in data.first[:-1]])

    assert spread(0.0) < 0.4
    assert spread(4.0) > 1.5
    assert spread(0.0) < spread(1.0) < spread(4.0)


class Listener:
    """A generator that records normal numbers drawn in the shape of a model's weights."""

    def __init__(self, generator, shape):
        self.generator, self.shape, self.heard = generator, shape, []

    def __getattr__(self, name):
        return getattr(self.generator, name)

    def normal(self, *keys):
        drawn = self.generator.normal(*keys)
        if np.shape(drawn) == self.shape:
            self.heard.append(drawn.mean())
        return drawn


def test_alpha_sets_how_models_differ():
    def spread(alpha):
        listener = Listener(Streams(1).generator("data"), (20, 3))
        synthetic(150, listener, alpha=alpha, features=20, classes=3, samples=(5, 20))
        assert len(listener.heard) == 150
        return np.std(listener.heard)

    assert spread(0.0) < 0.3
    assert spread(4.0) > 1.5
    assert spread(0.0) < spread(1.0) < spread(4.0)


def test_clients_that_share_a_model_are_separable_by_one_classifier():
    site = np.repeat([0, 1, 2], 4)

    def one_model_fits(clients, **keys):
        shape = {"features": 4, "classes": 3, "samples": (12, 12), "site": site}
        data = synthetic(12, Streams(1).generator("data"), **shape, **keys)
        mine = np.isin(data.owner, clients)
        return separable(data.features[mine], data.labels[mine], 3)

    assert one_model_fits(range(12), alike=1.0)
    assert not one_model_fits(range(12))
    assert not one_model_fits(range(12), alike=0.5, alike_at_sites=0.5)
    for at in range(3):
        those = np.flatnonzero(site == at)
        assert one_model_fits(those, alike_at_sites=1.0)
        assert one_model_fits(those, alike=0.5, alike_at_sites=0.5)
