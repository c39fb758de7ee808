"""The scenarios that ship with a story: each runs, meets people, learns, and nobody walks through walls."""

from __future__ import annotations

import configparser
import fnmatch
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from short_runs import run

from fedmule import scenarios
from fedmule.analysis import Run
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.studies.plan import find_study, load_study_file, plan_study

FOLDER = Path(scenarios.__file__).parent
VISITS = {"warzone": 30, "earthquake": 20, "wildlife": 20, "underwater": 15, "city": 12, "blackout": 25}
SHORT = ["learning.evaluate_every=10", "log.graph_every=10"]
IN_THE_BOX = {"synthetic", "digits", "sonar"}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """short(name): the first visits of a scenario, run once."""
    done: dict[str, Run] = {}

    def made(name: str) -> Run:
        if name not in done:
            scenario = load_scenario(name, [*SHORT, f"stop.visits={VISITS[name]}"])
            done[name] = run(scenario, tmp_path_factory.mktemp(name) / "run")
        return done[name]

    return made


@pytest.mark.parametrize("name", VISITS)
def test_contacts_happen_and_the_token_learns(name: str, short: Callable[[str], Run]) -> None:
    story = short(name)
    assert story.summary["visits"] == VISITS[name]
    assert story.visits["delivered"].sum() >= 0.5 * story.visits["active"].sum() > 0
    assert story.summary["bytes_down"] > 0
    learnt = 0.05 if name == "underwater" else 0.1  # mines and rocks: half are right by chance
    assert story.summary["token_test_acc"] > story.summary["start_personal_test_acc_mean"] + learnt


def test_the_channel_is_busy_and_exchanges_break_in_most_stories(short: Callable[[str], Run]) -> None:
    demanding = 0
    for name in VISITS:
        summary = short(name).summary
        busy = summary["airtime_s"] / summary["sim_time_s"]
        broken = 1 - summary["delivered"] / summary["active"]
        demanding += busy >= 0.03 and broken >= 0.05
    assert demanding >= 4


def test_where_every_client_has_a_task_of_its_own_the_verdict_is_against_the_vehicle() -> None:
    summary = Simulation(load_scenario("farms", {"learning.algorithm.try_at": 0})).run()
    assert summary["gain_over_alone"] < -summary["gain_over_alone_half_width"]
    assert "against training alone" in summary["verdict"]


def test_there_nearly_everyone_chooses_to_train_alone_and_loses_nothing() -> None:
    summary = Simulation(load_scenario("farms")).run()
    assert summary["clients_alone"] is not None
    assert summary["clients_alone"] > 0.8 * summary["clients"]
    assert summary["gain_over_alone"] > -0.01
    assert f"{summary['clients_alone']} chose to train alone" in str(summary["verdict"])


@pytest.mark.parametrize("name", VISITS)
def test_each_story_has_a_map_of_its_gain(name: str) -> None:
    file = find_study(f"gain/{name}")
    assert file is not None
    study = load_study_file(file)
    points = plan_study(study.model_copy(update={"seeds": 1})).points
    for key in ("vehicle.speed_mps", "radio.range_m", "vehicle.walk"):
        assert len({point.parameters[key] for point in points}) >= 2
    usual = load_scenario(name)
    assert any(
        (point.parameters["vehicle.speed_mps"], point.parameters["vehicle.walk"])
        == (usual.vehicle.speed_mps, usual.vehicle.walk.kind)
        for point in points
    )


@pytest.mark.parametrize("name", VISITS)
def test_nobody_goes_through_walls(name: str, short: Callable[[str], Run]) -> None:
    story = short(name)
    obstacles = story.scenario["terrain"]["obstacles"]
    walls = shapely.union_all([shapely.Polygon(o["polygon"]) for o in obstacles if o["stops_movement"]])
    track = story.track.dropna(subset=["x_m", "y_m"])
    shapely.prepare(walls)
    for _, way in track.groupby(["node", "id"]):
        points = way.sort_values("sim_time_s", kind="stable")[["x_m", "y_m"]].to_numpy()
        legs = shapely.linestrings(np.stack([points[:-1], points[1:]], axis=1))
        assert not shapely.crosses(walls, legs).any()
        assert not shapely.contains(walls, legs).any()
    width, height = story.scenario["terrain"]["size_m"]
    assert track["x_m"].between(-1e-6, width + 1e-6).all()
    assert track["y_m"].between(-1e-6, height + 1e-6).all()


def files_named(value: Any) -> list[str]:
    """The files a scenario's tables refer to."""
    if isinstance(value, dict):
        return [f for key, v in value.items() for f in ([v] if key in ("geojson", "path") else files_named(v))]
    return [file for item in value for file in files_named(item)] if isinstance(value, list) else []


def test_every_file_a_scenario_refers_to_ships_with_it() -> None:
    config = configparser.ConfigParser()
    config.read(FOLDER.parent / "setup.cfg")
    shipped = [glob.strip() for glob in config["options.package_data"]["fedmule.scenarios"].split(",")]
    named = 0
    for toml in FOLDER.rglob("*.toml"):
        for file in [toml.name, *files_named(tomllib.loads(toml.read_text()))]:
            assert (toml.parent / file).is_file(), (toml, file)
            assert any(fnmatch.fnmatch(f"x/{file}", glob) for glob in shipped), (toml, file)
            named += file != toml.name
    assert named >= 5


def test_data_that_ship_are_small() -> None:
    for file in FOLDER.rglob("*"):
        assert file.is_dir() or file.suffix == ".pyc" or file.stat().st_size < 300_000, file


def test_no_scenario_with_a_story_needs_a_download() -> None:
    for name in VISITS:
        assert load_scenario(name).learning.dataset.kind in IN_THE_BOX


def test_the_jammer_leaves_whoever_stands_in_it_alone() -> None:
    """Of eight soldiers in the zone a visit reaches one; of the same eight without the jammer all."""
    zone = shapely.Polygon(load_scenario("warzone").terrain.jamming_zones[0].polygon)
    angle = 2 * np.pi * np.arange(8) / 8
    ring = np.array([810.0, 400.0]) + 20 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert shapely.contains_xy(zone, *ring.T).all()
    stand = {"clients.count": 8, "clients.mobility": {"kind": "static", "positions": ring.tolist()}, "stop.visits": 4}
    stand |= {"vehicle.contact": "approach", "vehicle.in_passing": False}  # the car is among them
    jammed = Simulation(load_scenario("warzone", stand)).run()
    free = Simulation(load_scenario("warzone", {**stand, "terrain.jamming_zones": []})).run()
    assert jammed["delivered"] <= 4 * 2
    assert free["delivered"] == 4 * 8


def test_rubble_closes_streets_and_the_truck_goes_round(short: Callable[[str], Run]) -> None:
    story = short("earthquake")
    rubble = [o["polygon"] for o in story.scenario["terrain"]["obstacles"] if o["name"] == "rubble"]
    streets = [shapely.LineString(line) for line in story.scenario["vehicle"]["roads"]["lines"]]
    assert len(rubble) == 9
    for heap in rubble:
        assert any(shapely.Polygon(heap).intersects(street) for street in streets)


def test_cars_of_the_city_come_and_go_and_keep_to_the_speed_limit() -> None:
    from fedmule.mobility.traces.formats import read_trace

    trace = read_trace(FOLDER / "city_fleet.xml.gz")
    assert len(trace) == 48
    assert trace.comes_and_goes
    assert trace.legs.speed_mps.max() < 14.5
    resting = trace.legs.seconds[trace.legs.speed_mps < 0.1].sum() / trace.legs.seconds.sum()
    assert 0.3 < resting < 0.7  # red lights, fares and deliveries
