"""Every kind of movement in a complete run, from the smallest table; and errors for tables that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from fedmule.analysis import load_run
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario.clients import Clients
from fedmule.simulator.scenario.load import scenario_of
from fedmule.simulator.scenario.messages import kinds_of
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_world

HOUSES = [shapely.box(x, y, x + 35, y + 25) for x in (30, 130, 230) for y in (20, 110)]
LEARNING = {"dataset": {"samples": [5, 20]}, "local_steps": 1}

MOVEMENTS = kinds_of(Clients, "mobility")


def small_world(kind: str) -> dict[str, Any]:
    obstacles = [{"polygon": shapely.get_coordinates(house)[:-1].tolist(), "radio_loss_db": 5.0} for house in HOUSES]
    return {
        "terrain": {"size_m": [300, 180], "obstacles": obstacles},
        "clients": {"count": 6, "mobility": {"kind": kind}},
        "learning": LEARNING,
        "stop": {"visits": 8},
    }


@pytest.mark.parametrize("kind", sorted(set(MOVEMENTS) - {"trace", "contacts", "redrawn"}))
def test_a_run_among_houses(kind: str, tmp_path: Path) -> None:
    summary = run_scenario(scenario_of(small_world(kind), (), kind), str(tmp_path / "run"))
    assert summary["visits"] == 8
    track = load_run(tmp_path / "run").track
    walls = shapely.union_all(HOUSES)
    for _, rows in track.groupby(["node", "id"]):
        xy = rows[["x_m", "y_m"]].to_numpy()
        assert (xy >= -1e-9).all()
        assert (xy <= np.array([300, 180]) + 1e-9).all()
        legs = shapely.linestrings(np.stack([xy[:-1], xy[1:]], axis=1)[(np.diff(xy, axis=0) != 0).any(axis=1)])
        assert shapely.length(shapely.intersection(walls, legs)).max(initial=0.0) < 1e-9


@pytest.mark.parametrize("kind", sorted(set(MOVEMENTS) - {"trace", "contacts"}))
def test_the_smallest_table_works_on_the_default_terrain(kind: str) -> None:
    world = build_world(scenario_of({"clients": {"mobility": kind}}, (), kind), Streams(0), {})
    start = world.positions.true(np.arange(20)).copy()
    world.positions.advance(600.0)
    moved = np.hypot(*(world.positions.true(np.arange(20)) - start).T)
    assert (moved > 0).any() == (kind not in ("static", "redrawn"))


def test_data_follow_herds_as_they_follow_squads() -> None:
    raw = {"clients": {"count": 9, "mobility": {"kind": "herd", "herds": 3}}, "learning": {"partition_over": "sites"}}
    world = build_world(scenario_of(raw, (), "herds"), Streams(0), {})
    assert world.sites.site is not None
    assert world.sites.site.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("mobility", "key", "message"),
    [
        ({"kind": "random_walk", "speed_mps": [2, 1]}, "clients.mobility.speed_mps", "[lowest, highest]"),
        ({"kind": "random_walk", "step_m": 0}, "clients.mobility.step_m", "greater than 0"),
        ({"kind": "gauss_markov", "memory": 1.0}, "clients.mobility.memory", "less than 1"),
        ({"kind": "manhattan", "turn": 1.5}, "clients.mobility.turn", "at most 1"),
        ({"kind": "manhattan", "block_m": [5000, 5000]}, "clients.mobility.block_m", "no side of a block"),
        ({"kind": "roads", "pause_s": [9, 1]}, "clients.mobility.pause_s", "[lowest, highest]"),
        ({"kind": "roads", "roads": {"lines": [[[2000, 0], [2000, 9]]]}}, "clients.mobility.roads", "no road"),
        ({"kind": "roads", "roads": "no.geojson"}, "clients.mobility.roads.geojson", "cannot be read"),
        ({"kind": "patrol", "route": [[1, 1]]}, "clients.mobility.route", "at least 2 points"),
        ({"kind": "patrol", "route": [[1, 1], [9, 2000]]}, "clients.mobility.route[1]", "on the terrain"),
        ({"kind": "patrol", "route": [[1, 1], [450, 450]]}, "clients.mobility.route[1]", "lies in an obstacle"),
        ({"kind": "herd", "herds": 21}, "clients.mobility.herds", "at most the number of clients, 20"),
        ({"kind": "herd", "hurds": 2}, "clients.mobility.hurds", "did you mean herds?"),
        ({"kind": "drift", "moored": 2.0}, "clients.mobility.moored", "at most 1"),
        ({"kind": "drifts"}, "clients.mobility.kind", "did you mean drift?"),
    ],
)
def test_what_does_not_fit_is_reported_by_its_key(mobility: dict[str, Any], key: str, message: str) -> None:
    rock = {"polygon": [[400, 400], [500, 400], [500, 500], [400, 500]]}
    with pytest.raises(ScenarioError) as error:
        build_world(
            scenario_of({"terrain": {"obstacles": [rock]}, "clients": {"mobility": mobility}}, (), "bad"),
            Streams(0),
            {},
        )
    problems = {problem.key: problem.message for problem in error.value.problems}
    assert key in problems
    assert message in problems[key]
