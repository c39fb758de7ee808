"""A token for each neighbourhood: weights and tokens against numpy, and limiting cases."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from visits import Fixed, random_visits, visit_to

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.neighbourhood import DECAY, Neighbours
from fedmule.learning.data.client_data import ClientData

STATE = ("models", "token", "duals", "contributions", "last_step_sq")


# --- weights of neighbours --------------------------------------------------------------------------------


def plain_weight(visits, i, j):
    """((N_ij + N_ji)/(T_i + T_j + ½))² from a list of (visited, those in range)."""
    if i == j:
        return 1.0

    def count(of, with_):
        """T of one, or N with another: 1 for the last visit, 0.8 for the one before …"""
        at = [near for visited, near in reversed(visits) if visited == of]
        return sum(0.8**age for age, near in enumerate(at) if with_ is None or with_ in near)

    return ((count(i, j) + count(j, i)) / (count(i, None) + count(j, None) + 0.5)) ** 2


histories = st.lists(st.tuples(st.integers(0, 5), st.sets(st.integers(0, 5))), max_size=25)


@settings(max_examples=80)
@given(histories)
def test_weights_follow_the_visits(visits):
    assert DECAY == 0.8
    neighbours = Neighbours(6)
    for visited, near in visits:
        neighbours.visit(visited, near)
    found = np.zeros((6, 6))
    for i in range(6):
        index, weights = neighbours.weights(i)
        assert index[-1] == i
        assert index[:-1].tolist() == sorted(set(index[:-1].tolist()) - {i})
        found[i, index] = weights
    expected = [[plain_weight(visits, i, j) for j in range(6)] for i in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    assert (np.diag(found) == 1).all()
    assert (found <= 1).all()


def test_clients_never_met_have_no_weight():
    neighbours = Neighbours(4)
    neighbours.visit(0, [0, 1])
    assert neighbours.weights(3)[0].tolist() == [3]
    assert neighbours.weights(0)[0].tolist() == [1, 0]
    assert neighbours.weights(1)[0].tolist() == [0, 1]


def remembered(neighbours):
    return sum(len(row) for row in [*neighbours._near, *neighbours._near_to])


def test_memory_does_not_grow_while_neighbours_change():
    neighbours, generator = Neighbours(1000), np.random.default_rng(0)
    sizes = []
    for visit in range(2000):
        neighbours.visit(visit % 10, generator.integers(0, 1000, 5))
        sizes.append(remembered(neighbours))
    assert max(sizes[1000:]) <= 1.05 * max(sizes[500:1000])
    assert sizes[-1] <= 2 * 10 * 5 * 32  # 0.8³¹ < 0.001: nothing older than 31 visits of each of ten clients
    assert sizes[-1] > 1000


def test_old_neighbours_are_forgotten_on_both_sides():
    neighbours = Neighbours(3)
    neighbours.visit(0, [1])
    for _ in range(40):
        neighbours.visit(0, [2])
    assert neighbours.weights(0)[0].tolist() == [2, 0]
    assert neighbours.weights(1)[0].tolist() == [1]
    assert remembered(neighbours) == 2


# --- tokens ------------------------------------------------------------------------------------------------


def plain_token(i, rho, visits, c, y):
    """ρ c̄_i + (1 − ρ) y with the contributions c {client: [d]} of those seen."""
    weights = {j: plain_weight(visits, i, j) for j in c}
    total = sum(weights.values())
    if total == 0:
        return y
    return rho * sum(w * c[j] for j, w in weights.items()) / total + (1 - rho) * y


@pytest.mark.parametrize("rho", [0.3, 1.0, 1])
@pytest.mark.parametrize("eps", [0.0, 0.02])
def test_runs_follow_the_equations(problem, plain, rho, eps):
    """Clients one at a time in numpy, each with its own token."""
    small = problem()
    keys = {"rho": rho, "eps": eps, "local_steps": 3, "batch_size": 6, "beta": 0.7, "kappa": 0.4, "open_at": 9.0}
    algorithm, replay = small.build("neighbourhood", **keys), plain.Replay(small.build("slack", **keys))
    eta, beta, kappa = 0.1, 0.7, 0.4
    y, x, lam, c, visits = small.start.numpy(), {}, {}, {}, []
    for contact in random_visits(7, 30):
        visits.append((contact.visited, set(contact.near.tolist())))
        new = {}
        for i, batches in zip(contact.clients.tolist(), replay.batches(contact.clients), strict=True):
            mine = plain_token(i, rho, visits, c, y)
            at, dual = mine + np.clip(x.get(i, mine) - mine, -eps, eps), lam.get(i, np.zeros_like(y))
            for rows in batches:
                at = at - eta * replay.gradient(at, rows)
                q = at - mine + dual / beta
                at = at - eta * beta / (1 + eta * beta) * (q - np.clip(q, -eps, eps))
            s = np.clip(at - mine + dual / beta, -eps, eps)
            x[i], lam[i] = at, dual + kappa * beta * (at - mine - s)
            new[i] = at - s + lam[i] / beta
        c |= new
        y = np.mean(list(c.values()), axis=0)
        algorithm.update(contact)
        np.testing.assert_allclose(algorithm.token.numpy(), y, atol=1e-10)
        tokens = algorithm.tokens(np.arange(7)).numpy()
        np.testing.assert_allclose(tokens, [plain_token(i, rho, visits, c, y) for i in range(7)], atol=1e-10)
        for i in contact.clients:
            np.testing.assert_allclose(algorithm.models[i].numpy(), x[i], atol=1e-10)
            np.testing.assert_allclose(algorithm.duals[i].numpy(), lam[i], atol=1e-10)
    assert len(x) == 7
    assert np.abs(tokens - y).max() > 0.01


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("keys", [{}, {"eps": 0.02}, {"growing_mean": False}, {"token_pace": 0.3}])
def test_rho_zero_is_the_global_token_bit_for_bit(problem, contacts, double, keys):
    small = problem(double=double)
    own, one = small.build("neighbourhood", rho=0.0, **keys), small.build("slack", **keys)
    for contact in contacts(7, 25):  # through the opening
        assert own.update(contact) == one.update(contact)
        assert own.constraint(contact.progress) == one.constraint(contact.progress)
    for name in STATE:
        assert torch.equal(getattr(own, name), getattr(one, name)), name
    assert len(own.neighbours.weights(0)[0]) > 1
    assert not torch.equal(own.models[0], own.models[1])


@pytest.mark.parametrize("rho", ["cv", "eb", 0.7])
def test_the_global_token_stays_the_mean_of_the_clients_seen(problem, rho):
    algorithm = problem().build("neighbourhood", rho=rho, open_at=9.0)
    for contact in random_visits(7, 25):
        algorithm.update(contact)
        mean = algorithm.contributions[torch.from_numpy(algorithm.seen)].mean(dim=0)
        torch.testing.assert_close(algorithm.token, mean, rtol=1e-10, atol=1e-12)
    assert algorithm.seen.all()


def test_without_seen_neighbours_the_token_is_the_global_one(problem):
    algorithm = problem().build("neighbourhood", rho=1.0)
    algorithm.update(visit_to(0, [1]))
    tokens = algorithm.tokens(np.array([0, 5]))
    assert torch.equal(tokens[1], algorithm.token)
    assert not torch.equal(tokens[0], algorithm.token)


def test_a_newcomer_receives_its_neighbours_token_at_once(problem):
    """A client met for the first time starts from what those in range contributed."""
    algorithm = problem().build("neighbourhood", rho=1.0, step_size=1e-9, local_steps=1)
    algorithm.update(visit_to(0, [0, 1]))
    algorithm.update(visit_to(5, [5]))
    algorithm.contributions[:2] += 3.0
    algorithm.update(visit_to(6, [0, 1], clients=[6]))
    torch.testing.assert_close(algorithm.models[6], algorithm.contributions[:2].mean(dim=0), atol=1e-6, rtol=0)


# --- what it minimises -------------------------------------------------------------------------------------


def twice(quadratic):
    """The three clients, and three more with other targets; also their curvatures and minimisers."""
    data = quadratic.data
    targets = torch.cat([data.labels, 2.0 - 1.5 * data.labels.flip(0)])
    first = np.concatenate([data.first[:-1], data.first[-1] + data.first])
    features, counts = data.features.repeat(2, 1), np.tile(data.train_count, 2)
    curvature = np.tile(quadratic.curvature, (2, 1, 1))
    least = []
    for h, at, n in zip(curvature, first[:-1], counts, strict=True):
        a, t = features[at : at + n].numpy(), targets[at : at + n].numpy()
        least.append(np.linalg.solve(h, a.T @ t / n))
    return replace(quadratic, data=ClientData(features, targets, 2, first, counts)), curvature, np.array(least)


@pytest.mark.parametrize("rho", [1.0, 0.4])
def test_converged_tokens_solve_the_stated_problem(quadratic, rho):
    """min Σ f_i(y_s) + (τβ/2) Σ_s |y_s − ȳ|² over neighbourhoods s of m clients, with ρ = m/(m + τ)."""
    small, curvature, least = twice(quadratic)
    group, beta, size = np.array([0, 1, 1, 0, 0, 1]), 1.5, 3
    tau = 3 * (1 - rho) / rho
    pull = tau * beta * (np.eye(2) - 1 / 2)
    hessian, right = np.kron(pull, np.eye(size)), np.zeros(2 * size)
    for i, s in enumerate(group):
        block = slice(s * size, (s + 1) * size)
        hessian[block, block] += curvature[i]
        right[block] += curvature[i] @ least[i]
    expected = np.linalg.solve(hessian, right).reshape(2, size)

    keys = {"rho": rho, "beta": beta, "kappa": 1.0, "batch_size": 16, "local_steps": 8, "step_size": 0.2}
    algorithm = small.build("neighbourhood", open_at=9.0, **keys)
    algorithm.neighbours = Fixed(group)
    for visit in range(160):
        algorithm.update(Contact(np.flatnonzero(group == visit % 2), 3, 0.0, visit % 2, np.arange(0)))
    np.testing.assert_allclose(algorithm.tokens(np.arange(6)).numpy(), expected[group], atol=1e-6)
    np.testing.assert_allclose(algorithm.models.numpy(), expected[group], atol=1e-6)
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    if rho == 1.0:  # neighbourhoods are independent
        own = [np.linalg.solve(curvature[group == s].sum(axis=0), right.reshape(2, size)[s]) for s in (0, 1)]
        np.testing.assert_allclose(expected, own, atol=1e-10)


def test_learnt_neighbourhoods_come_close_to_that_solution(quadratic):
    """ρ = 1, pairs that are always in range of each other: their tokens nearly meet at the pair's minimiser."""
    small, curvature, least = twice(quadratic)
    group = np.array([0, 0, 1, 1, 2, 2])
    keys = {"rho": 1.0, "kappa": 1.0, "batch_size": 16, "local_steps": 8, "step_size": 0.2}
    algorithm = small.build("neighbourhood", open_at=9.0, **keys)
    for visit in range(120):
        algorithm.update(visit_to(visit % 6, np.flatnonzero(group == group[visit % 6]).tolist()))
    for s in range(3):
        a, b = np.flatnonzero(group == s)
        best = np.linalg.solve(curvature[a] + curvature[b], curvature[a] @ least[a] + curvature[b] @ least[b])
        apart = np.abs(least[a] - least[b]).max()
        assert np.abs(algorithm.tokens(np.array([a, b])).numpy() - best).max() < 0.15 * apart


# --- cost of an exchange -------------------------------------------------------------------------------


def test_cost_of_an_exchange_with_trials(problem):
    small = problem()
    algorithm, slack = small.build("neighbourhood", open_at=0.5), small.build("slack", open_at=0.5)
    who, size = np.array([1, 4, 6]), 4 * 18
    for visits in range(5):
        exchange, plainly = algorithm.exchange(who, 0.4), slack.exchange(who, 0.4)
        trying = np.array([visits in (1, 3)] * 2 + [False])  # 6 is met for the first time
        assert exchange.bytes_down.tolist() == [size * (2 if t else 1) for t in trying]
        assert exchange.bytes_up.tolist() == [size + (12 if t else 0) for t in trying]
        more = trying * 3 * small.model.flops(1) / 3 * np.ceil(0.15 * small.data.train_count[who])
        np.testing.assert_allclose(exchange.flops, plainly.flops + more, rtol=1e-12)
        assert not exchange.broadcast
        algorithm.update(visit_to(1, who.tolist(), clients=[1, 4], progress=0.4))
    for released in ([1], [1, 4], [1, 4, 6]):
        for each in (algorithm, slack):
            each.update(visit_to(released[-1], who.tolist(), clients=released[-1:], progress=0.6))
        exchange, plainly = algorithm.exchange(who, 0.6), slack.exchange(who, 0.6)
        np.testing.assert_array_equal(exchange.bytes_down, plainly.bytes_down)
        np.testing.assert_array_equal(exchange.bytes_up, plainly.bytes_up)
        np.testing.assert_array_equal(exchange.flops, plainly.flops)
        assert not exchange.broadcast
    assert exchange.bytes_down.sum() == 0


@pytest.mark.parametrize("rho", ["eb", 0.5])
def test_without_trials_an_exchange_costs_one_model_each_way(problem, rho):
    small = problem()
    exchange = small.build("neighbourhood", rho=rho).exchange(np.array([0, 2]), 0.1)
    assert exchange.bytes_down.tolist() == exchange.bytes_up.tolist() == [4 * 18] * 2
    np.testing.assert_array_equal(exchange.flops, small.build("slack").exchange(np.array([0, 2]), 0.1).flops)
    assert not exchange.broadcast


def test_after_the_opening_clients_start_from_their_own_tokens(problem):
    algorithm = problem().build("neighbourhood", rho=0.8, open_at=0.5, step_size=1e-9, local_steps=1)
    for contact in random_visits(7, 20, progress=0.4):
        algorithm.update(contact)
    frozen = {name: getattr(algorithm, name).clone() for name in ("token", "contributions", "duals")}
    algorithm.contributions += torch.randn(algorithm.contributions.shape, generator=torch.manual_seed(1)).double()
    frozen["contributions"] = algorithm.contributions.clone()
    for client in (2, 5):
        algorithm.neighbours = Fixed([0, 0, 1, 1, 0, 0, 1])
        tokens = algorithm.tokens(np.array([client]))
        algorithm.update(visit_to(client, [client], progress=0.6))
        torch.testing.assert_close(algorithm.models[client], tokens[0], atol=1e-6, rtol=0)
    assert all(torch.equal(getattr(algorithm, name), was) for name, was in frozen.items())


# --- cost, devices, order ----------------------------------------------------------------------------------


class Elements(TorchDispatchMode):
    """Counter of the elements of all tensors created; views and in-place changes create none."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        self.count += sum(t.numel() for t in made if t.untyped_storage().data_ptr() not in given)
        return out


@pytest.mark.parametrize("rho", ["cv", "eb", 0.5])
def test_the_cost_of_a_contact_does_not_grow_with_the_number_of_clients(shared, rho):
    """Neither with all clients, nor with those seen elsewhere."""
    small, costs = shared(clients=300, samples=6), []
    history = random_visits(20, 60)
    elsewhere = [visit_to(k, range(k, k + 20)) for k in range(20, 300, 20)]
    for clients, contacts in ((300, history), (60_000, 2 * elsewhere + history)):
        first = np.append(small.data.first, np.full(clients - 300, small.data.first[-1]))
        counts = np.append(small.data.train_count, np.zeros(clients - 300, dtype=np.int64))
        data = replace(small.data, first=first, train_count=counts)
        algorithm = replace(small, data=data).build("neighbourhood", rho=rho, open_at=9.0, local_steps=1)
        for contact in contacts:
            algorithm.update(contact)
        assert algorithm.participations[:20].min() >= 2
        with Elements():
            algorithm.update(history[-1])  # creates whatever is created only once
        tracemalloc.start()
        with Elements() as elements:
            algorithm.update(history[-1])
        costs.append((elements.count, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    assert costs[0][0] == costs[1][0] > 100
    assert abs(costs[1][1] - costs[0][1]) < 20_000  # bytes; a flag for each client would be 60,000


@pytest.mark.parametrize("rho", ["cv", "eb", 0.5])
def test_tokens_are_computed_on_the_device_of_the_data(problem, monkeypatch, rho):
    meta = torch.device("meta")
    here = problem(double=False)
    there = replace(here, data=here.data.to(meta), start=here.start.to(meta))
    algorithm = there.build("neighbourhood", rho=rho)
    monkeypatch.setattr(torch.Tensor, "__float__", lambda self: 0.0)
    for contact in [*random_visits(7, 5), *random_visits(7, 2, progress=0.9)]:
        algorithm.exchange(contact.clients, contact.progress)
        algorithm.update(contact)
    assert algorithm.tokens(np.arange(7)).device == meta
    assert not isinstance(algorithm.rho, torch.Tensor) or algorithm.rho.device == meta


@pytest.mark.parametrize("rho", ["eb", 0.5])
def test_the_order_of_clients_does_not_matter(problem, rho):
    small, order = problem(), np.random.default_rng(2).permutation(7)  # new client j is old client order[j]
    data, new = small.data, np.argsort(order)
    rows = np.concatenate([np.arange(data.first[i], data.first[i + 1]) for i in order])
    first = np.concatenate([[0], np.cumsum(np.diff(data.first)[order])])
    shuffled = ClientData(data.features[rows], data.labels[rows], data.classes, first, data.train_count[order])
    other = replace(small, data=shuffled, draw=lambda ids, counts, k: small.draw(order[ids], counts, k))
    one, other = (each.build("neighbourhood", rho=rho, open_at=9.0) for each in (small, other))
    for contact in random_visits(7, 20):
        one.update(contact)
        other.update(visit_to(int(new[contact.visited]), new[contact.near].tolist(), new[contact.clients].tolist()))
    everyone = np.arange(7)
    np.testing.assert_allclose(other.models.numpy(), one.models.numpy()[order], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(other.tokens(everyone).numpy(), one.tokens(order).numpy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(other.token.numpy(), one.token.numpy(), rtol=1e-8, atol=1e-10)


def test_a_client_that_joins_late_receives_its_neighbours_token(problem):
    algorithm = problem().build("neighbourhood", rho=1.0)
    for visited, near in ((0, [0, 1]), (1, [0, 1]), (4, [4, 5]), (5, [4, 5])):
        algorithm.update(Contact(np.array([visited]), 2, 0.0, visited, np.array(near)))
    assert torch.equal(algorithm.tokens(np.array([6]))[0], algorithm.token)  # its position is unknown
    algorithm.introduce(6, np.array([4, 5]))
    expected = algorithm.contributions[[4, 5]].mean(dim=0)
    torch.testing.assert_close(algorithm.tokens(np.array([6]))[0], expected)
