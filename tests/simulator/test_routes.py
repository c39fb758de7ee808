"""Vehicles on routes of their own: way-points, timetables, traces, and fleets that mix them with walks."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from short_runs import run, same

from fedmule.analysis import Run
from fedmule.mobility.trajectory import position_at
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario, scenario_of

Small = Callable[..., Scenario]

SQUARE = [[20.0, 20.0], [120.0, 20.0], [120.0, 120.0], [20.0, 120.0]]
FLAT = {"size_m": [200.0, 200.0], "obstacles": []}
WALL = [{"polygon": [[60, 0], [70, 0], [70, 60], [60, 60]]}]


def vehicle_at(result: Run, times: Any, number: int = 0) -> Any:
    track = result.track[(result.track["node"] == "vehicle") & (result.track["id"] == number)]
    return position_at(track["sim_time_s"].to_numpy(), track[["x_m", "y_m"]].to_numpy(), np.asarray(times, float))


def test_a_closed_route_with_a_stop_is_driven_round_after_round(small: Small, tmp_path: Path) -> None:
    route = {"points": SQUARE, "stops": [{"at": [120.0, 70.0], "wait_s": 15.0}]}
    result = run(
        small(terrain=FLAT, vehicle={"route": route, "speed_mps": 10.0}, stop={"sim_time_s": 180.0}), tmp_path / "r"
    )
    # 10 s a side; a round lasts 40 s and the stop.
    expected = {0: (20, 20), 5: (70, 20), 10: (120, 20), 15: (120, 70), 29: (120, 70), 35: (120, 120), 55: (20, 20)}
    for t, place in expected.items():
        for number in range(3):
            assert np.allclose(vehicle_at(result, [t + 55.0 * number])[0], place, atol=1e-6)
    assert result.contacts["in_passing"].all()
    assert result.summary["visits"] == 0
    assert result.summary["delivered"] > 0
    assert result.summary["stopped_by"] == "sim_time_s"


def test_there_and_back_and_once(small: Small, tmp_path: Path) -> None:
    line = [[20.0, 20.0], [120.0, 20.0]]
    back = {"points": line, "end": "there_and_back", "stops": [{"at": [120.0, 20.0], "wait_s": 4.0}]}
    result = run(small(terrain=FLAT, vehicle={"route": back}, stop={"sim_time_s": 60.0}), tmp_path / "back")
    assert np.allclose(vehicle_at(result, [5, 12, 19, 24, 29]), [[70, 20], [120, 20], [70, 20], [20, 20], [70, 20]])
    once = {"points": line, "end": "once"}
    result = run(small(terrain=FLAT, vehicle={"route": once}, stop={"sim_time_s": 60.0}), tmp_path / "once")
    assert np.allclose(vehicle_at(result, [5, 12, 55]), [[70, 20], [120, 20], [120, 20]])


def test_a_timetable_is_kept_and_repeated(small: Small, tmp_path: Path) -> None:
    stops = [
        {"at": [20.0, 20.0], "arrive_s": 10.0, "depart_s": 20.0},
        {"at": [120.0, 20.0], "arrive_s": 40.0, "depart_s": 45.0},
    ]
    timetable = {"stops": stops, "period_s": 100.0}
    result = run(small(terrain=FLAT, vehicle={"timetable": timetable}, stop={"sim_time_s": 320.0}), tmp_path / "bus")
    assert np.allclose(vehicle_at(result, [15, 30, 42, 77.5, 110]), [[20, 20], [70, 20], [120, 20], [70, 20], [20, 20]])
    assert np.allclose(vehicle_at(result, [230, 277.5]), [[70, 20], [70, 20]])
    assert np.allclose(vehicle_at(result, [0.0]), [[120 - 100 * 55 / 65, 20]])  # on its way to the first stop


def test_a_trace_is_followed(small: Small, tmp_path: Path) -> None:
    (tmp_path / "bus.csv").write_text("node,t,x,y\nbus,100,20,20\nbus,110,120,20\nvan,100,5,5\nbus,130,120,120\n")
    keys = {"path": str(tmp_path / "bus.csv"), "node": "bus"}
    result = run(small(terrain=FLAT, vehicle={"trace": keys}, stop={"sim_time_s": 60.0}), tmp_path / "run")
    assert np.allclose(vehicle_at(result, [5, 20, 50]), [[70, 20], [120, 70], [120, 120]])


def test_vehicles_may_differ(small: Small, tmp_path: Path) -> None:
    fleet = [{"route": {"points": SQUARE}}, {"walk": "tour", "speed_mps": 5.0, "start": [150.0, 150.0]}, {}]
    scenario = small(terrain=FLAT, vehicle={"fleet": fleet, "speed_mps": 9.0}, stop={"visits": 20})
    assert scenario.vehicle.count == 3
    result = run(scenario, tmp_path / "run")
    visits = result.contacts[~result.contacts["in_passing"]]
    assert set(visits["vehicle"]) == {1, 2}
    assert 0 in set(result.contacts["vehicle"])
    assert np.allclose(vehicle_at(result, [0.0], 1)[0], [150, 150])
    track = result.track[(result.track["node"] == "vehicle") & (result.track["id"] == 1)]
    speed = np.hypot(*np.diff(track[["x_m", "y_m"]].to_numpy(), axis=0).T) / np.diff(track["sim_time_s"]).clip(1e-9)
    assert speed.max() <= 5.0 + 1e-6
    again = run(scenario, tmp_path / "again")
    same(result.contacts, again.contacts)
    loaded = load_scenario(str(tmp_path / "run"))
    assert loaded == scenario


def test_a_meeting_does_not_hold_up_a_route(small: Small, tmp_path: Path) -> None:
    fleet = [{"route": {"points": SQUARE}}, {}]
    scenario = small(
        terrain=FLAT,
        vehicle={"fleet": fleet},
        radio={"kind": "disc", "range_m": 80.0, "setup_s": 2.0},
        stop={"sim_time_s": 200.0},
    )
    result = run(scenario, tmp_path / "run")
    assert len(result.meetings) > 0
    assert np.allclose(vehicle_at(result, [40.0, 85.0, 130.0]), [[20, 20], [70, 20], [120, 20]], atol=1e-6)


def geojson_line(folder: Path) -> str:
    shape = {"type": "LineString", "coordinates": SQUARE}
    (folder / "round.geojson").write_text(json.dumps({"type": "Feature", "properties": {}, "geometry": shape}))
    return str(folder / "round.geojson")


def test_a_route_from_geojson(tmp_path: Path) -> None:
    geojson_line(tmp_path)
    file = tmp_path / "ferry.toml"
    route = '[vehicle.route]\ngeojson = "round.geojson"\ncoordinates = "metres"\nend = "closed"\n'
    file.write_text(f"{route}[stop]\nsim_time_s = 50\n")
    scenario = load_scenario(str(file))
    assert [list(point) for point in scenario.vehicle.route.points] == SQUARE  # type: ignore[union-attr]
    file.write_text('[vehicle]\nroute = "gone.geojson"\n[stop]\nsim_time_s = 50\n')
    with pytest.raises(ScenarioError, match=r"vehicle\.route\.geojson.*cannot be read"):
        load_scenario(str(file))


LATE = [{"at": [20, 20], "arrive_s": 50, "depart_s": 60}, {"at": [120, 20], "arrive_s": 30, "depart_s": 90}]
FAST = [{"at": [20, 20], "arrive_s": 0, "depart_s": 10}, {"at": [120, 20], "arrive_s": 12, "depart_s": 20}]


@pytest.mark.parametrize(
    ("vehicle", "key", "message"),
    [
        ({"route": {"points": SQUARE}}, "vehicle.route.points", "leads through an obstacle"),
        ({"route": {"points": [[65, 20], [20, 20]]}}, "vehicle.route.points", "lies in an obstacle"),
        ({"route": {"points": [[20, 20], [20, 20]]}}, "vehicle.route.points", "2 different points"),
        ({"route": {"points": [[20, 20], [900, 20]]}}, "vehicle.route.points[1]", "must lie on the terrain"),
        (
            {"route": {"points": [[20, 80], [20, 150]], "stops": [{"at": [90, 90]}]}},
            "vehicle.route.stops[0].at",
            "away from the route",
        ),
        ({"timetable": {"stops": LATE}}, "vehicle.timetable.stops[1].arrive_s", "must not be before"),
        ({"timetable": {"stops": FAST}}, "vehicle.timetable.stops[1].arrive_s", "is too early"),
        ({"trace": {"path": "gone.csv"}}, "vehicle.trace.path", "no such file"),
        ({"route": {"points": [[1, 1], [2, 1]]}, "start": [5, 5]}, "vehicle.start", "must not be given beside"),
        ({"route": {"points": [[1, 1], [2, 1]]}, "in_passing": False}, "vehicle.in_passing", "must be true"),
        ({"fleet": [{}, {}], "count": 3}, "vehicle.count", "must be left out"),
    ],
)
def test_bad_routes_are_located(vehicle: dict[str, Any], key: str, message: str, tmp_path: Path) -> None:
    raw = {"vehicle": vehicle, "terrain": {"size_m": [200, 200], "obstacles": WALL}, "stop": {"sim_time_s": 60.0}}
    with pytest.raises(ScenarioError) as caught:
        Simulation(scenario_of(raw, (), "test", tmp_path))
    problem = caught.value.problems[0]
    assert problem.key == key
    assert message in problem.message


def test_a_route_needs_an_end_of_the_run() -> None:
    with pytest.raises(ScenarioError, match=r"stop\.sim_time_s"):
        scenario_of({"vehicle": {"route": {"points": [[1, 1], [9, 1]]}}}, (), "test")


def blocks() -> list[str]:
    page = Path(__file__).parents[2] / "docs" / "contacts.md"
    return re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)


@pytest.mark.parametrize("block", blocks())
def test_the_examples_of_the_page_run(block: str, small: Small, tmp_path: Path) -> None:
    raw = tomllib.loads(block)
    raw["terrain"], raw["stop"] = {"size_m": [500, 400]}, {"sim_time_s": 30.0}
    raw["learning"] = {"dataset": {"samples": [10, 12]}}
    run(scenario_of(raw, (), "contacts.md"), tmp_path / "run")
