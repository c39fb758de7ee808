"""Exchanges that overlap: clients learn from what they were sent, and results act on the token in order of arrival."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from test_algorithms import PER_CLIENT

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.at_contact import AtContact
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.learner import Learner
from fedmule.learning.tokens import carried_by
from fedmule.simulator.runs.state import load_state, save_state

CLIENTS, PACE, MIX = 7, 0.3, 0.4
KINDS: dict[str, dict[str, Any]] = {
    "slack": {},
    "slack, all": {"growing_mean": False},
    "slack, pace": {"token_pace": PACE},
    "neighbourhood": {"rho": 0.5},
    "neighbourhood, cv": {},
    "neighbourhood, eb": {"rho": "eb"},
    **{kind: {} for kind in ("derived", "printed", "walkman", "fedavg", "ditto", "apfl", "per_fedavg", "ifca")},
    "pfedme": {"mix": MIX},
    **{kind: {} for kind in ("fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe")},
    "fedex_async": {"staleness": "published"},
    "squad_oracle": {},
    "local": {},
}
MEANS = ("slack", "slack, all", "derived", "walkman", "neighbourhood", "neighbourhood, cv", "neighbourhood, eb")


def build(problem: Any, case: str) -> Any:
    kind = case.partition(",")[0]
    made = problem(kind=kind)
    object.__setattr__(made.data, "site", np.arange(CLIENTS) % 2)
    keys = {
        "local_steps": 2,
        "open_at": 1.0,
        "beta": 5.0,
        "kappa": 0.1,
        "eps": 0.001,
        "clusters": 2,
        **KINDS.get(case, {}),
    }
    algorithm = made.build(kind, **keys)
    if kind == "printed":  # its own start never moves
        algorithm.token = made.start.clone()
        algorithm.models = 0.01 * torch.from_numpy(np.random.default_rng(0).normal(size=algorithm.models.shape))
    return algorithm


def learner_of(algorithm: Any, vehicles: int = 1) -> Learner:
    carried = carried_by(vehicles, algorithm)
    return Learner(algorithm, carried, Evaluator(algorithm), torch.device("cpu"), 0)


class Expected:
    """A token by the rule of each algorithm, from what clients computed in copies made when exchanges began."""

    def __init__(self, case: str, algorithm: Any) -> None:
        self.case, self.kind = case, case.partition(",")[0]
        self.now = copy.deepcopy(algorithm)

    def begin(self) -> Any:
        return copy.deepcopy(self.now)

    def arrive(self, then: Any, contact: Contact) -> None:
        before, now = then.token.clone(), self.now
        sums = {name: getattr(then, name).clone() for name in ("mean_sum", "mean_count") if hasattr(then, name)}
        if hasattr(now, "neighbours"):  # the vehicle counts the visit and chooses ρ when results arrive
            now.neighbours.visit(contact.visited, contact.near.tolist())
            if self.case == "neighbourhood, eb":
                now._measure(contact.clients)
                then._measure = lambda clients: None
            then.rho, then._trials = now.rho, now._trials.copy()
        if hasattr(now, "_kappa"):
            then._kappa = now._kappa
        then.update(contact)
        for name, was in sums.items():
            setattr(now, name, getattr(now, name) + getattr(then, name) - was)
        chosen = np.unique(then.cluster[contact.clients]) if self.kind in ("ifca", "squad_oracle") else ()
        self._copy_clients(now, then, contact.clients)
        if self.kind == "local":
            reference = now.reference
            self._copy_clients(reference, then.reference, contact.clients)
            reference.token = reference.contributions[torch.from_numpy(reference.seen)].mean(dim=0)
        c = getattr(now, "contributions", None)
        if self.case == "slack, pace":
            now.token = now.token + PACE * (c[contact.clients].mean(dim=0) - now.token)
        elif self.case in MEANS:
            counts = now.seen if getattr(now, "growing_mean", False) else np.ones(CLIENTS, dtype=bool)
            now.token = c[torch.from_numpy(np.flatnonzero(counts))].mean(dim=0)
        elif self.kind in ("printed", "fedex_async"):
            now.token = now.token + then.token - before
        elif self.kind == "pfedme":
            mean = (then.token - (1 - MIX) * before) / MIX
            now.token = (1 - MIX) * now.token + MIX * mean
        elif len(chosen):
            now.centres = now.centres.clone()
            now.centres[chosen] = then.centres[chosen]
            now.token = now.centres.mean(dim=0)
        else:  # a mean of the delivered models alone, whatever the token was
            now.token = then.token

    def _copy_clients(self, now: Any, then: Any, clients: np.ndarray) -> None:
        for name in PER_CLIENT:
            if getattr(now, name, None) is not None:
                getattr(now, name)[clients] = getattr(then, name)[clients]
        for name in ("rho", "_kappa"):
            if getattr(now, name, None) is not None:
                setattr(now, name, getattr(then, name))
        if hasattr(now, "seen"):
            now.seen_count = int(now.seen.sum())


def overlapping(seed: int, exchanges: int = 24) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Exchanges that begin and end in random order, some clients of which are lost: (what, asked, delivered)."""
    draw, free, under_way, made = np.random.default_rng(seed), set(range(CLIENTS)), [], []
    while exchanges or under_way:
        if exchanges and free and (not under_way or draw.random() < 0.55):
            count = int(draw.integers(1, min(3, len(free)) + 1))
            asked = np.sort(draw.choice(sorted(free), count, replace=False))
            free -= set(asked.tolist())
            under_way.append(asked)
            made.append(("begin", asked, asked))
            exchanges -= 1
        else:
            asked = under_way.pop(int(draw.integers(len(under_way))))
            free |= set(asked.tolist())
            made.append(("end", asked, asked[draw.random(len(asked)) < 0.75]))
    return made


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_results_act_on_the_token_in_order_of_arrival(problem: Any, case: str, seed: int) -> None:
    algorithm = build(problem, case)
    learner, expected = learner_of(algorithm), Expected(case, algorithm)
    began: dict[tuple[int, ...], Any] = {}
    overlaps = 0
    for what, asked, delivered in overlapping(seed):
        visited, near = int(asked[0]), asked
        if what == "begin":
            learner.begin(0, asked, 0.1, 0.0, visited, near)
            began[tuple(asked)] = expected.begin()
            continue
        overlaps += len(began) > 1
        contact = Contact(delivered, len(asked), 0.1, visited, near)
        learner.drop(np.setdiff1d(asked, delivered))
        then = began.pop(tuple(asked))
        if not len(delivered):
            assert learner.update(0, contact) is None
            continue
        learner.update(0, contact)
        expected.arrive(then, contact)
        np.testing.assert_allclose(algorithm.models, expected.now.models, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(algorithm.token, expected.now.token, rtol=1e-9, atol=1e-12)
        if case == "local":
            reference, theirs = algorithm.reference, expected.now.reference
            np.testing.assert_allclose(reference.contributions, theirs.contributions, rtol=1e-9, atol=1e-12)
    assert overlaps > 5
    assert not learner.training._sent
    assert (algorithm.participations > 1).any()
    if case == "neighbourhood, cv":
        assert not np.isnan(algorithm._trials).all()
        assert algorithm.rho == expected.now.rho


@pytest.mark.parametrize("case", [*KINDS, "fedex_sync"])
def test_one_exchange_at_a_time_gives_the_same_bits_as_an_update(problem: Any, contacts: Any, case: str) -> None:
    ours, plain = build(problem, case), build(problem, case)
    learner = learner_of(ours)
    for contact in contacts(CLIENTS, 25):
        learner.begin(0, contact.clients, contact.progress, 0.0, contact.visited, contact.near)
        learner.update(0, contact)
        plain.update(contact)
        assert torch.equal(ours.token, plain.token)
        assert torch.equal(ours.models, plain.models)


@pytest.mark.parametrize("kind", ["slack", "slack, all", "derived", "walkman"])
@pytest.mark.parametrize("seed", range(3))
def test_tokens_of_several_vehicles_stay_means_of_the_last_contributions(problem: Any, kind: str, seed: int) -> None:
    algorithm = build(problem, kind)
    learner, draw, by = learner_of(algorithm, 3), np.random.default_rng(seed), {}
    for what, asked, delivered in overlapping(seed):
        if what == "begin":
            by[tuple(asked)] = int(draw.integers(3))
            learner.begin(by[tuple(asked)], asked, 0.1, 0.0)
        else:
            learner.update(by.pop(tuple(asked)), Contact(delivered, 3, 0.1))
        if draw.random() < 0.2:
            learner.meet(*draw.choice(3, 2, replace=False).tolist())
    for a, b in ((0, 1), (1, 2), (0, 1)):
        learner.meet(a, b)
    counts = algorithm.participations > (0 if kind == "slack" else -1)
    mean = algorithm.contributions[torch.from_numpy(np.flatnonzero(counts))].mean(dim=0)
    for vehicle in range(3):
        np.testing.assert_allclose(learner.carried.of(vehicle)["token"], mean, rtol=1e-9, atol=1e-12)


def test_clients_learn_from_the_token_of_the_vehicle_that_sent_it(problem: Any) -> None:
    algorithm, other = build(problem, "fedavg"), build(problem, "fedavg")
    learner = learner_of(algorithm, 2)
    for vehicle, client in ((0, 1), (1, 2)):
        learner.begin(vehicle, np.array([client]), 0.1, 0.0)
        learner.update(vehicle, Contact(np.array([client]), 1, 0.1))
    sent = [learner.carried.of(vehicle)["token"].clone() for vehicle in range(2)]
    mean = algorithm.token.clone()
    learner.begin(1, np.array([3]), 0.1, 0.0)
    assert torch.equal(algorithm.token, mean)  # in between the algorithm holds the mean
    learner.begin(0, np.array([4]), 0.1, 0.0)
    learner.meet(0, 1)
    for vehicle, client in ((0, 4), (1, 3)):
        learner.update(vehicle, Contact(np.array([client]), 1, 0.1))
        other.token = sent[vehicle]
        other.update(Contact(np.array([client]), 1, 0.1))
        assert torch.equal(algorithm.models[client], other.models[client])


@pytest.mark.parametrize("case", ["slack", "ifca", "neighbourhood, cv", "local"])
def test_exchanges_under_way_outlast_a_checkpoint(problem: Any, tmp_path: Any, case: str) -> None:
    one, again = learner_of(build(problem, case)), learner_of(build(problem, case))
    made = overlapping(1)

    def play(learner: Learner, events: list[Any]) -> None:
        for what, asked, delivered in events:
            if what == "begin":
                learner.begin(0, asked, 0.1, 3.0)
            else:
                learner.drop(np.setdiff1d(asked, delivered))
                learner.update(0, Contact(delivered, 3, 0.1, ended_s=5.0))

    play(one, made[:15])
    assert len(one.training._sent) > 1
    save_state(tmp_path / "state.npz", one.state(), one.constants())
    load_state(tmp_path / "state.npz", again.state())
    play(one, made[15:])
    play(again, made[15:])
    assert torch.equal(one.algorithm.token, again.algorithm.token)
    assert torch.equal(one.algorithm.models, again.algorithm.models)


def test_the_age_of_results(problem: Any) -> None:
    algorithm = build(problem, "fedavg")
    training = AtContact(algorithm, carried_by(1, algorithm))
    training.begin(0, np.array([0, 1]), 0.1, 10.0)
    training.begin(0, np.array([2]), 0.1, 12.0)
    assert training.update(0, Contact(np.array([0, 2]), 3, 0.1, ended_s=15.0)).age_s == 4.0
    training.drop(np.array([1]))
    tuned = problem().build("fedavg", fine_tune=True, open_at=0.5)
    training = AtContact(tuned, carried_by(1, tuned))
    training.begin(0, np.array([0]), 0.9, 10.0)  # takes the token and hands nothing over
    assert training.update(0, Contact(np.array([0]), 3, 0.9, ended_s=15.0)).age_s is None
