"""Worlds made of a contact list: the same runs as on the movement it was made from, and what cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from short_runs import run

from fedmule.analysis import Run
from fedmule.analysis.movement import movement_of
from fedmule.analysis.plots import draw_map, draw_run
from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.runs.identity import identity_of
from fedmule.simulator.scenario.load import load_scenario, scenario_of

RANGE_M, SIZE_M, END_S = 60.0, 300.0, 400.0
LEARNING: dict[str, Any] = {
    "dataset": {"samples": [10, 20]},
    "evaluate_every": 10,
    "alone": False,
    "algorithm": {"kind": "rwsadmm", "token": "neighbourhood"},
}
SLOW = {"kind": "disc", "range_m": RANGE_M, "rate_mbps": 0.04, "setup_s": 0.7}  # some exchanges break


def random_trace(file: Path, nodes: int) -> None:
    random = np.random.default_rng(4)
    lines = ["node,t,x,y"]
    for node in range(nodes):
        t = 0.0
        while t < END_S + 100:
            x, y = random.uniform(0, SIZE_M, 2).tolist()
            lines.append(f"{node},{t!r},{x!r},{y!r}")
            t += float(random.uniform(20, 60))
    file.write_text("\n".join(lines) + "\n")


def both_ways(folder: Path, vehicles: int, learning: dict[str, Any]) -> tuple[Run, Run]:
    """A run on a movement trace of 12 clients and some vehicles, and one on the list of its contacts."""
    random_trace(folder / "trace.csv", 12 + vehicles)
    list_file = ["--range-m", str(RANGE_M), "--out", str(folder / "contacts.csv")]
    assert main(["contacts", str(folder / "trace.csv"), *list_file]) == 0
    rest = {"terrain": {"size_m": [SIZE_M, SIZE_M]}, "radio": SLOW, "learning": learning, "stop": {"sim_time_s": END_S}}
    nodes = [str(12 + v) for v in range(vehicles)]
    moving = {
        "clients": {"count": 12, "mobility": {"kind": "trace", "path": "trace.csv"}},
        "vehicle": {"fleet": [{"trace": {"path": "trace.csv", "node": node}} for node in nodes]},
    }
    listed = {
        "clients": {"count": 12, "mobility": {"kind": "contacts", "path": "contacts.csv", "begin_s": 0}},
        "vehicle": {"fleet": [{"follows": node} for node in nodes]},
    }
    scenarios = [scenario_of({**rest, **world}, (), "world", folder) for world in (moving, listed)]
    return run(scenarios[0], folder / "moving"), run(scenarios[1], folder / "listed")


def alike(a: pd.DataFrame, b: pd.DataFrame) -> None:
    """Two tables are the same but for positions and host time; times to a microsecond."""
    assert len(a) == len(b) > 0
    for column in a.columns:
        if column.startswith("host_") or column.endswith(("_x_m", "_y_m")):
            continue
        if column.endswith("_ids"):
            assert [list(ids) for ids in a[column]] == [list(ids) for ids in b[column]]
        elif column.endswith("_s"):
            np.testing.assert_allclose(a[column].to_numpy(float), b[column].to_numpy(float), rtol=0, atol=1e-6)
        else:
            pd.testing.assert_series_equal(a[column], b[column], check_exact=True)


@pytest.mark.parametrize("vehicles", [1, 3])
def test_a_list_gives_the_run_of_the_movement_it_was_made_from(vehicles: int, tmp_path: Path) -> None:
    learning = LEARNING if vehicles == 1 else {**LEARNING, "algorithm": "fedavg"}
    moving, listed = both_ways(tmp_path, vehicles, learning)
    alike(moving.contacts, listed.contacts)
    alike(moving.clients, listed.clients)
    contacts = listed.contacts
    assert 0 < contacts["delivered"].sum() < len(contacts)
    assert contacts["neighbours"].max() > 1
    assert contacts["vehicle_x_m"].isna().all()
    assert listed.track.empty
    assert listed.summary["reports"] == listed.summary["report_bytes"] == 0
    assert not moving.track.empty
    if vehicles > 1:
        # Two vehicles just at the edge of their range may begin a meeting that breaks at once; a list has no edge.
        meetings = [r.meetings[r.meetings["meeting_s"] > 1e-6].reset_index(drop=True) for r in (moving, listed)]
        alike(*(table.drop(columns="meeting") for table in meetings))
        assert len(listed.meetings) == len(meetings[1])
        assert listed.meetings["a_x_m"].isna().all()
        busy_until: dict[int, float] = {}
        for client, began, ended in zip(
            contacts["client"], contacts["sim_time_s"] - contacts["contact_s"], contacts["sim_time_s"], strict=True
        ):
            assert began >= busy_until.get(client, 0.0) - 1e-6  # nobody is in two exchanges at once
            busy_until[client] = ended


# --- small lists ----------------------------------------------------------------------------------------------

QUICK = {"kind": "disc", "range_m": 5.0, "rate_mbps": 8.0, "setup_s": 0.5, "latency_s": 0.0}


def world(folder: Path, rows: str, **changes: Any) -> dict[str, Any]:
    (folder / "list.csv").write_text("a,b,start,end\n" + rows)
    raw: dict[str, Any] = {
        "clients": {"count": 2, "mobility": {"kind": "contacts", "path": str(folder / "list.csv"), "begin_s": 0}},
        "vehicle": {"follows": "v"},
        "radio": QUICK,
        "learning": {"dataset": {"samples": [10, 20]}, "alone": False, "algorithm": "fedavg"},
        "stop": {"sim_time_s": 100.0},
    }
    return {**raw, **changes}


def contacts_of(folder: Path, rows: str, **changes: Any) -> list[tuple[int, int, float, float, int]]:
    """Vehicle, client, begin, end and delivered of every contact."""
    table = run(scenario_of(world(folder, rows, **changes), (), "small"), folder / "run").contacts
    began = (table["sim_time_s"] - table["contact_s"]).round(4)
    columns = table["vehicle"], table["client"], began, table["sim_time_s"].round(4), table["delivered"]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_exchanges_begin_with_contacts_and_break_with_them(tmp_path: Path) -> None:
    """Each way 1 MB takes a second at 8 Mb/s, after 0.5 s to set up; three contacts, one of them too short."""
    learning = {**world(tmp_path, "")["learning"], "payload_bytes": 1_000_000}
    rows = "v,x,10,40\ny,v,30,32\nx,v,50,60\nx,y,0,100\n"
    found = contacts_of(tmp_path, rows, learning=learning)
    assert [(client, began, delivered) for _, client, began, _, delivered in found] == [
        (0, 10.0, 1), (1, 30.0, 0), (0, 50.0, 1),
    ]  # fmt: skip
    assert [round(end - 10.0 * (k + 1), 1) for k, (*_, end, _) in enumerate(found)] == [2.5, 12.0, 22.5]


def test_a_client_that_was_busy_is_served_when_it_is_free(tmp_path: Path) -> None:
    """It meets the first vehicle for the second time while it exchanges with the other one."""
    learning = {**world(tmp_path, "")["learning"], "payload_bytes": 2_000_000}
    rows = "x,v,0,6\nx,w,19,40\nx,v,20,40\ny,w,90,91\n"
    vehicle = {"fleet": [{"follows": "v"}, {"follows": "w"}]}
    found = contacts_of(tmp_path, rows, learning=learning, vehicle=vehicle)
    assert [(v, client, delivered) for v, client, *_, delivered in found[:3]] == [(0, 0, 1), (1, 0, 1), (0, 0, 1)]
    assert found[2][2] == found[1][3] > 20.0


def test_vehicles_meet_by_the_list(tmp_path: Path) -> None:
    vehicle = {"fleet": [{"follows": "v"}, {"follows": "w"}]}
    rows = "v,w,0,5\nx,v,10,15\ny,w,20,25\nv,w,30,40\nw,v,60,70\n"
    result = run(scenario_of(world(tmp_path, rows, vehicle=vehicle), (), "small"), tmp_path / "run")
    began = (result.meetings["sim_time_s"] - result.meetings["meeting_s"]).round(4).tolist()
    assert began == [30.0]  # before there was nothing new to exchange, and nothing new came after
    assert result.meetings["delivered"].tolist() == [True]


def test_late_clients_groups_and_classes(tmp_path: Path) -> None:
    """Classes of a SocioPatterns list are sites; a slow group computes longer; late clients join near others."""
    lines = [f"{20 * t} {1 + t % 6} 9 {'AAABBB'[t % 6]} T\n" for t in range(1, 40)]
    (tmp_path / "school.dat").write_text("".join(lines) + "700 5 6 B B\n")
    groups = [{"count": 4}, {"count": 2, "compute_flops_per_s": 1e5}]
    clients = {"groups": groups, "late": 1, "mobility": {"kind": "contacts", "path": "school.dat"}}
    raw = world(tmp_path, "", clients=clients, vehicle={"follows": "9"}, stop={"sim_time_s": 700.0})
    raw["learning"] = {**LEARNING, "shift": "permuted"}
    scenario = scenario_of(raw, (), "school", tmp_path)
    sites = Simulation(scenario).world.sites
    assert sites.site is not None
    assert sites.site.tolist() == [0, 0, 0, 1, 1, 1]
    contacts = run(scenario, tmp_path / "run").contacts
    late = contacts[contacts["client"] == 5]
    assert len(late) > 0
    assert (late["sim_time_s"] - late["contact_s"]).min() >= 350.0
    compute_s = contacts[contacts["delivered"] > 0].groupby("client")["compute_s"].first()
    assert compute_s[4] > 1000 * compute_s[0]


def test_warnings_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody has a position: a report has no map, a replay is a diagram, and nothing pretends otherwise."""
    scenario = scenario_of(world(tmp_path, "v,x,1,9\nx,y,2,3\n"), (), "small")
    result = run(scenario, tmp_path / "run")
    assert result.manifest["warnings"] == [
        "the contact list ends after 9 s, and stop.sim_time_s is 100 s",
        "1 of 2 clients meet no vehicle by the contact list",
    ]
    assert len(draw_run(result).axes) == 1
    with pytest.raises(ValueError, match="has no map: its contact list has no positions"):
        draw_map(result)
    with pytest.raises(ValueError, match="nobody has a position"):
        movement_of(scenario, 10.0)
    assert main(["report", str(tmp_path / "run")]) == 0
    assert "Map: the contact list has no positions." in (tmp_path / "run/figures/report.md").read_text()
    assert main(["replay", str(tmp_path / "run"), "--no-open"]) == 0
    page = (tmp_path / "run/replay.html").read_text()
    assert '"schematic": true' in page or '"schematic":true' in page
    pictures = ["--png", str(tmp_path / "a.png"), "--gif", str(tmp_path / "a.gif"), "--seconds", "0.3"]
    assert main(["replay", str(tmp_path / "run"), *pictures]) == 0
    capsys.readouterr()


# --- what cannot be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"vehicle": {}}, {"vehicle.follows": "must be given: the node of the contact list that the vehicle is"}),
        ({"vehicle": {"follows": "z"}}, {"vehicle.follows": "must be one of the 3 nodes of "}),
        (
            {"vehicle": {"fleet": [{"follows": "z"}, {"follows": "q"}]}, "clients": {"count": 9}},
            {"vehicle.fleet[0].follows": "v, x", "vehicle.fleet[1].follows": "v, x, y", "clients.count": "at most 3"},
        ),
        ({"vehicle": {"follows": "v", "count": 2}}, {"vehicle.follows": "another node than that of the first vehicle"}),
        (
            {"vehicle": {"fleet": [{"follows": "v"}, {"follows": "v"}]}},
            {"vehicle.fleet[1].follows": "another node than that of vehicle.fleet[0]"},
        ),
        (
            {
                "vehicle": {"follows": "v", "contact": "approach", "walk": "tour", "start": [1, 1],
                            "roads": {"block_m": [50, 50]}, "route": {"points": [[1, 1], [9, 9]]}},
                "terrain": {"obstacles": [{"polygon": [[1, 1], [2, 1], [2, 2]]}]},
                "learning": {"server": "star"},
                "radio": {"kind": "zigbee", "shadowing": {"db": 4}},
            },
            {
                **{f"vehicle.{key}": "no positions" for key in ("contact", "walk", "start", "roads", "route")},
                "terrain.obstacles": "no positions",
                "learning.server": 'must be "vehicle"',
                "radio.shadowing": "no positions",
            },
        ),
        ({"vehicle": {"follows": "v", "in_passing": False}}, {"vehicle.in_passing": "be true with vehicle.follows"}),
        ({"stop": {"visits": 9}}, {"stop.sim_time_s": "must be given with vehicle.follows"}),
        ({"clients": {"count": 2, "distance_m": 7.0}}, {"clients.mobility.distance_m": "within reach of the radio"}),
        ({"clients": {"count": 2, "resolution_s": 0}}, {"clients.mobility.resolution_s": "greater than 0"}),
        ({"clients": {"count": 2, "path": "gone.csv"}}, {"clients.mobility.path": "gone.csv: no such file"}),
        ({"clients": {"count": 1}, "vehicle": {"follows": "y"}}, {"vehicle.follows": "meets none of the clients"}),
        ({"learning": {"partition_over": "sites"}}, {"clients.mobility.path": "has no class for each client"}),
        (
            {"clients": {"groups": [{"count": 1, "mobility": "static"}, {"count": 1}]}},
            {"clients.groups[0].mobility": "must be left out"},
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_located(changes: dict[str, Any], problems: dict[str, str], tmp_path: Path) -> None:
    raw = world(tmp_path, "v,x,0,9\nx,y,0,9\n")
    usual = raw["clients"]["mobility"]
    clients = changes.pop("clients", raw["clients"])
    own = {key: clients.pop(key) for key in ("distance_m", "resolution_s", "path") if key in clients}
    clients = {**clients, "mobility": {**usual, **own}}
    with pytest.raises(ScenarioError) as error:
        Simulation(scenario_of({**raw, **changes, "clients": clients}, (), "bad", tmp_path))
    found = {problem.key: problem.message for problem in error.value.problems}
    assert found.keys() == problems.keys()
    for key, message in problems.items():
        assert message in found[key]


def test_a_list_is_for_all_clients_and_a_node_for_lists_only() -> None:
    with pytest.raises(ScenarioError, match=r"vehicle\.follows: must be left out unless clients\.mobility is of kind"):
        scenario_of({"vehicle": {"follows": "v"}, "stop": {"sim_time_s": 9}}, (), "bad")
    groups = [{"count": 2, "mobility": {"kind": "contacts", "path": "list.csv"}}, {"count": 2}]
    with pytest.raises(ScenarioError, match=r"clients\.groups\[0\]\.mobility\.kind .*must be that of all clients"):
        scenario_of({"clients": {"groups": groups}}, (), "bad")


@pytest.mark.parametrize("command", ["check", "run"])
def test_bad_lines_end_with_status_2(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.csv").write_text("a,b,start,end\n1,2,0,9\n1,3,5,4\n2,2,5,9\n")
    (tmp_path / "list.toml").write_text(
        '[clients]\ncount = 2\nmobility = { kind = "contacts", path = "list.csv" }\n'
        '[vehicle]\nfollows = "1"\n[stop]\nsim_time_s = 20\n'
    )
    assert main([command, str(tmp_path / "list.toml")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert f"clients.mobility.path: {tmp_path / 'list.csv'}, line 3: end must not be before start: 1,3,5,4" in first
    assert "line 4: node 2 must not be in contact with itself" in second


def test_the_content_of_the_list_is_part_of_the_run(tmp_path: Path) -> None:
    scenario = scenario_of(world(tmp_path, "v,x,0,9\nx,y,0,9\n"), (), "small")
    before = identity_of(scenario)
    run(scenario, tmp_path / "run")
    assert load_scenario(str(tmp_path / "run")) == scenario
    (tmp_path / "list.csv").write_text("a,b,start,end\nv,x,0,10\nx,y,0,9\n")
    assert identity_of(scenario) != before


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "mobility.md").read_text(encoding="utf-8")
    section = page.partition("\n## contacts\n")[2]
    (tmp_path / "ward.toml").write_text(re.findall(r"```toml\n(.*?)```", section, flags=re.S)[0])
    (tmp_path / "ward.csv").write_text(re.findall(r"```text\n(.*?)```", section, flags=re.S)[0])
    contacts = run(load_scenario(str(tmp_path / "ward.toml")), tmp_path / "run").contacts
    assert contacts["client"].tolist() == [0, 1, 0]
    assert contacts["delivered"].tolist() == [1, 1, 1]
