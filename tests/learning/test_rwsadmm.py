"""RWSADMM, variant slack: each step against a brute-force search, complete runs against a replay in numpy."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from making import make

from fedmule.learning.algorithms.rwsadmm import contribution
from fedmule.learning.algorithms.tube import project, pull_to_tube
from fedmule.learning.algorithms.walkman import walkman_step
from fedmule.learning.data.client_data import ClientData


def tensors(*arrays):
    return tuple(torch.from_numpy(np.asarray(array, dtype=np.float64)) for array in arrays)


def random_point(seed, size=200):
    """Coordinates inside and outside the tube: x, y, lam, g."""
    generator = np.random.default_rng(seed)
    y = generator.normal(size=size)
    x = y + generator.normal(size=size) * generator.choice([0.01, 0.3, 2.0], size)
    return x, y, generator.normal(size=size), generator.normal(size=size) * generator.choice([0, 1, 5], size)


def proximal_step(x, y, lam, g, eta, beta, eps):
    return pull_to_tube(y - lam / beta, eta, beta, eps)(x - eta * g)


def best_s(plain, x, y, lam, beta, eps):
    """The s within ±eps that minimises lam(x − y − s) + β/2 (x − y − s)², by search."""

    def cost(s):
        return lam * (x - y - s) + beta / 2 * (x - y - s) ** 2

    return plain.search(cost, np.full_like(x, -eps), np.full_like(x, eps), rounds=60)


# --- the steps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.0, 0.05, 0.7, 5.0])
@pytest.mark.parametrize(("eta", "beta"), [(0.1, 1.0), (0.01, 10.0), (3.0, 0.3)])
def test_proximal_step_minimises_its_subproblem(plain, eps, eta, beta):
    x, y, lam, g = random_point(seed=1, size=60)

    def cost(u):
        r = u - y - best_s(plain, u, y, lam, beta, eps)
        return g * u + (u - x) ** 2 / (2 * eta) + lam * r + beta / 2 * r**2

    stepped = proximal_step(*tensors(x, y, lam, g), eta, beta, eps).numpy()
    expected = plain.search(cost, x - 60, x + 60)
    np.testing.assert_allclose(stepped, expected, atol=2e-6)
    assert (cost(stepped) <= cost(expected) + 1e-12).all()


numbers = st.floats(-5, 5)


@settings(max_examples=200, deadline=None)
@given(numbers, numbers, numbers, numbers, st.floats(0.01, 5), st.floats(0.1, 20), st.floats(0, 3))
def test_other_form_of_the_proximal_step(x, y, lam, g, eta, beta, eps):
    """u = (v/η − g − lam + β·eps·sgn q)/(β + 1/η) outside the tube, with u and v counted from y."""
    stepped = float(proximal_step(*tensors([x], [y], [lam], [g]), eta, beta, eps)[0])
    q = x - eta * g - y + lam / beta
    if abs(q) > eps:
        expected = y + ((x - y) / eta - g - lam + beta * eps * math.copysign(1, q)) / (beta + 1 / eta)
    else:
        expected = x - eta * g
    assert stepped == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_inside_the_tube_it_is_plain_sgd_bit_for_bit():
    x, y, lam, g = (part.float() for part in tensors(*random_point(seed=2, size=5000)))
    stepped = proximal_step(x, y, lam, g, 0.1, 1.0, 0.8)
    plain_step = x - 0.1 * g
    inside = (plain_step - y + lam).abs() <= 0.8
    assert 500 < int(inside.sum()) < 4500
    assert torch.equal(stepped[inside], plain_step[inside])
    assert not (stepped == plain_step)[~inside].any()
    assert torch.equal(proximal_step(x, y, lam, g, 0.1, 1.0, math.inf), plain_step)


def test_a_tube_of_zero_width_pulls_every_coordinate():
    x, y, lam, g = random_point(seed=3)
    stepped = proximal_step(*tensors(x, y, lam, g), 0.2, 2.0, 0.0).numpy()
    np.testing.assert_allclose(stepped, (x / 0.2 - g + 2.0 * y - lam) / (1 / 0.2 + 2.0), rtol=1e-10)


@pytest.mark.parametrize("eps", [0.0, 0.2, 3.0])
@pytest.mark.parametrize(("beta", "kappa"), [(1.0, 0.5), (4.0, 1.0)])
def test_contribution(plain, eps, beta, kappa):
    x, y, lam, _ = random_point(seed=4)
    s = best_s(plain, x, y, lam, beta, eps)
    new_lam, c = contribution(*tensors(x, y, lam), beta, kappa, eps)
    expected = lam + kappa * beta * (x - y - s)
    np.testing.assert_allclose(new_lam.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(c.numpy(), x - s + expected / beta, atol=1e-6)

    def cost(token):  # what the client adds to L_β, as a function of the token
        r = x - token - s
        return new_lam.numpy() * r + beta / 2 * r**2

    np.testing.assert_allclose(c.numpy(), plain.search(cost, x - 20, x + 20), atol=1e-6)


def test_inside_the_tube_the_contribution_is_the_token():
    x, y, lam, _ = tensors(*random_point(seed=5))
    new_lam, c = contribution(x, y, torch.zeros_like(lam), 1.0, 0.5, 100.0)
    assert not new_lam.any()
    torch.testing.assert_close(c, y)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20), st.floats(0, 4))
def test_projection(points, eps):
    x, y = np.array(points).T
    projected = project(*tensors(x, y), eps).numpy()
    assert (np.abs(projected - y) <= eps + 1e-12).all()
    nearest = y + np.sign(x - y) * np.minimum(np.abs(x - y), eps)
    np.testing.assert_allclose(projected, nearest, atol=1e-12)
    inside = np.abs(x - y) < eps * (1 - 1e-9)
    np.testing.assert_array_equal(projected[inside], x[inside])


# --- complete updates --------------------------------------------------------------------------------------


class Plain:
    """The algorithm in numpy, a client at a time, with the token as the mean of all stored contributions."""

    def __init__(self, plain, twin):
        self.replay, self.set = plain.Replay(twin), twin
        n = twin.data.clients
        self.y = twin.token.numpy().copy()
        self.x, self.lam, self.s = {}, {}, {}
        self.c = {} if self.set.growing_mean else dict.fromkeys(range(n), self.y)

    def visit(self, clients, eps):
        eta, beta, kappa = self.set.settings.step_size, self.set.beta, self.set._kappa
        losses, new = [], {}
        for client, batches in zip(clients, self.replay.batches(clients), strict=True):
            x = self.x.get(client, self.y)
            lam = self.lam.get(client, np.zeros_like(x))
            if self.set.project_on_arrival:
                x = self.y + np.clip(x - self.y, -eps, eps)
            for rows in batches:
                losses.append(self.replay.loss(x, rows))
                v = x - self.y
                g = self.replay.gradient(x, rows)
                q = v - eta * g + lam / beta
                outside = (v / eta - g - lam + beta * eps * np.sign(q)) / (beta + 1 / eta)
                x = self.y + np.where(np.abs(q) <= eps, v - eta * g, outside)
            s = np.clip(x - self.y + lam / beta, -eps, eps)
            lam = lam + kappa * beta * (x - self.y - s)
            self.x[client], self.lam[client], self.s[client] = x, lam, s
            new[client] = x - s + lam / beta
        self.c |= new
        before, self.y = self.y, np.mean(list(self.c.values()), axis=0)
        return np.mean(losses), np.linalg.norm(self.y - before)


@pytest.mark.parametrize("eps", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("project_on_arrival", [True, False])
@pytest.mark.parametrize("growing_mean", [True, False])
def test_runs_follow_the_equations(problem, plain, contacts, eps, project_on_arrival, growing_mean):
    keys = {"eps": eps, "project_on_arrival": project_on_arrival, "growing_mean": growing_mean}
    keys |= {"local_steps": 3, "batch_size": 6, "beta": 0.7, "kappa": 0.4}
    small = problem()
    algorithm, expected = small.build("slack", **keys), Plain(plain, small.build("slack", **keys))
    for contact in contacts(7, 30, progress=0.5):
        update = algorithm.update(contact)
        loss, moved = expected.visit(contact.clients, eps)
        assert update.train_loss == pytest.approx(loss, rel=1e-9)
        assert update.token_step_norm == pytest.approx(moved, rel=1e-7, abs=1e-12)
        assert update.gradient_steps == 3
        assert update.kappa == 0.4
        np.testing.assert_allclose(algorithm.token.numpy(), expected.y, atol=1e-10)
        for client in contact.clients:
            np.testing.assert_allclose(algorithm.models[client].numpy(), expected.x[client], atol=1e-10)
            np.testing.assert_allclose(algorithm.duals[client].numpy(), expected.lam[client], atol=1e-10)
            np.testing.assert_allclose(algorithm.contributions[client].numpy(), expected.c[client], atol=1e-10)
    assert len(expected.x) == 7


def test_single_precision_follows_the_equations_too(problem, plain, contacts):
    small = problem(double=False)
    algorithm, expected = small.build("slack"), Plain(plain, small.build("slack"))
    for contact in contacts(7, 20, progress=0.0):
        algorithm.update(contact)
        expected.visit(contact.clients, 0.0)
    np.testing.assert_allclose(algorithm.token.numpy(), expected.y, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=25), st.booleans())
def test_the_token_is_the_mean_of_contributions(visits, growing_mean):
    """Whatever vectors the clients deliver, alone or together."""
    algorithm = vectors(6, growing_mean)
    start, last = algorithm.token.numpy().copy(), {}
    generator = np.random.default_rng(len(visits))
    for clients in visits:
        clients = np.array(sorted(clients))
        c = generator.normal(size=(len(clients), 4))
        deliver(algorithm, clients, c)
        last |= dict(zip(clients.tolist(), c, strict=True))
        everyone = last if growing_mean else dict.fromkeys(range(6), start) | last
        np.testing.assert_allclose(algorithm.token.numpy(), np.mean(list(everyone.values()), axis=0), atol=1e-12)


def vectors(clients, growing_mean):
    """A Slack over clients without data, for given contributions."""
    data = ClientData(torch.zeros(0, 1), torch.zeros(0).long(), 2, np.zeros(clients + 1, int), np.zeros(clients, int))
    start = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)
    return make("slack", data, None, start, None, growing_mean=growing_mean, kappa=0.0)


def deliver(algorithm, clients, c):
    """Without a dual, and in a tube of zero width, a client contributes its model."""
    algorithm._settle(clients, {"x": torch.from_numpy(c), "y": algorithm.token})
    np.testing.assert_allclose(algorithm.contributions[clients], c, rtol=0, atol=1e-14)


def test_first_and_later_visits_move_the_token_as_stated():
    algorithm = vectors(5, growing_mean=True)
    a, b, b2 = np.full((1, 4), 2.0), np.full((1, 4), 8.0), np.full((1, 4), 5.0)
    deliver(algorithm, np.array([0]), a)
    assert torch.equal(algorithm.token, torch.full((4,), 2.0, dtype=torch.float64))  # y + (c − y)/1
    deliver(algorithm, np.array([3]), b)
    assert torch.equal(algorithm.token, torch.full((4,), 5.0, dtype=torch.float64))  # 2 + (8 − 2)/2
    deliver(algorithm, np.array([3]), b2)
    assert torch.equal(algorithm.token, torch.full((4,), 3.5, dtype=torch.float64))  # 5 + (5 − 8)/2
    np.testing.assert_array_equal(algorithm.seen, [True, False, False, True, False])


def test_the_mean_does_not_drift_in_single_precision(problem, contacts):
    small = problem(double=False)
    for growing_mean in (True, False):
        algorithm = small.build("slack", growing_mean=growing_mean, local_steps=1, batch_size=4)
        for contact in contacts(7, 200, progress=0.0):
            algorithm.update(contact)
        assert algorithm.seen.all()
        torch.testing.assert_close(algorithm.token, algorithm.contributions.mean(dim=0), rtol=1e-4, atol=1e-5)


def test_a_client_met_for_the_first_time_starts_from_the_token(problem, contact):
    """A tiny step leaves it there; a client seen before stays near its own model."""
    algorithm = problem().build("slack", step_size=1e-9, local_steps=1, project_on_arrival=False)
    algorithm.token = algorithm.token + 5.0
    algorithm.update(contact(2))
    torch.testing.assert_close(algorithm.models[2], algorithm.token, atol=1e-6, rtol=0)
    own = algorithm.models[2].clone()
    algorithm.token = algorithm.token + 5.0
    algorithm.update(contact(2))
    torch.testing.assert_close(algorithm.models[2], own, atol=1e-6, rtol=0)


def test_projection_on_arrival_moves_a_client_back_into_the_tube(problem, contact):
    algorithm = problem().build("slack", step_size=1e-9, local_steps=1, eps=0.25)
    algorithm.update(contact(2))
    algorithm.token = algorithm.token + 5.0
    token = algorithm.token
    algorithm.update(contact(2))
    torch.testing.assert_close(algorithm.models[2], token - 0.25, atol=1e-6, rtol=0)


def test_kappa_is_constant_unless_decay_is_set(problem, contact):
    steady = problem().build("slack", kappa=0.5)
    falling = problem().build("slack", kappa=0.5, kappa_decay=0.9)
    assert [steady.update(contact(0, 1)).kappa for _ in range(3)] == [0.5, 0.5, 0.5]
    assert [falling.update(contact(0, 1)).kappa for _ in range(3)] == pytest.approx([0.5, 0.45, 0.405])


# --- Walkman as a limit ------------------------------------------------------------------------------------


def test_steps_without_the_proximal_term_are_those_of_walkman():
    """At eps = 0 the difference falls like 1/η."""
    x, y, lam, g = tensors(*random_point(seed=6))
    beta = 2.0
    walkman = walkman_step(y, lam, g, beta)

    def difference(eta):
        stepped = proximal_step(x, y, lam, g, eta, beta, 0.0)
        return max(
            float((ours - theirs).abs().max())
            for ours, theirs in zip((stepped, *contribution(stepped, y, lam, beta, 1.0, 0.0)), walkman, strict=True)
        )

    found = [difference(eta) for eta in (1e2, 1e4, 1e6)]
    assert found[2] < 1e-4
    assert all(30 < before / after < 300 for before, after in pairwise(found))


def test_runs_without_the_proximal_term_are_those_of_walkman(problem, contact, contacts):
    """After all clients have been met (a first visit starts from the token here, from the start there)."""
    small = problem()
    keys = {"beta": 5.0, "kappa": 1.0, "local_steps": 1, "eps": 0.0, "open_at": 9.0}
    slack = small.build("slack", project_on_arrival=False, growing_mean=False, step_size=1e8, **keys)
    walkman = small.build("walkman", **keys)
    for visit in [contact(*range(7)), *contacts(7, 30, progress=0.2)]:
        slack.update(visit)
        walkman.update(visit)
    assert float((slack.token - small.start).norm()) > 0.05
    for name in ("token", "models", "duals", "contributions"):
        torch.testing.assert_close(getattr(slack, name), getattr(walkman, name), rtol=0, atol=1e-5)


# --- per layer, and other token rules ----------------------------------------------------------------------


def layered(small, kind="slack", **settings):
    """The problem's MLR with its last three coordinates (the bias) as a separate layer."""
    small.model.layers = {"weights": small.model.parameters - 3, "bias": 3}
    return small.build(kind, **settings)


@pytest.mark.parametrize("kind", ["slack", "derived"])
def test_equal_widths_per_layer_are_one_width(problem, contacts, kind):
    one, many = problem().build(kind, eps=0.05), layered(problem(), kind, eps=(0.05, 0.05))
    for contact in contacts(7, 12, progress=0.0):
        one.update(contact)
        many.update(contact)
    assert torch.equal(one.models, many.models)
    assert torch.equal(one.token, many.token)


def test_a_layer_without_a_tube_is_trained_by_its_client_alone(problem, contacts):
    """eps = (0, ∞): the head's token stays where it began, and only the shared layer is pulled towards the token."""
    algorithm = layered(problem(), eps=(0.0, math.inf), local_steps=4)
    start = algorithm.token.clone()
    for contact in contacts(7, 20, progress=0.0):
        algorithm.update(contact)
    head = slice(-3, None)
    assert torch.allclose(algorithm.token[head], start[head], atol=1e-12)
    assert (algorithm.token[:-3] - start[:-3]).norm() > 0.01
    assert algorithm.duals[:, head].abs().max() < 1e-12
    assert algorithm.duals[:, :-3].abs().max() > 1e-3
    assert (algorithm.models[:, head] - start[head]).norm(dim=1).min() > 1e-3
    found = algorithm.constraint(0.0)
    assert math.isfinite(found.penalty)
    assert found.violated_share < 1


@pytest.mark.parametrize("kind", ["slack", "derived"])
@pytest.mark.parametrize("pace", [0.25, 1.0])
def test_the_token_may_follow_the_delivered_contributions(problem, contact, kind, pace):
    algorithm = problem().build(kind, token_pace=pace, beta=2.0, eps=0.01)
    for who in ([0, 3, 5], [1], [3, 5]):
        before = algorithm.token.clone()
        algorithm.update(contact(*who))
        mean = algorithm.contributions[who].mean(dim=0)
        assert torch.allclose(algorithm.token, (1 - pace) * before + pace * mean)
