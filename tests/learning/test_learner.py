"""The learner that the event loop talks to, and its stand-in that replays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Exchange
from fedmule.learning.errors import ReplayError
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.journal import Journal
from fedmule.learning.learner import Learner, ReplayingLearner
from fedmule.learning.tokens import carried_by


@pytest.fixture
def learner(problem) -> Callable[..., Learner]:
    """learner(kind, vehicles, site_data): a learner of a small problem."""

    def make(kind: str = "slack", vehicles: int = 1, site_data: Any = None) -> Learner:
        algorithm = problem().build(kind)
        parts = algorithm, carried_by(vehicles, algorithm), Evaluator(algorithm)
        return Learner(*parts, torch.device("cpu"), 0, site_data)

    return make


def same_cost(a: Exchange, b: Exchange) -> None:
    for name in ("bytes_down", "bytes_up", "flops"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype
    assert (a.broadcast, a.charged) == (b.broadcast, b.charged)


def test_an_update_is_evaluated_at_the_next_refresh(learner, plain, contact) -> None:
    one = learner()
    before = one.test.accuracy.copy()
    assert one.update(0, contact()) is None  # nobody was delivered
    one.begin(0, np.array([1, 4]), 0.0, 0.0)
    assert one.update(0, contact(1, 4)) is not None
    np.testing.assert_array_equal(one.test.accuracy, before)
    one.refresh(0.0)
    models = one.algorithm.models.numpy()
    each = [plain.test_accuracy(models[client], one.algorithm.data, client) for client in range(7)]
    np.testing.assert_allclose(one.test.accuracy, each)
    assert (one.test.accuracy != before).any()
    assert one.participations.tolist() == [0, 1, 0, 0, 1, 0, 0]


def test_costs_are_those_of_the_algorithm_and_of_what_vehicles_carry(learner, contact) -> None:
    one = learner(vehicles=2)
    one.begin(0, np.array([1]), 0.0, 0.0)
    one.update(0, contact(1))
    same_cost(one.cost(0, np.array([1, 2]), 0.1, 5.0), one.algorithm.exchange(np.array([1, 2]), 0.1))
    same_cost(one.meeting_cost(0, 1, 0.1), one.carried.meeting(0, 1, 0.1))
    assert len(list(one.journal.costs())) == 3


def test_a_replay_answers_in_order_and_changes_nothing(learner, contact) -> None:
    one = learner(vehicles=2)
    ask = [one.begin, one.cost, one.begin, one.begin]
    costs = [call(0, np.arange(m), 0.0, 0.0) for call, m in zip(ask, (1, 3, 3, 2), strict=True)]
    costs.append(one.meeting_cost(0, 1, 0.0))
    models, token = one.algorithm.models.clone(), one.algorithm.token.clone()
    replaying = ReplayingLearner(one, Journal.from_arrays(one.journal.arrays()))
    again = [replaying.begin, replaying.cost, replaying.begin, replaying.begin]
    for call, cost in zip(again, costs[:-1], strict=True):
        same_cost(call(0, np.arange(len(cost.flops)), 0.9, 9.0), cost)
    same_cost(replaying.meeting_cost(0, 1, 0.9), costs[-1])
    replaying.finish()
    assert replaying.update(0, contact(1)) is None
    replaying.meet(0, 1)
    replaying.introduce(2, np.array([1]))
    replaying.drop(np.array([1]))
    replaying.refresh(9.0)
    assert np.isnan(replaying.overview(0.5, 9.0).token_test_acc).all()
    assert torch.equal(one.algorithm.models, models)
    assert torch.equal(one.algorithm.token, token)
    assert not one.participations.any()
    assert len(list(one.journal.costs())) == 5


def test_a_replay_that_leaves_its_course_is_stopped(learner) -> None:
    one = learner()
    one.begin(0, np.arange(2), 0.0, 0.0)
    with pytest.raises(ReplayError, match="with 3 clients, in its journal with 2"):
        ReplayingLearner(one, one.journal).begin(0, np.arange(3), 0.0, 0.0)
    with pytest.raises(ReplayError, match="fewer exchanges took place"):
        ReplayingLearner(one, one.journal).finish()
    replaying = ReplayingLearner(one, one.journal)
    replaying.begin(0, np.arange(2), 0.0, 0.0)
    with pytest.raises(ReplayError, match="more exchanges took place"):
        replaying.meeting_cost(0, 1, 0.0)


class Moved:
    """Stands for data that change with clients' sites."""

    def __init__(self, learner: Callable[[], Learner]) -> None:
        self.calls: list[tuple[list[int], list[int]]] = []
        self._learner = learner

    def move(self, clients: np.ndarray, sites: np.ndarray) -> None:
        self.calls.append((clients.tolist(), sites.tolist()))
        data = self._learner().algorithm.data
        for client in clients.tolist():
            data.labels[data.first[client] : data.first[client + 1]] = 0


def test_moved_clients_are_evaluated_on_their_new_data_but_not_in_a_replay(learner) -> None:
    made: list[Learner] = []
    data = Moved(lambda: made[0])
    made.append(learner(site_data=data))
    one = made[0]
    before = one.test.accuracy.copy()
    ReplayingLearner(one, Journal()).move(np.array([0, 3]), np.array([1, 1]), 5.0)
    assert data.calls == [([0, 3], [1, 1])]
    np.testing.assert_array_equal(one.test.accuracy, before)
    one.move(np.array([0, 3]), np.array([1, 1]), 5.0)
    np.testing.assert_allclose(one.test.accuracy, Evaluator(one.algorithm).test.accuracy)
    assert (one.test.accuracy != before).any()


def test_a_journal_keeps_alike_costs_once_and_comes_back_from_arrays(learner) -> None:
    one = learner("fedavg")
    journal = one.journal
    for m in (2, 3, 2, 2, 3):
        one.cost(0, np.arange(m), 0.0, 0.0)
    cost = one.algorithm.exchange(np.arange(2), 0.0)
    journal.add(Exchange(cost.bytes_down, cost.bytes_up, cost.flops, broadcast=False, charged=False))
    arrays = journal.arrays()
    assert arrays.order.tolist() == [0, 1, 0, 0, 1, 2]
    assert arrays.clients.tolist() == [2, 3, 2]
    again = Journal.from_arrays(copy.deepcopy(arrays))
    for a, b in zip(journal.costs(), again.costs(), strict=True):
        same_cost(a, b)
    assert list(Journal.from_arrays(Journal().arrays()).costs()) == []
