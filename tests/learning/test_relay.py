"""RWSADMM that hands its token on: the equations, the mean dual, the trust region, fixed points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.relay import ENOUGH, dual_of, mean_dual, share_of_free, weights
from fedmule.learning.algorithms.trust import MOST, TrustRegion
from fedmule.learning.models.protocol import layers


class Plain:
    """The algorithm in numpy, a client at a time."""

    def __init__(self, plain: Any, twin: Any) -> None:
        self.replay, self.set = plain.Replay(twin), twin
        self.y = twin.token.numpy().copy()
        self.x: dict[int, Any] = {}
        self.lam: dict[int, Any] = {}
        self.moves: list[float] = []
        self.sizes: list[int] = []
        self.first = self.y.copy()

    def mean_dual(self, eps: float) -> Any:
        """What a client makes of the way that the token has come."""
        if eps > 0 or not self.lam:
            return np.zeros_like(self.y)
        pushes = self.set._kappa * sum(self.sizes) / sum(size**0.25 for size in self.sizes)
        return pushes * self.set.beta / len(self.lam) * (self.y - self.first)

    def visit(self, clients: Any, eps: float, trust: float = np.inf) -> float:
        eta, beta, kappa, zeta = self.set.settings.step_size, self.set.beta, self.set._kappa, self.set.centre
        mean = self.mean_dual(eps)
        new, losses = {}, []
        known = np.sort(self.moves[-min(2 * self.set.data.clients, MOST) :])
        for client, batches in zip(clients, self.replay.batches(clients), strict=True):
            lam = self.lam.get(client, np.zeros_like(self.y))
            x = start = self.y + np.clip(self.x.get(client, self.y) - self.y, -eps, eps)
            own = lam - zeta * mean
            for rows in batches:
                losses.append(self.replay.loss(x, rows))
                g = self.replay.gradient(x, rows)
                v = x - self.y
                q = v - eta * g + own / beta
                outside = (v / eta - g - own + beta * eps * np.sign(q)) / (beta + 1 / eta)
                x = self.y + np.where(np.abs(q) <= eps, v - eta * g, outside)
            length = np.linalg.norm(x - start)
            if len(known) >= 5:
                most = trust * known[(len(known) - 1) // 2]
                x, length = start + (x - start) * min(1, most / length), min(most, length)
            self.moves.append(length)
            s = np.clip(x - self.y + own / beta, -eps, eps)
            new[client] = x, lam + kappa * beta * (x - self.y - s)
        for client, (x, lam) in new.items():
            self.x[client], self.lam[client] = x, lam
        self.sizes.append(len(clients))
        self.y = self.y + np.sum([x - self.y for x, _ in new.values()], axis=0) / len(new) ** 0.75
        return float(np.mean(losses))


@pytest.mark.parametrize("eps", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("centre", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("trust", [np.inf, 1.1])
def test_runs_follow_the_equations(
    problem: Any, plain: Any, contacts: Any, eps: float, centre: float, trust: float
) -> None:
    keys: dict[str, Any] = {"eps": eps, "centre": centre, "trust": trust}
    keys |= {"local_steps": 3, "batch_size": 6, "beta": 0.7, "kappa": 0.4}
    small = problem()
    algorithm, expected = small.build("relay", **keys), Plain(plain, small.build("relay", **keys))
    for contact in contacts(7, 30, progress=0.5):
        update = algorithm.update(contact)
        assert update.train_loss == pytest.approx(expected.visit(contact.clients, eps, trust), rel=1e-9)
        np.testing.assert_allclose(algorithm.token.numpy(), expected.y, atol=1e-10)
        for client in contact.clients:
            np.testing.assert_allclose(algorithm.models[client].numpy(), expected.x[client], atol=1e-10)
            np.testing.assert_allclose(algorithm.duals[client].numpy(), expected.lam[client], atol=1e-10)
        np.testing.assert_allclose(algorithm.mean_dual(algorithm.token).numpy(), expected.mean_dual(eps), atol=1e-10)
    assert len(expected.x) == 7


@pytest.mark.parametrize("count", [1, 3])
def test_the_way_of_the_token_tells_the_mean_dual(problem: Any, count: int) -> None:
    """With equally many clients in every visit; a client need not be told more than a number."""
    algorithm = problem().build("relay", centre=0.7, trust=1.2, local_steps=3)
    generator = np.random.default_rng(1)
    for _ in range(30):
        clients = np.sort(generator.choice(7, count, replace=False))
        algorithm.update(Contact(clients, count, 0.3))
        seen = algorithm.duals[torch.from_numpy(np.flatnonzero(algorithm.seen))]
        torch.testing.assert_close(algorithm.mean_dual(algorithm.token), seen.mean(dim=0), rtol=1e-9, atol=1e-12)
    assert float(algorithm.mean_dual(algorithm.token).norm()) > 1e-3


def test_results_that_were_under_way_together(problem: Any) -> None:
    """Sent off with the same token and back one after the other: nobody's result is lost, and later ones weigh less."""
    algorithm = problem().build("relay", local_steps=3)
    one, two, three = np.array([0]), np.array([2]), np.array([4])
    algorithm.update(Contact(one, 1, 0.3))
    assert torch.equal(algorithm.token, algorithm.models[0])  # alone: it becomes the client's model
    before, sent = algorithm.token.clone(), {c: algorithm.send(np.array([c]), 0.3) for c in (0, 2, 4)}
    for clients in (one, two, three):
        algorithm.update(Contact(clients, 1, 0.3, sent=sent[int(clients[0])]))
    moves = [algorithm.models[c] - before for c in (0, 2, 4)]
    expected = before + moves[0] + moves[1] / 2**0.75 + moves[2] / 3**0.75
    torch.testing.assert_close(algorithm.token, expected, rtol=1e-9, atol=1e-12)
    assert weights([0.0, 3.0]) == pytest.approx([2**-0.75, 5**-0.75])


def test_nothing_is_given_back_where_the_tube_has_a_width(problem: Any) -> None:
    small = problem()
    sizes = list(layers(small.model).values())
    algorithm = small.build("relay", centre=1.0, eps=(0.0,) * (len(sizes) - 1) + (0.1,))
    for clients in ([0], [3], [5], [0]):
        algorithm.update(Contact(np.array(clients), 1, 0.3))
    back = algorithm.mean_dual(algorithm.token)
    assert back[: -sizes[-1]].any() or len(sizes) == 1
    assert not back[-sizes[-1] :].any()


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_the_compiled_update_is_the_plain_one(problem: Any, contacts: Any, eps: float, monkeypatch: Any) -> None:
    keys = {"eps": eps, "centre": 0.7, "trust": 1.5, "local_steps": 2}
    compiled, plainly = (problem().build("relay", **keys) for _ in range(2))
    for contact in contacts(7, 20, progress=0.5):
        compiled.update(contact)
        with monkeypatch.context() as patch:
            patch.setattr("fedmule.learning.algorithms.relay.kernels_for", lambda *tensors: None)
            patch.setattr("fedmule.learning.algorithms.tube.kernels_for", lambda *tensors: None)
            plainly.update(contact)
    for name in ("token", "models", "duals", "last_step_sq"):
        torch.testing.assert_close(getattr(compiled, name), getattr(plainly, name), rtol=1e-9, atol=1e-12)


def test_given_back_in_full_the_token_rests_where_gradients_sum_to_zero() -> None:
    """At x = y the pull is −(lam_i − λ̄). With lam_i = −g_i + λ̄ nobody moves, and Σ g_i = 0; without λ̄ any y rests."""
    g = torch.tensor([[1.0, -2.0], [0.5, 1.0], [-1.5, 1.0]])
    y = torch.tensor([[0.3, 0.4]])
    lam = -g
    assert torch.equal(lam.mean(dim=0), torch.zeros(2))  # Σ g_i = 0: centred or not, the same
    for back in (torch.zeros(2), lam.mean(dim=0)):
        force = -g - (lam - back)
        assert not force.any()
    shifted = g + 1.0  # not a minimum of the sum
    assert not (-shifted - (-shifted)).any()  # the brake: each dual cancels its own gradient
    assert (-shifted - (-shifted - (-shifted).mean(dim=0))).abs().min() > 0.5  # centred, the common part still acts
    assert torch.equal(dual_of(y, y, lam[:1], 1.0, 0.5, 0.0), lam[:1])  # x = y: duals stay
    assert mean_dual(0.3, 2.0, 2.8, 3) == pytest.approx(0.3 * 0.5 / 0.7 / 3)  # 4 results, κ = .5, w = .7, 3 clients
    assert mean_dual(0.3, 0.0, 0.0, 0) == 0.0  # nobody has been met


def test_clients_in_another_order_change_nothing(problem: Any) -> None:
    keys = {"centre": 1.0, "trust": 2.0}
    one, other = (problem().build("relay", **keys) for _ in range(2))
    for clients in ([0, 3, 5], [1, 3], [0, 2, 6]):
        one.update(Contact(np.array(clients), len(clients), 0.2))
        other.update(Contact(np.array(clients[::-1]), len(clients), 0.2))
    torch.testing.assert_close(one.token, other.token, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(one.duals, other.duals, rtol=1e-9, atol=1e-12)


def test_bytes(problem: Any) -> None:
    """One model each way; once the tube is open nothing but the token is sent, once."""
    clients = np.array([1, 4])
    for keys in ({"centre": 0.5}, {"centre": 0.5, "eps": 0.1}, {"centre": 0.0}):
        algorithm = problem().build("relay", **keys)
        size = algorithm.model_bytes
        cost = algorithm.exchange(clients, 0.1)
        assert (cost.bytes_down.tolist(), cost.bytes_up.tolist()) == ([size] * 2, [size] * 2)
        opened = algorithm.exchange(clients, 0.9)
        assert (opened.bytes_down.tolist(), opened.bytes_up.tolist()) == ([size] * 2, [0] * 2)


# --- the trust region ----------------------------------------------------------------------------------------


def test_moves_are_limited_to_a_multiple_of_the_median() -> None:
    region, start = TrustRegion(2.0, 10, torch.zeros(3)), torch.ones(2, 3)
    step = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    for _ in range(3):  # nothing is known yet
        assert torch.equal(region.limited(start + step, start), start + step)
    far = torch.tensor([[0.0, 3.0, 4.0], [0.0, 0.0, 1.0]])
    limited = region.limited(start + far, start)
    torch.testing.assert_close(limited[0], start[0] + far[0] * 2 / 5)  # the median of 1 2 1 2 1 2, the lower: 1
    assert torch.equal(limited[1], start[1] + far[1])


def test_a_model_that_is_not_finite_is_not_accepted() -> None:
    region, start = TrustRegion(2.0, 10, torch.zeros(3)), torch.ones(3, 3)
    x = torch.tensor([[np.nan, 1.0, 1.0], [np.inf, 0.0, 0.0], [2.0, 1.0, 1.0]])
    for _ in range(4):
        assert torch.equal(region.limited(x, start), torch.tensor([[1.0] * 3, [1.0] * 3, [2.0, 1.0, 1.0]]))


def test_only_the_last_moves_count_and_their_number_is_limited() -> None:
    region, start = TrustRegion(3.0, 10**6, torch.zeros(1)), torch.zeros(1, 1)
    for length in [1.0] * MOST + [2.0] * (MOST // 2 + 1):
        region.limited(torch.full((1, 1), length), start)
    assert len(region._lengths) == MOST
    assert float(region.limited(torch.full((1, 1), 100.0), start)) == 6.0


def test_where_nobody_moves_nothing_breaks() -> None:
    region, start = TrustRegion(2.0, 4, torch.zeros(2)), torch.ones(1, 2)
    for _ in range(12):
        assert torch.equal(region.limited(start.clone(), start), start)


# --- visits in which nothing pulls, before the trial of the token --------------------------------------------------


def test_of_many_free_visits_as_much_counts_as_of_enough() -> None:
    found = share_of_free(np.array([0, 1, 4, 5, 100]), 4.0)
    assert found.tolist() == [1.0, 1.0, 1.0, 0.8, 0.04]
    assert share_of_free(np.array([3]), 0.5).tolist() == [1 / 6]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_dual_does_not_grow_with_free_visits(problem: Any, monkeypatch: Any, compiled: bool) -> None:
    """It is the mean of what visits would have added, times as many as count; the mean dual is still known."""
    if not compiled:
        monkeypatch.setattr("fedmule.learning.algorithms.relay.kernels_for", lambda *tensors: None)
    keys = {"step_size": 0.05, "beta": 2.0, "kappa": 0.5, "local_steps": 5}
    algorithm = problem().build("relay", try_at=0.9, centre=0.0, trust=np.inf, **keys)
    enough = ENOUGH / (0.5 * 2.0 * 0.05 * 5)  # 16
    added: dict[int, list[Any]] = {client: [] for client in range(7)}
    for visit in range(7 * 40):
        client = visit % 7
        before = algorithm.token.clone()
        algorithm.update(Contact(np.array([client]), 1, 0.3))
        added[client].append(0.5 * 2.0 * (algorithm.models[client] - before))
        expected = torch.stack(added[client]).sum(dim=0) * min(1.0, enough / len(added[client]))
        torch.testing.assert_close(algorithm.duals[client], expected, rtol=1e-9, atol=1e-12)
        if client == 6:  # all have had as many visits
            torch.testing.assert_close(algorithm.mean_dual(algorithm.token), algorithm.duals.mean(dim=0))
    assert 2 * enough < 40


def test_with_a_pull_everything_counts(problem: Any) -> None:
    """The same visits under a pull, of which there are as many as one likes."""
    algorithm = problem().build("relay", centre=0.0, trust=np.inf, local_steps=5)
    total = torch.zeros_like(algorithm.token)
    for _ in range(100):
        before = algorithm.token.clone()
        algorithm.update(Contact(np.array([2]), 1, 0.3))
        total += algorithm.kappa * algorithm.beta * (algorithm.models[2] - before)
    torch.testing.assert_close(algorithm.duals[2], total, rtol=1e-9, atol=1e-12)
