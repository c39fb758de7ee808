"""Walk policies in complete runs: everyone is visited, even if some are late, absent or never caught."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from short_runs import run

from fedmule.analysis.theory import as_text, theory
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]
PASSES = ["nearest_unvisited", "oldest_first", "tour"]
policies = pytest.mark.parametrize("walk", PASSES)
all_policies = pytest.mark.parametrize("walk", [*PASSES, "expected_gain"])


@policies
def test_every_pass_visits_everyone(small: Small, tmp_path: Path, walk: str) -> None:
    result = run(small(vehicle={"walk": walk, "jump": 0.0}, stop={"visits": 24}), tmp_path / "run")
    clients = result.visits["client"].tolist()
    for k in range(3):
        assert sorted(clients[8 * k : 8 * k + 8]) == list(range(8))
    found = theory(result)
    assert found.walk is None
    assert found.covered_at == 8
    assert f"No P(k): vehicle.walk = {walk} is not a Markov chain" in as_text(found)
    assert not any("jump" in warning for warning in result.manifest["warnings"])


@policies
def test_late_clients_are_visited_once_they_are_there(small: Small, tmp_path: Path, walk: str) -> None:
    result = run(small(vehicle={"walk": walk}, clients={"late": 3}, stop={"visits": 40}), tmp_path / "run")
    clients = result.visits["client"]
    assert set(clients[:20]) == set(range(5))
    assert set(clients[20:]) == set(range(8))


@all_policies
def test_one_that_outruns_the_vehicle_starves_nobody(small: Small, tmp_path: Path, walk: str) -> None:
    """Client 0 drives faster than the vehicle, client 3 comes and goes; the others stand still."""
    rows = ["node,t,x,y"]
    rows += [f"0,{2.0 * k},{20 + 260 * (k % 2)},{20 + 160 * (k // 2 % 2)}" for k in range(1500)]
    rows += [f"{i},0,{60 + 60 * i},{30}" for i in (1, 2)]
    rows += ["3,0,40,180", "3,60,40,180", "3,400,40,180", "3,500,40,180"]
    (tmp_path / "trace.csv").write_text("\n".join(rows) + "\n")
    clients = {"count": 4, "mobility": {"kind": "trace", "path": str(tmp_path / "trace.csv")}}
    vehicle = {"walk": walk, "give_up_s": 30.0, "speed_mps": 9.0, "approach_m": 1.0, "contact": "approach"}
    result = run(small(vehicle=vehicle, clients=clients, stop={"visits": 25}), tmp_path / "run")
    assert result.summary["stopped_by"] == "visits"
    visits = result.visits["client"].value_counts()
    assert visits[1] >= 5
    assert visits[2] >= 5
    assert result.summary["missed"] >= 3


def test_expected_gain_serves_late_clients_once_they_are_there(small: Small, tmp_path: Path) -> None:
    """Whoever has been served already, beside another or in passing, need not be visited."""
    changes = {"vehicle": {"walk": "expected_gain"}, "clients": {"late": 3}, "stop": {"visits": 40}}
    result = run(small(**changes), tmp_path / "run")
    served = [set(rows.explode()) - {None} for _, rows in result.contacts.groupby("visit")["delivered_ids"]]
    assert set().union(*served[:19]) == set(range(5))
    assert set().union(*served[20:]) == set(range(8))
    assert "No P(k): vehicle.walk = expected_gain is not a Markov chain" in as_text(theory(result))


def test_a_walk_with_levy_jumps_follows_its_matrices(small: Small, tmp_path: Path) -> None:
    vehicle = {"walk": {"kind": "degree", "levy": {"chance": 0.5, "most_hops": 2}}, "jump": 0.0}
    result = run(small(vehicle=vehicle, log={"graph_every": 1}, stop={"visits": 120}), tmp_path / "run")
    assert not result.manifest["warnings"]
    found = theory(result)
    assert found.rule == "degree with Lévy jumps (0.5)"
    assert found.walk is not None
    assert found.walk.chance is not None
    assert found.walk.chance.p > 0.01
    assert set(result.visits["client"]) == set(range(8))


def test_levy_jumps_lead_out_of_separate_groups(small: Small) -> None:
    radio = {"kind": "disc", "range_m": 25.0}
    stuck = small(vehicle={"walk": "degree", "jump": 0.0}, radio=radio)
    (warning,) = Simulation(stuck).world.warnings
    assert "separate groups of clients: some clients will never be visited" in warning
    free = small(vehicle={"walk": {"kind": "degree", "levy": 0.2}, "jump": 0.0}, radio=radio)
    assert not any("never be visited" in warning for warning in Simulation(free).world.warnings)
