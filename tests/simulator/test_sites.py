"""Runs in which the sites of clients matter."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from short_runs import run, same

from fedmule.learning.data.client_data import ClientData
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.population import _near_each_other
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.rules import broken_rules

Small = Callable[..., Scenario]

AT_S = 90.0
VISITS = 30  # about 20 before AT_S
SQUADS = {"kind": "squads", "squads": 3, "regroup_at_s": AT_S, "regroup_share": 0.5}
NEIGHBOURHOOD = {"kind": "rwsadmm", "token": "neighbourhood"}
ALGORITHMS: list[dict[str, Any]] = [
    *({"algorithm": {**NEIGHBOURHOOD, "rho": rho}} for rho in ("cv", "eb", 0.5)),
    {"algorithm": {"kind": "ifca", "fine_tune": True, "clusters": 3}},
    {"algorithm": {"kind": "squad_oracle", "fine_tune": True}},
]
CLUMPS = [[10.0, 10.0], [290.0, 10.0], [12.0, 15.0], [20.0, 190.0], [285.0, 12.0], [25.0, 185.0], [15.0, 8.0]]


def regrouping(small: Small, **learning: Any) -> Scenario:
    learning = {"shift": "permuted", "algorithm": NEIGHBOURHOOD, **learning}
    return small(clients={"count": 9, "mobility": SQUADS}, learning=learning, stop={"visits": VISITS})


def accuracies(simulation: Simulation) -> list[float]:
    """Accuracy of each client's model on its own current test data."""
    algorithm, data = simulation.learner.algorithm, simulation.learner.algorithm.data
    found = []
    for client, first in enumerate(data.test_first):
        rows = slice(first, data.first[client + 1])
        model = simulation.learner.model(client, simulation.env.now)
        right = algorithm.model.scores(model, data.features[rows]).argmax(1) == data.labels[rows]
        found.append(float(right.double().mean()))
    return found


# --- clients who change squad --------------------------------------------------------------------------------


@pytest.mark.parametrize("learning", [*ALGORITHMS, {"algorithm": {"kind": "local", "reference": NEIGHBOURHOOD}}])
def test_data_change_when_clients_change_squad(small: Small, learning: dict[str, Any]) -> None:
    simulation = Simulation(regrouping(small, **{"algorithm": "rwsadmm", **learning}))
    sites, data = simulation.world.sites, simulation.learner.algorithm.data
    assert sites.site is not None
    assert data.site is not None
    assert sites.change_at_s == AT_S
    assert 3 <= len(sites.movers) <= 5
    assert (sites.to != sites.site[sites.movers]).all()
    simulation.start()
    before, site = data.labels.clone(), data.site.copy()
    simulation.env.run(until=AT_S - 1e-6)
    assert simulation.ledger.visits > 3
    assert torch.equal(data.labels, before)
    earlier = simulation.learner.evaluator.test.accuracy
    simulation.env.run(until=AT_S + 1e-6)
    owner = np.repeat(np.arange(9), np.diff(data.first))
    changed = (data.labels != before).numpy()
    assert set(owner[changed]) == set(sites.movers)
    np.testing.assert_array_equal(np.flatnonzero(data.site != site), sites.movers)
    np.testing.assert_array_equal(data.site[sites.movers], sites.to)
    later = simulation.learner.evaluator.test.accuracy
    assert later == pytest.approx(accuracies(simulation))  # looked at again at once, not when next visited
    assert (later != earlier).any()
    assert simulation.ledger.accuracy == pytest.approx(np.mean(later))
    for visits in (simulation.ledger.visits + 1, VISITS - 1):
        while simulation.ledger.visits < visits:
            simulation.env.step()
        assert simulation.learner.evaluator.test.accuracy == pytest.approx(accuracies(simulation))


def test_training_losses_are_those_of_the_new_data(small: Small) -> None:
    simulation = Simulation(regrouping(small, open_at=0.0, evaluate_every=100))  # L_β is the mean loss alone
    simulation.start()
    simulation.env.run(until=AT_S + 1e-6)
    algorithm, data = simulation.learner.algorithm, simulation.learner.algorithm.data
    losses = []
    for client, count in enumerate(data.train_count):
        rows = slice(data.first[client], data.first[client] + count)
        scores = algorithm.model.scores(algorithm.models[client], data.features[rows])
        losses.append(float(torch.nn.functional.cross_entropy(scores, data.labels[rows])))
    assert simulation.learner.evaluator.overview(1.0).lagrangian == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("learning", ALGORITHMS)
def test_same_seed_same_bits(small: Small, tmp_path: Path, learning: dict[str, Any]) -> None:
    scenario = regrouping(
        small, **{"algorithm": "rwsadmm", "partition_over": "sites", "partition": "dirichlet", **learning}
    )
    first, second = (run(scenario, tmp_path / name) for name in "ab")
    for table in ("contacts", "clients", "track"):
        same(getattr(first, table), getattr(second, table))
    assert first.contacts["sim_time_s"].iloc[-1] > AT_S


def test_where_sites_do_not_matter_nothing_changes(small: Small) -> None:
    simulation = Simulation(small(clients={"count": 9, "mobility": SQUADS}, stop={"visits": VISITS}))
    assert simulation.world.sites.site is None
    assert simulation.learner.algorithm.data.site is None
    before = simulation.learner.algorithm.data.labels.clone()
    simulation.run()
    assert simulation.env.now > AT_S
    assert torch.equal(simulation.learner.algorithm.data.labels, before)


def test_what_is_learnt_from_neighbours_helps_where_sites_differ(small: Small) -> None:
    """Each squad has different labels; the neighbourhood's token fits them, the global one does not."""
    keys: dict[str, Any] = {"shift": "permuted", "partition": "iid", "evaluate_every": 100, "open_at": 1.0}
    mobility = {"kind": "squads", "squads": 4, "spread_m": 10}
    found = {}
    for token in ("global", "neighbourhood"):
        scenario = small(
            terrain={"size_m": [800, 800]},
            clients={"count": 16, "mobility": mobility},
            radio={"kind": "disc", "range_m": 60.0},
            learning={
                "algorithm": {"kind": "rwsadmm", "token": token},
                "dataset": {"kind": "synthetic", "samples": [60, 61]},
                **keys,
            },
            stop={"visits": 40},
        )
        found[token] = Simulation(scenario).run()["token_test_acc"]
    assert found["neighbourhood"] > found["global"] + 0.1


# --- sites without squads -----------------------------------------------------------------------------------


def clumped(small: Small, **learning: Any) -> Simulation:
    clients = {"count": len(CLUMPS), "mobility": {"kind": "static", "positions": CLUMPS}}
    return Simulation(small(clients=clients, learning={"sites": 3, **learning}, terrain={"obstacles": []}))


def test_clients_who_start_near_each_other_share_a_site(small: Small) -> None:
    site = clumped(small, shift="permuted").world.sites.site
    assert site is not None
    clumps = {frozenset(np.flatnonzero(site == at).tolist()) for at in range(3)}
    assert clumps == {frozenset({0, 2, 6}), frozenset({1, 4}), frozenset({3, 5})}


@pytest.mark.parametrize("kind", ["waypoint", "redrawn"])
def test_other_movements_have_sites_by_where_clients_start(small: Small, kind: str) -> None:
    mobility = {"kind": kind} if kind == "waypoint" else {"kind": kind, "neighbours": 1}
    simulation = Simulation(small(clients={"mobility": mobility}, learning={"shift": "permuted", "sites": 3}))
    sites = simulation.world.sites
    assert sites.site is not None
    assert set(sites.site) == set(range(sites.count))
    assert sites.count <= 3
    assert sites.change_at_s is None
    assert simulation.run()["visits"] == 20


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("distinct", [1, 2, 5])
def test_there_are_no_more_groups_than_sites(count: int, distinct: int) -> None:
    xy = np.repeat(np.random.default_rng(0).random((distinct, 2)), 3, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = _near_each_other(xy, count, np.random.default_rng(0))
    assert len(group) == 3 * distinct
    assert set(group) == set(range(group.max() + 1))
    assert group.max() + 1 <= min(count, distinct)
    for at in range(distinct):
        assert len(set(group[3 * at : 3 * at + 3])) == 1  # who starts at the same spot is together


def test_samples_are_distributed_over_sites(small: Small) -> None:
    simulation = clumped(small, partition_over="sites", partition={"kind": "labels", "labels": 2})
    data = simulation.learner.algorithm.data
    assert data.site is not None
    labels = [set(data.labels[data.first[i] : data.first[i + 1]].tolist()) for i in range(7)]
    of_site = [set.union(*(labels[i] for i in np.flatnonzero(data.site == at))) for at in range(3)]
    assert max(len(both) for both in of_site) == 2  # one where there are no samples of the other
    assert len(set.union(*of_site)) > 2
    sizes = [np.diff(data.first)[data.site == at] for at in range(3)]
    assert all(size.max() - size.min() <= 1 for size in sizes)
    assert simulation.run()["visits"] == 20


def test_data_that_do_not_fit_the_sites_are_reported(small: Small) -> None:
    with pytest.raises(ScenarioError, match=r'learning\.shift = "rotated": needs images'):
        Simulation(small(learning={"shift": "rotated"}))
    with pytest.raises(ScenarioError, match="the data belong to 8 clients or sites, but the scenario has 2"):
        Simulation(small(learning={"partition_over": "sites", "partition": "column"}))


class OwnData:
    """A plugin data set that is created once and already partitioned."""

    made: ClientData

    def __new__(cls, clients: int, generator: np.random.Generator) -> ClientData:  # type: ignore[misc]
        return cls.made


def test_data_of_a_plugin_are_not_modified(small: Small) -> None:
    made = Simulation(small()).learner.algorithm.data
    OwnData.made = replace(made, labels=made.labels.clone())
    scenario = small(learning={"dataset": {"kind": "my.module:OwnData"}, "shift": "permuted"})
    one, again = (Simulation(scenario, {"learning.dataset": OwnData}).learner.algorithm.data for _ in range(2))
    assert torch.equal(OwnData.made.labels, made.labels)
    assert torch.equal(one.labels, again.labels)
    assert not torch.equal(one.labels, made.labels)


# --- tokens of neighbourhoods in runs ------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [{"variant": "derived"}, {"variant": "printed"}, {}])
def test_tokens_of_neighbourhoods_need_the_vehicle_and_slack(small: Small, keys: dict[str, Any]) -> None:
    server = "vehicle" if keys else "star"
    problems = broken_rules(small(learning={"algorithm": {**NEIGHBOURHOOD, **keys}, "server": server}))
    assert [problem.key for problem in problems] == ["learning.algorithm.token"]
    assert "slack" in problems[0].message
    assert not broken_rules(small(learning={"algorithm": NEIGHBOURHOOD}))
    assert not broken_rules(small(learning={"algorithm": {"kind": "rwsadmm", **keys}, "server": server}))


@pytest.mark.parametrize("rho", [0, 1, 0.25])
def test_a_fixed_share_is_taken_as_given(small: Small, rho: float) -> None:
    algorithm: Any = Simulation(small(learning={"algorithm": {**NEIGHBOURHOOD, "rho": rho}})).learner.algorithm
    assert algorithm.rho == rho


@pytest.mark.parametrize("learning", ALGORITHMS)
def test_late_clients(small: Small, tmp_path: Path, learning: dict[str, Any]) -> None:
    keys = {"shift": "permuted", "evaluate_every": 1, "open_at": 0.8, **learning}
    scenario = small(clients={"late": 3, "late_at": 0.5}, vehicle={"jump": 0.5}, learning=keys, stop={"visits": 30})
    found = run(scenario, tmp_path / "a")
    took_part = found.contacts["active_ids"].map(lambda ids: bool(set(ids) & {5, 6, 7}))
    (join,) = found.visits["contact"][found.visits["visit"] == 15]  # they join when this contact has ended
    assert not took_part[:join].any()
    assert took_part[join:].any()
    before = found.clients[(found.clients["contact"] == join) & (found.clients["client"] >= 5)]
    if "neighbourhood" in str(learning):  # they are introduced to their neighbours as they join
        assert 0 < found.summary["late_token_test_acc"] <= 1
    else:
        assert found.summary["late_token_test_acc"] == pytest.approx(before["token_test_acc"].mean())
    assert found.summary["late_personal_test_acc"] > 0


def test_late_clients_would_get_the_model_of_their_site(small: Small) -> None:
    """Before they are ever met, under the oracle."""
    simulation = Simulation(small(clients={"late": 3}, learning={"algorithm": "squad_oracle"}, stop={"visits": 12}))
    simulation.start()
    while simulation.ledger.visits < 5:
        simulation.env.step()
    algorithm: Any = simulation.learner.algorithm
    assert simulation.world.sites.site is not None
    assert not algorithm.participations[5:].any()
    tokens = algorithm.tokens(np.array([5, 6, 7]))
    assert torch.equal(tokens, algorithm.centres[simulation.world.sites.site[5:]])


def test_a_lost_exchange_leaves_neighbourhoods_as_they_were(small: Small) -> None:
    # A slow radio: everyone walks out of its range long before a model is through.
    simulation = Simulation(
        small(
            clients={"mobility": {"kind": "waypoint", "speed_mps": [2.0, 3.0], "pause_s": [0.0, 0.0]}},
            radio={"kind": "disc", "range_m": 10.0, "rate_mbps": 0.0001},
            learning={"algorithm": NEIGHBOURHOOD},
            stop={"visits": 8},
        )
    )
    algorithm: Any = simulation.learner.algorithm
    before = algorithm.models.clone(), algorithm.token.clone(), repr(vars(algorithm.neighbours))
    summary = simulation.run()
    assert (summary["delivered"], summary["visits"]) == (0, 8)
    assert torch.equal(algorithm.models, before[0])
    assert torch.equal(algorithm.token, before[1])
    assert repr(vars(algorithm.neighbours)) == before[2]
    assert not algorithm.participations.any()


def test_each_client_is_sent_its_own_token(small: Small, tmp_path: Path) -> None:
    """At visits and in passing; clients stand still, so that no exchange is lost."""
    keys = {"algorithm": {**NEIGHBOURHOOD, "try_at": 0.0}, "open_at": 1.0}
    found = run(small(clients={"mobility": "static"}, learning=keys), tmp_path / "a")
    assert found.contacts["in_passing"].any()
    last = found.clients[found.clients["contact"] == found.summary["contacts"]]
    assert last["bytes_down"].sum() == found.contacts["bytes_down"].sum()
    times = last["participations"]
    lost = found.contacts["active"].sum() - found.contacts["delivered"].sum()
    assert lost == 0
    trials = (times >= 2).astype(int) + (times >= 4)
    assert trials.max() > 0
    assert (last["bytes_down"] == 4 * 610 * (times + trials)).all()
    assert (last["bytes_up"] == 4 * 610 * times + 12 * trials).all()


def test_local_training_can_follow_neighbourhood_tokens(small: Small, tmp_path: Path) -> None:
    keys = {"algorithm": {**NEIGHBOURHOOD, "try_at": 0.0}, "shift": "permuted"}
    ours = run(small(learning=keys), tmp_path / "ours").contacts
    alone = run(
        small(learning={**keys, "algorithm": {"kind": "local", "reference": NEIGHBOURHOOD}}), tmp_path / "alone"
    ).contacts
    columns = ["sim_time_s", "client", "active", "delivered", "gradient_steps"]
    same(ours[columns], alone[columns])
    assert alone[["bytes_down", "bytes_up"]].to_numpy().sum() == 0
