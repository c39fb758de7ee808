"""Groups of clients: movement, processors, sites and radios of their own, in complete runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from short_runs import run, same

from fedmule import load_run
from fedmule.analysis.loading import movement_in_words
from fedmule.analysis.replay.ground import ground_of
from fedmule.mobility.models.waypoint import Waypoint
from fedmule.mobility.trajectory import Trajectories, Way
from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.population import build_positions
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_terrain, build_world

Small = Callable[..., Scenario]

WALKERS = {"name": "walkers", "count": 3, "mobility": {"kind": "waypoint", "speed_mps": [1.0, 2.0]}}
POSTS = {
    "name": "posts",
    "count": 4,
    "mobility": {"kind": "static", "positions": [[20, 20], [40, 20], [60, 20], [80, 20]]},
}
PATROL = {"count": 2, "mobility": "patrol"}


def with_groups(small: Small, *groups: dict[str, Any], **changes: Any) -> Scenario:
    clients = {"count": sum(group["count"] for group in groups), "groups": list(groups), **changes.pop("clients", {})}
    return small(clients=clients, **changes)


# --- movement ------------------------------------------------------------------------------------------------


def positions_at(scenario: Scenario, t: float) -> Any:
    positions = build_positions(scenario, build_terrain(scenario), Streams(scenario.seed), {})
    positions.advance(t)
    return positions.true(np.arange(len(positions)))


def test_groups_move_by_the_seed_and_their_place_in_the_list(small: Small) -> None:
    scenario = with_groups(small, WALKERS, POSTS, PATROL)
    together = positions_at(scenario, 100.0)
    keys = WALKERS["mobility"]["speed_mps"]
    draw = Streams(0).draw("mobility of group 0")
    alone = Trajectories(Waypoint(build_terrain(scenario), 3, draw, tuple(keys), (0.0, 60.0), None))
    assert np.array_equal(together[:3], alone.positions(100.0))
    assert together[3:7].tolist() == POSTS["mobility"]["positions"]
    more = positions_at(with_groups(small, {**WALKERS, "count": 5}, POSTS, PATROL), 100.0)
    assert np.array_equal(more[5:], together[3:])
    assert not np.array_equal(positions_at(with_groups(small, WALKERS, POSTS, PATROL, seed=1), 100.0), together)


def test_a_run_with_those_who_stand_and_those_who_walk(small: Small, tmp_path: Path) -> None:
    scenario = with_groups(small, POSTS, WALKERS)
    result = run(scenario, tmp_path / "a")
    track = result.track[result.track["node"] == "client"]
    stretch = track.groupby("id")[["x_m", "y_m"]].agg(np.ptp).max(axis=1)
    assert (stretch[:4] == 0).all()
    assert (stretch[4:] > 1).all()
    assert len(result.visits) == 20
    assert result.clients.groupby("client")["group"].first().tolist() == ["posts"] * 4 + ["walkers"] * 3
    for table in ("contacts", "clients", "track", "graph"):
        same(getattr(result, table), getattr(run(scenario, tmp_path / table), table))


def test_without_groups_the_column_is_empty(small: Small, tmp_path: Path) -> None:
    assert set(run(small(), tmp_path / "a").clients["group"]) == {""}


def test_what_a_group_does_not_say_is_as_for_all_clients(small: Small) -> None:
    scenario = with_groups(small, {"count": 5}, POSTS, clients={"mobility": "patrol", "compute_flops_per_s": 3e8})
    first, second = scenario.clients.divisions()
    assert (first.label, first.mobility.kind, first.mobility_key) == ("0", "patrol", "clients.mobility")
    assert (second.label, second.mobility_key) == ("posts", "clients.groups[1].mobility")
    assert build_world(scenario, Streams(0), {}).compute_flops_per_s.tolist() == [3e8] * 9


# --- devices -------------------------------------------------------------------------------------------------


def test_every_client_computes_at_its_own_speed(small: Small, tmp_path: Path) -> None:
    slow = {**POSTS, "compute_flops_per_s": 2e6}
    learning = {"active": "visited", "local_steps": 10, "batch_size": 20}
    contacts = run(with_groups(small, WALKERS, slow, learning=learning), tmp_path / "a").contacts
    contacts = contacts[contacts["delivered"] > 0]  # others may break before anybody computes
    flops = 10 * (4 * 20 * 60 * 10 + 6 * 20 * 10 + 6 * 610)  # ten gradients of logistic regression, by hand
    took = contacts.groupby("client")["compute_s"].first()
    assert {client: took[client] for client in took.index} == {c: flops / (1e9 if c < 3 else 2e6) for c in took.index}
    assert len(took) > 4


def test_the_slowest_of_a_contact_decides_how_long_computing_takes(small: Small) -> None:
    simulation = Simulation(with_groups(small, WALKERS, {**POSTS, "compute_flops_per_s": 2e6}))
    exchange = simulation.learner.cost(0, np.array([1, 4]), 0.0, 0.0)
    load = simulation.load(np.array([1, 4]), exchange)
    assert load.compute_s.tolist() == [exchange.flops[0] / 1e9, exchange.flops[1] / 2e6]


def test_a_weak_radio_is_heard_near_by_only(small: Small) -> None:
    """Log-distance with exponent 3: 9 dB divide the range by 10^0.3, about 2."""
    radio = {"kind": "wifi_direct", "range_m": 60.0}
    strong = {"kind": "static", "positions": [[100, 20], [100, 79], [100, 81]]}
    weak = {"kind": "static", "positions": [[110, 20], [129, 20], [131, 20]]}
    groups = [{"count": 3, "mobility": strong}, {"count": 3, "mobility": weak, "radio_gain_db": -9.0}]
    simulation = Simulation(with_groups(small, *groups, radio=radio, terrain={"obstacles": []}))
    assert simulation.world.hearing.extra_loss_db.tolist() == [0, 0, 0, 9, 9, 9]
    way = Way.standing(np.array([100.0, 20.0]))
    vehicle = SimpleNamespace(number=0, way=way)
    assert simulation._neighbourhood(vehicle, 0).tolist() == [0, 1, 3, 4]  # type: ignore[arg-type]
    heard = [simulation.world.hearing.first_heard(way, client, 0.0, 10.0) is not None for client in range(6)]
    assert heard == [True, True, False, True, True, False]


# --- sites ---------------------------------------------------------------------------------------------------


SQUADS = {"kind": "squads", "squads": 2, "regroup_at_s": 40.0, "regroup_share": 0.5}


def sites_of(scenario: Scenario) -> Any:
    return build_world(scenario, Streams(0), {}).sites


def test_sites_of_groups_squads_and_those_near_each_other(small: Small) -> None:
    groups = [
        {"count": 4, "mobility": SQUADS},
        {"count": 2, "mobility": "static", "site": 1},
        {"count": 4, "mobility": {**SQUADS, "squads": 2}},
        {"count": 2, "mobility": "patrol", "site": 0},
        {"count": 1, "mobility": "waypoint", "site": 1},
        {"count": 4, "mobility": {"kind": "static", "positions": [[10, 10], [290, 190], [11, 10], [289, 190]]}},
    ]
    sites = sites_of(with_groups(small, *groups, learning={"shift": "permuted", "sites": 2}))
    assert sites.site[:13].tolist() == [2, 2, 3, 3, 1, 1, 4, 4, 5, 5, 0, 0, 1]
    near = sites.site[13:]
    assert near[0] == near[2] != near[1] == near[3]
    assert set(near) == {6, 7}
    assert (sites.count, sites.change_at_s) == (8, 40.0)
    assert set(sites.movers) <= {0, 1, 2, 3, 6, 7, 8, 9}
    assert len(sites.movers) == 4
    for mover, to in zip(sites.movers, sites.to, strict=True):
        assert {sites.site[mover], to} == ({2, 3} if mover < 4 else {4, 5})


def test_clients_of_a_group_with_a_site_stay_there(small: Small) -> None:
    groups = [{"count": 4, "mobility": SQUADS, "site": 0}, {"count": 2, "mobility": "static", "site": 1}]
    sites = sites_of(with_groups(small, *groups, learning={"partition_over": "sites"}))
    assert (sites.site.tolist(), sites.count) == ([0, 0, 0, 0, 1, 1], 2)
    assert (len(sites.movers), sites.change_at_s) == (0, None)


def test_data_follow_the_sites_of_groups(small: Small, tmp_path: Path) -> None:
    groups = [{"count": 4, "mobility": "patrol", "site": 0}, {"count": 4, "mobility": "static", "site": 1}]
    learning = {"algorithm": "squad_oracle", "shift": "permuted"}
    simulation = Simulation(with_groups(small, *groups, learning=learning))
    assert simulation.learner.algorithm.data.site.tolist() == [0] * 4 + [1] * 4
    assert len(simulation.learner.algorithm.centres) == 2


# --- files and classes that groups name ----------------------------------------------------------------------


TINY = """
[terrain]
size_m = [200, 200]
[[clients.groups]]
count = 3
mobility = "static"
[[clients.groups]]
count = 2
mobility = {}
[learning]
dataset = {{ kind = "synthetic", samples = [20, 40] }}
[stop]
visits = 4
"""
TRACE = "t,node,x,y\n0,a,10,10\n100,a,30,10\n0,b,50,50\n100,b,50,80\n"
ROADS = '{"type": "LineString", "coordinates": [[0, 0], [200, 200]]}'


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.csv").write_text(TRACE)
    (tmp_path / "road.geojson").write_text(ROADS)
    return tmp_path


def write(desk: Path, mobility: str) -> None:
    (desk / "tiny.toml").write_text(TINY.format(mobility))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["run", "tiny.toml", "--quiet", "--out", "refused", *arguments]) == 2
    return capsys.readouterr().err


def test_a_trace_of_a_group_lies_beside_the_scenario(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(desk, '{ kind = "trace", path = "two.csv" }')
    (desk / "elsewhere").mkdir()
    monkeypatch.chdir(desk / "elsewhere")
    assert main(["run", "../tiny.toml", "--quiet", "--out", "run"]) == 0
    result = load_run("run")
    assert result.scenario["clients"]["groups"][1]["mobility"]["path"] == str(desk / "two.csv")
    assert movement_in_words(result.scenario) == "0: static, 1: trace"


def test_a_changed_trace_of_a_group_is_run_again(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(desk, '{ kind = "trace", path = "two.csv" }')
    study = ["study", "tiny.toml", "--vary", "clients.groups.0.count=2,3", "--seeds", "1", "--jobs", "1", "--out", "s"]
    assert main(study) == 0
    assert "2 runs, 0 of them done before" in capsys.readouterr().err
    assert main(study) == 0
    assert "runs," not in capsys.readouterr().err  # all are done
    (desk / "two.csv").write_text(TRACE.replace("30,10", "31,10"))
    assert main(study) == 0
    assert "two.csv has changed" in capsys.readouterr().err


def test_a_short_trace_is_located(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(desk, '{ kind = "trace", path = "two.csv" }')
    message = refused(capsys, "--set", "clients.groups.1.count=3")
    assert "clients.groups[1].mobility: " in message
    assert "has 2 nodes, fewer than the 3 clients" in message


def test_roads_of_a_group_come_from_a_file(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(desk, '{ kind = "roads", roads = { geojson = "road.geojson", coordinates = "metres" } }')
    scenario = load_scenario("tiny.toml")
    assert scenario.clients.groups[1].mobility.roads.lines == (((0.0, 0.0), (200.0, 200.0)),)
    assert main(["run", "tiny.toml", "--quiet", "--out", "run"]) == 0
    assert ground_of(load_run("run").scenario)["roads"] == [[[0.0, 0.0], [200.0, 200.0]]]
    write(desk, '{ kind = "roads", roads = { geojson = "no.geojson" } }')
    assert 'clients.groups[1].mobility.roads.geojson = "no.geojson": no.geojson cannot be read' in refused(capsys)


OWN = """
import numpy as np
from fedmule import Movement

class Corner(Movement):
    def __init__(self, count, gap_m, jumps=False):
        self.count, self.gap_m = count, gap_m

    def start(self):
        return np.stack([self.gap_m * np.arange(self.count), np.zeros(self.count)], axis=1)

class Jumping(Corner):
    def after_visit(self, visit):
        return self.start()

class Crowd(Corner):
    def start(self):
        return np.zeros((self.count + 1, 2))
"""


def test_a_group_may_move_by_your_own_class(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "my_corner.py").write_text(OWN)
    write(desk, '{ kind = "my_corner:Corner", gap_m = 7.0 }')
    assert "clients.groups[1].mobility.kind" in refused(capsys)
    assert main(["run", "tiny.toml", "--quiet", "--out", "run", "--allow-plugins"]) == 0
    track = load_run("run").track
    first = track[track["node"] == "client"].groupby("id").first()
    assert first.loc[[3, 4], ["x_m", "y_m"]].to_numpy().tolist() == [[0, 0], [7, 0]]
    write(desk, '{ kind = "my_corner:Corner", gab_m = 7.0 }')
    assert "[1].mobility.gab_m = 7.0: unknown key; did you mean gap_m?" in refused(capsys, "--allow-plugins")
    write(desk, '{ kind = "my_corner:Jumping", gap_m = 7.0 }')
    assert "clients.groups[1].mobility.kind: cannot be that of a group" in refused(capsys, "--allow-plugins")
    write(desk, '{ kind = "my_corner:Crowd", gap_m = 7.0 }')
    assert "clients.groups[1].mobility.kind: must return positions for 2 clients" in refused(capsys, "--allow-plugins")


def test_a_class_of_a_notebook_in_a_group(desk: Path) -> None:
    import fedmule

    class Middle(fedmule.Movement):
        def __init__(self, count: int) -> None:
            self.count = count

        def start(self) -> Any:
            return np.full((self.count, 2), 100.0)

    short = {"stop": {"visits": 3}, "learning": {"dataset": {"samples": [20, 40]}}}
    groups = [{"count": 2, "mobility": "static"}, {"count": 2, "mobility": Middle}]
    for folder in (
        fedmule.run({**short, "clients": {"groups": groups}}, out="a"),
        fedmule.run({**short, "clients": {"groups": groups}}, {"clients.groups.1.mobility": Middle}, out="b"),
    ):
        track = load_run(folder).track
        assert (track[(track["node"] == "client") & (track["id"] >= 2)][["x_m", "y_m"]] == 100).all(axis=None)
