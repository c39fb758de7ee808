"""Weight ρ of the neighbourhood: by trials (`cv`) and by the spread of contributions (`eb`)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from making import make
from visits import Fixed, visit_to

from fedmule.learning.algorithms.neighbourhood import choose_rho
from fedmule.learning.data.client_data import ClientData

STATE = ("models", "token", "duals", "contributions", "last_step_sq")


class Watched:
    """A model that records the parameters it scores with."""

    def __init__(self, model):
        self.model, self.tried = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def scores(self, x, features):
        self.tried.append((x.clone(), len(features)))
        return self.model.scores(x, features)


@pytest.mark.parametrize("growing_mean", [True, False])
def test_clients_try_mixtures_without_their_own_contribution(problem, growing_mean):
    small = problem()
    algorithm = small.build("neighbourhood", growing_mean=growing_mean, open_at=9.0)
    algorithm.model = watched = Watched(small.model)
    for clients in ([0, 1], [2, 3], [5]):
        algorithm.update(visit_to(clients[0], clients))
    for number in (1, 0):  # second visits: the mixtures exclude its first contribution
        watched.tried.clear()
        c, seen = algorithm.contributions.clone(), algorithm.seen.copy()
        algorithm.update(visit_to(number, [2, 3], clients=[number]))
        counts = seen if growing_mean else np.ones(7, dtype=bool)
        others = counts & (np.arange(7) != number)
        index, weights = algorithm.neighbours.weights(number)
        near = [(j, w) for j, w in zip(index, weights, strict=True) if j != number and seen[j]]
        mean = sum(w * c[j] for j, w in near) / sum(w for _, w in near)
        tried = [x for x, _ in watched.tried]
        torch.testing.assert_close(tried[0], c[torch.from_numpy(others)].mean(dim=0), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(tried[-1], mean, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(tried[1], (tried[0] + tried[-1]) / 2, rtol=1e-10, atol=1e-12)
        assert {n for _, n in watched.tried} == {math.ceil(0.15 * small.data.train_count[number])}
        assert len(near) >= 2


def test_clients_try_only_at_their_second_and_fourth_visit(problem):
    small = problem()
    algorithm = small.build("neighbourhood", open_at=9.0)
    algorithm.model = watched = Watched(small.model)
    algorithm.update(visit_to(3, [3]))
    asked = []
    for _ in range(6):
        watched.tried.clear()
        algorithm.update(visit_to(3, [3, 4], clients=[4]))
        asked.append(len(watched.tried))
    assert asked == [0, 3, 0, 3, 0, 0]


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_trials_use_samples_that_were_never_trained_on(problem, share):
    """Held-out samples are trained on after the last trial, or from the opening."""
    small = problem()
    algorithm = small.build("neighbourhood", open_at=1.0 if share == 0.0 else share, batch_size=50)
    data, drawn, asked = small.data, [], []
    algorithm.model = watched = Watched(small.model)
    draw = algorithm._rows
    algorithm._rows = lambda *given: drawn.append(draw(*given)) or drawn[-1]
    algorithm.update(visit_to(3, [3, 4]))
    first, count = int(data.first[4]), int(data.train_count[4])
    held_out = math.ceil(0.15 * count)
    assert 0 < held_out < count
    for visit in range(1, 6):
        watched.tried.clear()
        algorithm.update(visit_to(3, [3, 4], clients=[4], progress=share * visit / 2))
        seen = set((drawn[-1].numpy() - first).ravel())
        asked.append(len(watched.tried))
        all_used = visit >= (3 if share == 0.0 else 2)
        assert seen == set(range(count if all_used else count - held_out)), visit
    assert asked == ([3, 0, 3, 0, 0] if share == 0.0 else [3, 0, 0, 0, 0])


def test_a_single_sample_is_not_held_out(problem):
    small = problem()
    counts = small.data.train_count.copy()
    counts[4] = 1
    algorithm = replace(small, data=replace(small.data, train_count=counts)).build("neighbourhood", open_at=9.0)
    algorithm.model = watched = Watched(small.model)
    for _ in range(5):
        algorithm.update(visit_to(3, [3, 4], clients=[4]))
    assert not watched.tried
    assert algorithm.participations[4] == 5


def test_the_largest_share_among_equally_good_mixtures_is_chosen():
    def choice(*columns):
        return choose_rho(np.stack([np.asarray(column, dtype=float) for column in columns], axis=1))

    some = np.random.default_rng(0).uniform(0.2, 0.4, 30)
    noise = np.random.default_rng(1).normal(0, 0.1, 30)
    noise -= noise.mean()
    error = noise.std(ddof=1) / np.sqrt(30)  # of the mean
    assert choice(some, some, some) == 1.0
    assert choice(some, some + 0.1, some + 0.1) == 0.0
    assert choice(some, some + noise + 0.9 * error, some + 0.1) == 0.5
    assert choice(some, some + noise + 1.1 * error, some + 0.1) == 0.0
    assert choice(some + 0.1, some, some + noise + 0.9 * error) == 1.0
    assert choice(some + 0.1, some, some + noise + 1.1 * error) == 0.5
    assert choice([0.3], [0.2], [0.4]) == 0.5


def with_tasks(small, task, seed):
    """The problem with labels by a linear rule for each task [n]."""
    rules = torch.from_numpy(np.random.default_rng(seed).normal(size=(task.max() + 1, 8, small.data.classes))).float()
    owner = torch.from_numpy(np.repeat(task, np.diff(small.data.first)))
    labels = torch.einsum("nf,nfc->nc", small.data.features, rules[owner]).argmax(dim=1)
    return replace(small, data=replace(small.data, labels=labels))


def walked(shared, task, group, seed, visits, **keys):
    """An algorithm after random visits, with those of the same group in range."""
    small = with_tasks(shared(clients=len(group), seed=seed, samples=16), task, seed)
    algorithm = small.build("neighbourhood", beta=1.0, open_at=9.0, **{"rho": "cv", **keys})
    generator = np.random.default_rng(seed)
    for visited in generator.integers(0, len(group), visits):
        near = np.flatnonzero(group == group[visited]).tolist()
        algorithm.update(visit_to(int(visited), near, clients=None if keys.get("rho") != "eb" else [visited]))
    return algorithm


def groups(seed, clients=24, count=6):
    return np.random.default_rng(seed).permutation(np.arange(clients) % count)


@pytest.mark.parametrize("seed", range(3))
def test_trials_choose_the_neighbourhood_where_it_shares_a_task(shared, seed):
    group = groups(seed)
    own, one = (walked(shared, group, group, seed, 30, rho=rho) for rho in ("cv", 0.0))
    assert own.rho >= 0.75
    accuracy = [right(x) for x in (own, one)]
    assert accuracy[0] > accuracy[1] + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_trials_choose_the_global_token_where_all_share_a_task(shared, seed):
    group = groups(seed)
    assert walked(shared, 0 * group, group, seed, 30).rho <= 0.1


def right(algorithm):
    """Mean accuracy of the clients' tokens on their test data."""
    data, found = algorithm.data, []
    for client, x in enumerate(algorithm.tokens(np.arange(data.clients))):
        rows = slice(data.test_first[client], data.first[client + 1])
        found.append(
            float((algorithm.model.scores(x, data.features[rows]).argmax(1) == data.labels[rows]).float().mean())
        )
    return np.mean(found)


@pytest.mark.parametrize("seed", range(2))
def test_the_spread_of_contributions_leads_to_the_same_choice(shared, seed):
    group = groups(seed)
    assert float(walked(shared, group, group, seed, 100, rho="eb").rho.mean()) > 0.75
    assert float(walked(shared, 0 * group, group, seed, 100, rho="eb").rho.mean()) < 0.1


class Layers:
    layers, parameters = {"sites differ": 300, "noise": 200}, 500


def test_the_spread_is_measured_layer_by_layer():
    """In the first layer neighbourhoods differ twice as much as clients, in the second they do not."""
    n, group, generator = 60, np.repeat(np.arange(12), 5), np.random.default_rng(0)
    data = ClientData(torch.zeros(0, 1), torch.zeros(0).long(), 2, np.zeros(n + 1, int), np.zeros(n, int))
    algorithm = make("neighbourhood", data, Layers, torch.zeros(500, dtype=torch.float64), None, rho="eb")
    algorithm.neighbours = Fixed(group)
    c = generator.normal(size=(n, 500))
    c[:, :300] += 2.0 * generator.normal(size=(12, 300))[group]
    everyone = np.arange(n)
    algorithm.seen[:], algorithm.seen_count = True, n
    algorithm.token, algorithm.contributions = torch.from_numpy(c.mean(axis=0)), torch.from_numpy(c)
    for part in (everyone[:30], everyone[20:], everyone):  # a new measurement replaces the old one
        algorithm._measure(part)
    rho = algorithm.rho.numpy()
    means = c.reshape(12, 5, 500).mean(axis=1)
    noise = c.reshape(12, 5, 500).var(axis=1, ddof=1) / 5
    apart = (means - c.mean(axis=0)) ** 2
    expected = 1 - noise[:, :300].sum() / apart[:, :300].sum()
    np.testing.assert_allclose(rho[:300], expected, rtol=1e-9)
    assert expected == pytest.approx(1 - 0.2 / (4 + 0.2), abs=0.02)
    assert rho[300:].max() == rho[300:].min()
    assert rho[300:].max() < 0.05
    near, y = torch.from_numpy(means[0]), algorithm.token
    torch.testing.assert_close(algorithm.tokens(np.array([0]))[0], y + torch.from_numpy(rho) * (near - y))
