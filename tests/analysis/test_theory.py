"""The theory of a run: P(k) from its log, what follows from them, and whether the vehicle followed them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedmule.analysis import Run, load_run
from fedmule.analysis.plots import draw_theory
from fedmule.analysis.theory import Theory, as_text, theory
from fedmule.analysis.theory.report import NOTES
from fedmule.analysis.theory.snapshots import read_snapshots
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.folder import RunLog
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.scenario.parts import choose

Small = Callable[..., Scenario]
ROOT = Path(__file__).parents[2]

# A hub that everyone can hear, and five leaves that hear nobody but the hub.
ANGLES = 2 * np.pi * np.arange(5) / 5
LEAVES = np.stack([150 + 50 * np.cos(ANGLES), 100 + 50 * np.sin(ANGLES)], axis=1)
STAR: dict[str, Any] = {
    "name": "star",
    "terrain": {"size_m": [300, 200]},
    "clients": {
        "count": 6,
        "mobility": {"kind": "static", "positions": [[150.0, 100.0], *LEAVES.tolist()]},
        "report_error_m": 0.0,
    },
    "radio": {"kind": "disc", "range_m": 52.0},
    "vehicle": {"jump": 0.0, "approach_m": 1.0},
    "learning": {"dataset": {"samples": [20, 60]}, "local_steps": 1, "evaluate_every": 200},
    "log": {"graph_every": 50},
    "stop": {"visits": 200},
}


def run(scenario: Scenario, folder: Path) -> Run:
    run_scenario(scenario, str(folder))
    return load_run(folder)


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(Scenario.model_validate(STAR), tmp_path_factory.mktemp("runs") / "star")


# --- P(k) from the log ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"vehicle": {"walk": "metropolis", "jump": 0.0}},
        {"vehicle": {"walk": "lazy", "jump": 0.3}, "radio": {"kind": "disc", "range_m": 12.0}},
        {"clients": {"late": 3, "late_at": 0.5}, "vehicle": {"walk": "metropolis"}},
        {"vehicle": {"walk": {"kind": "lazy", "levy": 0.4}}, "radio": {"kind": "disc", "range_m": 25.0}},
    ],
    ids=["default", "metropolis", "many alone", "late", "Lévy jumps"],
)
def test_the_log_holds_the_walks_own_matrices(small: Small, tmp_path: Path, changes: dict[str, Any]) -> None:
    scenario = small(**changes)
    simulation, seen, visits = Simulation(scenario), {}, 0

    def watch(ledger: Any) -> None:
        nonlocal visits
        is_visit, visits = ledger.visits > visits, ledger.visits
        if is_visit and visits % 5 == 0:
            seen[visits] = simulation.world.walks[0].matrix().toarray(), simulation.world.graph.members.copy()

    (tmp_path / "run").mkdir()
    simulation.run(RunLog(tmp_path / "run", scenario, "cpu"), watch)
    keys = choose(scenario.vehicle.walk, "vehicle.walk", {}).keys
    levy = keys["levy"].make() if keys["levy"] else None
    rule, jump = scenario.vehicle.walk.kind, scenario.vehicle.jump
    snapshots = read_snapshots(load_run(tmp_path / "run"), rule, jump, 0.5, levy)
    assert [s.visit for s in snapshots] == sorted(seen) == [5, 10, 15, 20]
    for s in snapshots:
        expected, members = seen[s.visit]
        assert s.members.tolist() == np.flatnonzero(members).tolist()
        everyone = s.law.matrix().toarray()
        assert everyone[members] == pytest.approx(expected[members], abs=1e-12)
        assert everyone.sum(axis=1) == pytest.approx(np.ones(8))
        assert s.chain.dense == pytest.approx(expected[np.ix_(members, members)], abs=1e-12)
        assert s.stationary @ everyone == pytest.approx(s.stationary, abs=1e-9)
    if "late" in changes.get("clients", {}):
        assert [len(s.members) for s in snapshots] == [5, 5, 8, 8]


# --- a complete run -------------------------------------------------------------------------------------------


def test_a_complete_run(tmp_path: Path) -> None:
    scenario = load_scenario("smoke", overrides=["log.graph_every=5"])
    smoke = run(scenario, tmp_path / "smoke")
    found = theory(smoke)
    assert (found.n, found.visits, len(found.snapshots)) == (12, 60, 12)
    assert found.snapshots["second_modulus"].between(0, 0.9 + 1e-9).all()
    assert (found.snapshots["tau_exact"] <= found.snapshots["tau_weighted"]).all()
    walk = found.walk
    assert walk is not None
    assert walk.chance is not None
    assert walk.chance.p >= 0.01
    assert walk.stationary.sum() == pytest.approx(1)
    assert (walk.products.apart <= walk.jump_bound + 1e-12).all()
    assert found.clients["visits"].sum() == 60
    text = as_text(found)
    for words in ("λ₂", "σ(P)", "Cover time", "P_max", "Visits against π", "β > 2L² + L + 2", "APFL", "Age at the end"):
        assert words in text
    again = theory(load_run(tmp_path / "smoke"))
    assert as_text(again) == text
    figure = draw_theory(found)
    figure.savefig(tmp_path / "theory.png")
    assert (tmp_path / "theory.png").stat().st_size > 20_000
    assert [axes.get_xlabel() for axes in figure.axes] == ["visit", "moves k", "client", "visit"]
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx(found.snapshots["second_modulus"])


def test_a_periodic_walk_says_so(star: Run) -> None:
    found = theory(star)
    assert (found.snapshots["period"] == 2).all()
    assert (found.snapshots["second_modulus"] == 1).all()
    assert found.snapshots["tau_exact"].tolist() == [math.inf] * 4
    assert not found.snapshots["spectral_test"].any()
    walk = found.walk
    assert walk is not None
    assert walk.stationary == pytest.approx([0.5] + [0.1] * 5)
    assert found.clients["visits"][0] == 100
    # By turns at the hub and not: 199 moves on, a walk begun anywhere is at the hub with 5/6, one begun there never.
    assert walk.products.apart[-1] == pytest.approx(5 / 6)
    assert not walk.lemma_holds
    assert walk.communication.walk == math.inf
    assert "| τ(δ), exact | ∞ | ∞ | ∞ | ∞ |" in as_text(found)


def test_visits_that_follow_another_rule_are_found_out(star: Run) -> None:
    """The vehicle went by 1/deg: half of its visits to the hub. Metropolis would visit all alike."""
    honest = theory(star).walk
    other = {**star.scenario, "vehicle": {**star.scenario["vehicle"], "walk": "metropolis"}}
    wrong = theory(replace(star, scenario=other))
    assert wrong.walk is not None
    assert wrong.walk.chance is not None
    assert wrong.walk.chance.p < 0.01
    assert wrong.walk.chance.distance > wrong.walk.chance.high
    assert "did not follow these P(k)" in as_text(wrong)
    assert honest is not None
    assert honest.chance is not None
    assert honest.chance.p >= 0.01


def test_a_tour_is_too_even_to_be_a_walk(star: Run) -> None:
    metropolis = {**star.scenario, "vehicle": {**star.scenario["vehicle"], "walk": "metropolis"}}
    even = star.contacts.assign(client=np.arange(200) % 6)
    found = theory(replace(star, contacts=even, scenario=metropolis)).walk
    assert found is not None
    assert found.chance is not None
    assert found.chance.distance < found.chance.low
    assert found.chance.p < 0.01


@pytest.mark.parametrize("seed", [1, 2])
def test_sound_runs_pass(small: Small, tmp_path: Path, seed: int) -> None:
    changes = {
        "learning": {"local_steps": 1, "evaluate_every": 100},
        "stop": {"visits": 100},
        "log": {"graph_every": 1},
    }
    found = theory(run(small(**changes, seed=seed, vehicle={"jump": 0.3}), tmp_path / "run")).walk
    assert found is not None
    assert found.chance is not None
    assert found.chance.p >= 0.01


def test_ages_and_coverage(star: Run) -> None:
    found = theory(star)
    clients = star.contacts["client"].astype(int).tolist()
    for c in range(6):
        assert found.clients["age_visits"][c] == clients[::-1].index(c)
        at = star.contacts["sim_time_s"].iloc[len(clients) - 1 - clients[::-1].index(c)]
        assert found.clients["age_s"][c] == pytest.approx(star.contacts["sim_time_s"].iloc[-1] - at)
    assert found.covered_at == 1 + max(clients.index(c) for c in range(6))
    assert found.ages["oldest"].iloc[0] == 1  # of those not visited yet, since the beginning
    assert found.ages["oldest"].iloc[-1] == found.clients["age_visits"].max()
    assert found.ages["mean"].iloc[-1] == pytest.approx(found.clients["age_visits"].mean())


def test_cover_time_of_a_star(star: Run) -> None:
    """2·5·H₅ − 1 moves from the hub; from a leaf one to the hub, then for the other four leaves 2·5·H₄ − 1."""
    walk = theory(star).walk
    assert walk is not None
    h5, h4 = 137 / 60, 25 / 12
    expected = (10 * h5 - 1) / 6 + 5 / 6 * (1 + (10 * h4 - 1))
    assert walk.cover.low - 1 < expected < walk.cover.high + 1
    assert walk.matthews[0] <= expected <= walk.matthews[1]


def test_windows_that_connect_everyone(star: Run) -> None:
    """Two halves of a ring of six by turns, two moves each: at worst all are connected within two moves."""
    halves = [[(0, 1), (2, 3), (4, 5)], [(1, 2), (3, 4), (0, 5)]]
    rows = [(v, float(v), a, b) for k, v in enumerate(range(2, 201, 2)) for a, b in halves[k % 2]]
    lazy = {**star.scenario, "vehicle": {**star.scenario["vehicle"], "walk": "lazy"}}
    found = theory(replace(star, graph=pd.DataFrame(rows, columns=star.graph.columns), scenario=lazy)).walk
    assert found is not None
    assert (found.window, found.smallest, found.lemma_holds) == (2, 0.5, True)
    assert (found.products.uneven <= found.lemma + 1e-12).all()
    assert found.most_row_sum == pytest.approx(1.5)
    assert found.max_sigma == pytest.approx(0.5 + math.cos(math.pi / 3))  # ½ I + ½ of the ring's neighbours
    assert 5 < found.cover.mean < math.inf
    apart = theory(replace(star, graph=pd.DataFrame(rows[:3], columns=star.graph.columns), scenario=lazy)).walk
    assert apart is not None
    assert (apart.window, apart.lemma_holds, apart.cover.mean) == (math.inf, False, math.inf)


# --- L and β --------------------------------------------------------------------------------------------------


def hessian_norm(model: Any, features: torch.Tensor, labels: torch.Tensor) -> float:
    """The largest eigenvalue of the loss's Hessian at 0, by power iteration on products from autograd."""
    x = torch.zeros(model.parameters, dtype=torch.float64, requires_grad=True)

    def product(v: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(model.scores(x, features), labels)
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        return torch.autograd.grad(gradient @ v, x)[0]

    v = torch.from_numpy(np.random.default_rng(0).normal(size=model.parameters))
    for _ in range(100):
        v = product(v / v.norm())
    return float(v.norm())


def test_smoothness_against_the_hessian(small: Small, tmp_path: Path) -> None:
    """At 0 all of c classes are as likely: there the Hessian's norm is λ_max/c of the features, and L λ_max/2."""
    scenario = small()
    found = theory(run(scenario, tmp_path / "run"))
    algorithm = Simulation(scenario).learner.algorithm
    data, norms = algorithm.data, []
    for first, count in zip(data.first[:-1], data.train_count, strict=True):
        rows = slice(int(first), int(first + count))
        norms.append(hessian_norm(algorithm.model, data.features[rows].double(), data.labels[rows]))
    assert found.smoothness is not None
    assert found.smoothness == pytest.approx(max(norms) * data.classes / 2, rel=1e-3)
    assert found.beta == 0.3
    assert "does not meet" in as_text(found)
    assert "β = 1e+06 meets it" in as_text(replace(found, beta=1e6))


@pytest.mark.parametrize(
    "learning", [{"model": {"kind": "mlp", "hidden": [8]}}, {"algorithm": "fedavg"}], ids=["mlp", "fedavg"]
)
def test_smoothness_that_is_unknown(small: Small, tmp_path: Path, learning: dict[str, Any]) -> None:
    found = theory(run(small(learning=learning), tmp_path / "run"))
    assert found.smoothness is None
    assert "L is unknown" in as_text(found)


# --- runs without a walk --------------------------------------------------------------------------------------


def without_walk(found: Theory, words: str, tmp_path: Path) -> None:
    assert found.walk is None
    text = as_text(found)
    assert words in text
    assert "Everyone visited" in text
    draw_theory(found).savefig(tmp_path / "theory.png")
    assert len(draw_theory(found).axes) == 2


def test_a_walk_that_is_no_chain(star: Run, tmp_path: Path) -> None:
    for walk in ("tour", {"kind": "tour"}):
        scenario = {**star.scenario, "vehicle": {**star.scenario["vehicle"], "walk": walk}}
        found = theory(replace(star, scenario=scenario))
        without_walk(found, "vehicle.walk = tour is not a Markov chain", tmp_path)
        assert found.clients["visits"].sum() == 200
        assert found.snapshots["edges"].tolist() == [5] * 4


def test_no_graph_and_no_vehicle(small: Small, tmp_path: Path) -> None:
    without_walk(theory(run(small(log={"graph_every": 0}), tmp_path / "a")), "no graph was logged", tmp_path)
    served = run(small(learning={"server": "star", "algorithm": "fedavg"}), tmp_path / "b")
    without_walk(theory(served), "an ideal server", tmp_path)


def test_a_run_without_a_summary(star: Run) -> None:
    found = theory(replace(star, summary={}))
    assert found.walk is not None
    assert "L is unknown" in as_text(found)


def test_one_client(small: Small, tmp_path: Path) -> None:
    changes = {"clients": {"count": 1, "mobility": {"kind": "static"}}}
    found = theory(run(small(**changes), tmp_path / "run"))
    assert found.walk is not None
    assert (found.snapshots["second_modulus"] == 0).all()
    assert (found.walk.cover.mean, found.covered_at) == (0, 1)
    assert as_text(found)
    draw_theory(found).savefig(tmp_path / "theory.png")


def test_the_document_names_every_column(star: Run) -> None:
    text = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    found = theory(star)
    assert set(NOTES) <= set(found.snapshots.columns)
    for column in [*found.snapshots.columns, *found.clients.columns, *found.ages.columns]:
        assert f"`{column}`" in text, column


def test_chains_of_the_paper_are_as_it_wants_them(small: Small, tmp_path: Path) -> None:
    """Everyone with five neighbours or more: connected, aperiodic, and below 1 − 1/m^⅔."""
    changes = {
        "terrain": {"obstacles": []},
        "clients": {"count": 20, "mobility": {"kind": "redrawn", "every_visits": 5, "neighbour_range_m": 80.0}},
        "radio": {"kind": "disc", "range_m": 80.0},
        "vehicle": {"jump": 0.0},
    }
    found = theory(run(small(**changes), tmp_path / "run"))
    assert found.snapshots["ergodic"].all()
    assert found.snapshots["spectral_test"].all()
    assert found.snapshots["second_modulus"].between(0.2, 0.97).all()
    assert found.walk is not None
    assert found.walk.products.uneven[-1] > 0.005  # not 1/n: P is not doubly stochastic
