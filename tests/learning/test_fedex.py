"""FedEx: tokens against an independent computation with each result's own start, rounds, lost exchanges, meetings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from test_between_contacts import build, learner_of, meet
from test_under_way import overlapping

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.fedex import after_round, shares

SAMPLES = torch.tensor([3.0, 1.0], dtype=torch.float64)


def test_shares_on_a_regular_tour_are_the_published_ones() -> None:
    """Groups of two of eight clients: six other results arrive between a delivery and the pick-up."""
    published = SAMPLES / SAMPLES.mean() / 8
    torch.testing.assert_close(shares(SAMPLES, torch.full((2,), 6.0).double(), 1.0), published)
    assert shares(torch.tensor([5.0]), torch.tensor([0.0]), 0.7).tolist() == [1.0]  # alone and fresh: y becomes x
    assert shares(SAMPLES, torch.tensor([0.0, 7.0]).double(), 0.0).tolist() == [1.5, 0.5]
    torch.testing.assert_close(
        shares(SAMPLES, torch.tensor([2.0, 7.0]).double(), 0.5), torch.tensor([1.5 / 2, 0.5 / 3]).double()
    )
    assert shares(SAMPLES, torch.tensor([-4.0, 0.0]), 1.0).tolist() == [0.75, 0.25]  # of a vehicle that had more


def test_a_round_moves_the_token_by_the_mean_change() -> None:
    y, x = torch.tensor([1.0, 2.0]), torch.tensor([[2.0, 2.0], [1.0, 6.0]])
    gathered = torch.tensor([3.0, 1.0]) @ (x - y)
    assert after_round(y, gathered, torch.tensor(4.0)).tolist() == [1.75, 3.0]


class Plain:
    """The token and the rounds by their definition, from a list of all results."""

    def __init__(self, case: str, algorithm: Any, patience: float = 2.0) -> None:
        self.case, self.data, self.y, self.patience = case, algorithm.data, algorithm.token.clone(), patience
        self.sent: dict[int, tuple[torch.Tensor, int]] = {}  # token of clients whose exchange is under way
        self.given: dict[int, tuple[torch.Tensor, int]] = {}  # token that each client trains on, results before it
        self.round: list[tuple[int, torch.Tensor]] = []
        self.arrived = self.rounds = 0

    def send(self, client: int) -> None:
        self.sent[client] = self.y.clone(), self.arrived

    def arrive(self, results: dict[int, torch.Tensor], delivered: list[int]) -> None:
        n = {c: float(self.data.train_count[c]) for c in range(self.data.clients)}
        changes = {c: x - self.given[c][0] for c, x in results.items()}
        if self.case == "fedex_sync":
            self.round += list(changes.items())
            times = [sum(c == other for other, _ in self.round) for c in results]
            if results and ({c for c, _ in self.round} == set(self.given) or max(times) >= self.patience):
                total = sum(n[c] for c, _ in self.round)
                self.y = self.y + sum(n[c] * change for c, change in self.round) / total
                self.round, self.rounds = [], self.rounds + 1
        elif "aged" in self.case:
            mean = np.mean([n[c] for c in results]) if results else 1.0
            for c, change in changes.items():
                k = self.arrived - self.given[c][1]
                self.y = self.y + n[c] / mean * (len(results) + k) ** -0.5 * change
        else:
            self.y = self.y + sum((n[c] / sum(n.values()) * change for c, change in changes.items()), torch.zeros(1))
        self.arrived += len(results)
        for client in delivered:
            self.given[client] = self.sent.pop(client)


@pytest.mark.parametrize("case", ["fedex_sync", "fedex_async", "fedex_async, aged"])
@pytest.mark.parametrize("seed", range(3))
def test_runs_follow_the_equations(problem: Any, case: str, seed: int) -> None:
    """Exchanges that overlap, some of them lost: a lost result counts when it is picked up at last."""
    algorithm = build(problem, case, fine_tune=False)
    learner, plain = learner_of(algorithm, rate=1.0), Plain(case, algorithm)
    now_s, draw, under_way = 0.0, np.random.default_rng(seed), {}
    for what, asked, delivered in overlapping(seed, 60):
        now_s += float(draw.exponential(3.0))
        if what == "begin":
            learner.begin(0, asked, 0.1, now_s, int(asked[0]), asked)
            for client in asked.tolist():
                plain.send(client)
                if client in plain.given and learner.training._steps(np.array([client]), now_s)[0]:
                    under_way[client] = learner.training.model(client, now_s).clone()
            continue
        learner.drop(np.setdiff1d(asked, delivered))
        results = {c: under_way.pop(c) for c in asked.tolist() if c in under_way}
        update = learner.update(0, Contact(delivered, 3, 0.1, int(asked[0]), asked, now_s))
        before = plain.y
        plain.arrive({c: x for c, x in results.items() if c in delivered}, delivered.tolist())
        torch.testing.assert_close(algorithm.token, plain.y, rtol=0, atol=1e-10)
        if update is not None:
            assert update.token_step_norm == pytest.approx(float((plain.y - before).norm()), abs=1e-10)
        for client, x in results.items():
            if client in delivered:
                assert torch.equal(algorithm.models[client], x)
    assert plain.arrived > 30
    assert plain.rounds > 3 or case != "fedex_sync"
    assert learner.training._sent == {}


def tour(learner: Any, clients: Any, now_s: float) -> list[float]:
    """Meet these clients one after the other; return how far the token moved each time."""
    return [meet(learner, [c], now_s + 10 * i, now_s + 10 * i + 1).token_step_norm for i, c in enumerate(clients)]


def test_a_round_ends_with_the_last_of_all_who_were_given_a_token(problem: Any) -> None:
    algorithm = build(problem, "fedex_sync", patience=math.inf)
    learner = learner_of(algorithm)
    assert tour(learner, range(5), 0.0) == [0.0] * 5  # nobody has a result yet
    moved = tour(learner, range(5), 100.0)
    assert moved[:4] == [0.0] * 4
    assert moved[4] > 0
    moved = tour(learner, [0, 1, 2, 3, 2, 5, 4, 5], 200.0)  # 5 is new: it is waited for too
    assert moved[:7] == [0.0] * 7
    assert moved[7] > 0


@pytest.mark.parametrize("patience", [2, 3])
def test_who_has_gone_does_not_block_a_round_for_ever(problem: Any, patience: int) -> None:
    algorithm = build(problem, "fedex_sync", patience=patience)
    learner = learner_of(algorithm)
    tour(learner, range(4), 0.0)
    tour(learner, range(4), 100.0)
    moved = [tour(learner, range(3), 1000.0 * (k + 2)) for k in range(2 * patience - 1)]  # client 3 does not come again
    first = 3 * (patience - 1)  # when client 0 hands over for the `patience`-th time
    assert np.flatnonzero(np.ravel(moved)).tolist() == [first, 2 * first + 1]


def test_nobody_is_waited_for_who_was_never_met(problem: Any) -> None:
    learner = learner_of(build(problem, "fedex_sync", patience=math.inf))
    tour(learner, [2], 0.0)
    assert tour(learner, [2], 100.0)[0] > 0


def test_vehicles_that_meet_share_the_results_of_a_round(problem: Any) -> None:
    """Each has picked up two of four; after they have met both end the round with the mean over all four."""
    algorithm = build(problem, "fedex_sync", patience=math.inf)
    learner = learner_of(algorithm, vehicles=2)
    start, n = algorithm.token.clone(), torch.from_numpy(algorithm.data.train_count).double()

    def visit(vehicle: int, client: int, now_s: float) -> float:
        who = np.array([client])
        learner.begin(vehicle, who, 0.1, now_s, client, who)
        return learner.update(vehicle, Contact(who, 1, 0.1, client, who, now_s + 1)).token_step_norm

    for client in range(4):
        visit(client // 2, client, 10.0 * client)
    assert [visit(client // 2, client, 100.0 + 10 * client) for client in range(3)] == [0.0] * 3
    models = algorithm.models.clone()
    learner.meet(0, 1)
    assert torch.equal(learner.carried.of(1)["results"], torch.tensor([0.5, 0.5, 0.5, 0, 0, 0, 0]).double())
    others = learner.carried.of(0)["gathered"].clone()
    moved = visit(1, 3, 200.0)
    assert moved > 0
    weights = torch.tensor([0.5, 0.5, 0.5, 1.0]) * n[:4]
    models[3] = algorithm.models[3]
    mean = weights @ (models[:4] - start) / weights.sum()
    torch.testing.assert_close(learner.carried.of(1)["token"], start + mean)
    assert torch.equal(learner.carried.of(0)["gathered"], others)  # the other vehicle's round goes on
    assert torch.equal(learner.carried.of(0)["token"], start)


def test_a_meeting_costs_the_results_of_the_round_too(problem: Any) -> None:
    size = 4 * 18
    for case, expected in (("fedex_sync", 2 * size + 4 * 7), ("fedex_async", size)):
        algorithm = build(problem, case, fine_tune=True, open_at=0.5)
        assert algorithm.meeting(0.1).bytes_down.tolist() == [expected]
        assert algorithm.meeting(0.6).bytes_up.tolist() == [0]


def test_an_old_result_moves_the_token_less(problem: Any) -> None:
    """Client 0 hands over what it has had since the start, after four others or at once."""
    moved = []
    for others in ([], [1, 2, 3, 4]):
        learner = learner_of(build(problem, "fedex_async, aged", fine_tune=False), max_steps=5)
        tour(learner, [0, 1, 2, 3, 4], 0.0)
        tour(learner, others, 100.0)
        before = learner.training.model(0, 1e6) - learner.algorithm.models[0]
        moved.append(meet(learner, [0], 1e6, 1e6).token_step_norm / float(before.norm()))
    assert moved[0] == pytest.approx(1.0)
    assert moved[1] == pytest.approx(5**-0.5)
