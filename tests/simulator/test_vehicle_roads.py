"""The vehicle on roads: by the fastest way, off them only at the ends, round what closes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import shapely
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from fedmule.analysis import load_run
from fedmule.mobility.driving import Driving
from fedmule.mobility.road_network import RoadNetwork, grid_lines
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario, scenario_of, to_toml
from fedmule.simulator.scenario.mobility import StaticMobility
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_world

SIZE = (400.0, 300.0)
LAKE = shapely.box(120, 80, 280, 220)
FREE, BY_THE_LAKE = Terrain(SIZE), Terrain(SIZE, [Obstacle(LAKE)])
GRID = shapely.MultiLineString(grid_lines(SIZE, (50.0, 50.0)))


OFF_ROAD = 0.3  # of the speed


def driving(terrain: Terrain = FREE, factor: float = OFF_ROAD, lines: Any = None) -> Driving:
    return Driving(terrain, 10.0, RoadNetwork(terrain, lines or grid_lines(SIZE, (50.0, 50.0))), factor)


def metres(positions: np.ndarray) -> np.ndarray:
    return np.hypot(*np.diff(positions, axis=0).T)


def off_road_m(positions: np.ndarray, roads: Any = GRID) -> float:
    return float(shapely.LineString(positions).difference(roads.buffer(1e-6)).length)


def nearest_way_s(terrain: Terrain, start: np.ndarray, aim: np.ndarray) -> float:
    """Seconds of the way that enters and leaves the roads where they are nearest, by networkx."""
    roads = GRID.intersection(terrain.areas[0])
    gaps = [roads.distance(shapely.Point(*position)) for position in (start, aim)]
    ends = [
        shapely.get_coordinates(shapely.shortest_line(roads, shapely.Point(*position)))[0] for position in (start, aim)
    ]
    wide, graph = roads.buffer(1e-6), nx.Graph()
    shapely.prepare(wide)
    for a, b in grid_lines(SIZE, (50.0, 50.0)):
        line = shapely.LineString([a, b])
        stops = [a, b, *(end for end in ends if line.distance(shapely.Point(*end)) < 1e-6)]
        stops = sorted(stops, key=lambda stop: line.project(shapely.Point(*stop)))
        for p, q in pairwise(stops):
            if wide.covers(shapely.LineString([p, q])):
                graph.add_edge(tuple(np.round(p, 6)), tuple(np.round(q, 6)), m=np.hypot(*np.subtract(p, q)))
    nodes = [tuple(np.round(end, 6)) for end in ends]
    by_road = 0.0 if nodes[0] == nodes[1] else nx.shortest_path_length(graph, *nodes, weight="m")
    return (by_road + sum(gaps) / OFF_ROAD) / 10


@cache
def fine_roads(terrain: Terrain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions [n,2] every four metres of the roads, pairs [e,2] of neighbours, and the distances between them [e]."""
    lines = shapely.get_parts(GRID.intersection(terrain.areas[0]))
    ends = [shapely.get_coordinates(line.segmentize(4.0)) for line in lines]
    legs = np.concatenate([np.stack([xy[:-1], xy[1:]], axis=1) for xy in ends])
    points, number = np.unique(np.round(legs.reshape(-1, 2), 2), axis=0, return_inverse=True)
    return points, number.reshape(-1, 2), np.hypot(*(legs[:, 1] - legs[:, 0]).T)


def best_way_s(terrain: Terrain, start: np.ndarray, aim: np.ndarray) -> float:
    """Seconds of the fastest way with straight ends that enters and leaves the roads at these positions, by scipy."""
    points, pairs, length_m = fine_roads(terrain)
    walls = shapely.union_all([obstacle.polygon for obstacle in terrain.obstacles])
    every = np.concatenate([points, [start, aim]])
    n = len(points)
    off = np.array([[n, v] for v in range(n)] + [[n + 1, v] for v in range(n)] + [[n, n + 1]])
    lines = shapely.linestrings(every[off])
    off, lines = off[~shapely.intersects(walls, lines)], lines[~shapely.intersects(walls, lines)]
    rows, columns = np.concatenate([pairs, off]).T
    weights = np.concatenate([length_m, shapely.length(lines) / OFF_ROAD])
    graph = coo_array((weights, (rows, columns)), shape=(n + 2, n + 2)).tocsr()
    return float(dijkstra(graph, directed=False, indices=n)[n + 1]) / 10


@pytest.mark.parametrize("terrain", [FREE, BY_THE_LAKE], ids=["free", "lake"])
@pytest.mark.parametrize("seed", range(8))
def test_no_way_is_faster(terrain: Terrain, seed: int) -> None:
    rng = np.random.default_rng(seed)
    start, aim = (rng.uniform(0, SIZE) for _ in range(2))
    if not (terrain.area_of(np.stack([start, aim])) == 0).all():
        pytest.skip("in the lake")
    seconds, positions = driving(terrain).way(start, aim)
    assert positions[0].tolist() == start.tolist()
    assert positions[-1] == pytest.approx(aim)
    off = off_road_m(positions)
    assert seconds[-1] == pytest.approx((metres(positions).sum() - off) / 10 + off / (10 * OFF_ROAD))
    assert seconds[-1] <= nearest_way_s(terrain, start, aim) + 1e-6
    best = best_way_s(terrain, start, aim)
    assert seconds[-1] <= best + 0.01  # the lake's roads end a centimetre off it
    if terrain is FREE:
        assert seconds[-1] >= 0.99 * best
    else:
        assert shapely.LineString(positions).intersection(LAKE).length < 1e-9


def test_it_turns_into_a_road_at_the_critical_angle() -> None:
    start, aim = np.array([25.0, 10.0]), np.array([325.0, 270.0])  # 10 m and 20 m north of a road
    seconds, positions = driving(factor=0.25).way(start, aim)
    off = 30 / np.sqrt(1 - 0.25**2)
    assert positions[1] == pytest.approx([25 + 10 * 0.25 / np.sqrt(1 - 0.25**2), 0])
    assert off_road_m(positions) == pytest.approx(off)
    assert seconds[-1] == pytest.approx((metres(positions).sum() - off) / 10 + off / 2.5)
    speed = metres(positions) / np.diff(seconds)
    assert speed[[0, -1]] == pytest.approx([2.5, 2.5])
    assert speed[1:-1] == pytest.approx(np.full(len(speed) - 2, 10.0))


def test_on_slow_surfaces_other_roads_are_faster() -> None:
    lines = [[[10, 150], [390, 150]], [[10, 150], [10, 100], [390, 100], [390, 150]]]
    start, aim = np.array([10.0, 150.0]), np.array([390.0, 150.0])
    mud = [Surface(shapely.box(100, 140, 300, 160), 0.5)]
    for surfaces, expected in (((), 38.0), (mud, 48.0)):
        seconds, positions = driving(Terrain(SIZE, (), surfaces), lines=lines).way(start, aim)
        assert seconds[-1] == pytest.approx(expected)
        assert off_road_m(positions, shapely.MultiLineString(lines)) < 1e-6
    mild = [Surface(shapely.box(100, 140, 300, 160), 0.8)]  # 5 s more, not 10
    assert driving(Terrain(SIZE, (), mild), lines=lines).way(start, aim)[0][-1] == pytest.approx(43.0)


def test_what_is_next_to_it_off_the_road_is_not_visited_by_road() -> None:
    _, positions = driving().way(np.array([20.0, 25.0]), np.array([26.0, 30.0]))
    assert positions.tolist() == [[20, 25], [26, 30]]


def test_a_closed_road_is_not_driven() -> None:
    lines = [[[10, 150], [390, 150]], [[10, 150], [10, 20], [390, 20], [390, 150]]]
    start, aim = np.array([60.0, 150.0]), np.array([340.0, 150.0])
    straight = driving(FREE, 0.1, lines).way(start, aim)[1]
    assert metres(straight).sum() == pytest.approx(280)
    rock = Terrain(SIZE, [Obstacle(shapely.box(195, 145, 205, 155))])
    _, positions = driving(rock, 0.1, lines).way(start, aim)
    assert metres(positions).sum() == pytest.approx(50 + 130 + 380 + 130 + 50)
    assert off_road_m(positions, shapely.MultiLineString(lines)) < 1e-6
    seconds, positions = driving(rock, 0.8, lines).way(start, aim)  # now it is faster to leave the road for good
    assert seconds[-1] < 40
    assert shapely.LineString(positions).distance(rock.obstacles[0].polygon) > 0


def test_where_roads_do_not_hang_together_it_takes_the_part_that_serves_best() -> None:
    lines = [[[10, 20], [390, 20]], [[200, 100], [200, 290]]]
    slant = 1 / np.sqrt(1 - OFF_ROAD**2)
    for start, aim in (([30.0, 25.0], [370.0, 30.0]), ([205.0, 110.0], [190.0, 280.0])):  # 5 m and 10 m off a road
        _, positions = driving(lines=lines).way(np.array(start), np.array(aim))
        assert off_road_m(positions, shapely.MultiLineString(lines)) == pytest.approx(15 * slant)
    assert metres(positions).sum() == pytest.approx(170 - 15 * slant * OFF_ROAD + 15 * slant)


def test_it_leaves_the_road_on_the_right_side_of_a_river() -> None:
    """The nearest road lies across the river; it takes the one on the client's bank that it can drive from."""
    river = Terrain(SIZE, [Obstacle(shapely.box(-1, 140, 360, 150))])
    lines = [[[0, 130], [390, 130], [390, 220], [0, 220]]]
    _, positions = driving(river, 0.1, lines).way(np.array([20.0, 130.0]), np.array([20.0, 160.0]))
    assert positions[-2] == pytest.approx([20 + 6 / np.sqrt(0.99), 220])
    assert off_road_m(positions, shapely.MultiLineString(lines)) == pytest.approx(60 / np.sqrt(0.99))


# --- in complete runs --------------------------------------------------------------------------------------


def write_roads(path: Path, lines: Any) -> None:
    features = [{"type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": line}}
                for line in lines]  # fmt: skip
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def test_a_run_on_roads_of_a_file(tmp_path: Path) -> None:
    lines = [[[0, 40], [300, 40]], [[150, 40], [150, 190], [20, 190]]]
    write_roads(tmp_path / "town.geojson", lines)
    (tmp_path / "town.toml").write_text(
        """
        [terrain]
        size_m = [300, 200]
        obstacles = [{ polygon = [[180, 70], [260, 70], [260, 160], [180, 160]] }]
        [vehicle]
        roads = { geojson = "town.geojson", coordinates = "metres" }
        off_road_factor = 0.5
        approach_m = 2
        [clients]
        count = 5
        report_error_m = 0
        mobility = { kind = "static", positions = [[10, 44], [290, 37], [147, 150], [60, 185], [280, 190]] }
        [radio]
        kind = "disc"
        range_m = 30
        [learning]
        dataset = { samples = [5, 20] }
        [stop]
        visits = 25
        """,
        encoding="utf-8",
    )
    scenario = load_scenario(str(tmp_path / "town.toml"))
    mobility = scenario.clients.mobility
    assert isinstance(mobility, StaticMobility)
    assert scenario.vehicle.roads is not None
    assert scenario_of(_parsed(to_toml(scenario)), (), "again") == scenario  # what is written down needs no file
    run_scenario(scenario, str(tmp_path / "run"))
    run = load_run(tmp_path / "run")
    assert set(run.contacts["client"]) == set(range(5))  # the one far off the road too
    track = run.track[run.track["node"] == "vehicle"]
    xy, t = track[["x_m", "y_m"]].to_numpy(), track["sim_time_s"].to_numpy()
    on_road = shapely.MultiLineString(lines).buffer(1e-6)
    legs = shapely.linestrings(np.stack([xy[:-1], xy[1:]], axis=1))
    driven, off = shapely.length(legs), shapely.length(shapely.difference(legs, on_road))
    assert shapely.length(shapely.intersection(legs, shapely.box(180, 70, 260, 160))).max() < 1e-9
    speed = driven[1:] / np.maximum(np.diff(t)[1:], 1e-9)
    assert (speed <= 10 + 1e-6).all()
    whole_off = (off > 0.99 * driven) & (driven > 1)
    assert speed[whole_off[1:]] == pytest.approx(np.full(whole_off[1:].sum(), 5.0), rel=1e-3)
    assert driven.sum() - off.sum() > 1000


def _parsed(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


@pytest.mark.parametrize(
    ("roads", "key", "message"),
    [
        ('"nowhere.geojson"', "vehicle.roads.geojson", "cannot be read"),
        ('"shapes.geojson"', "vehicle.roads.geojson", "holds no line; it has 1 polygon"),
        ('{ geojson = "far.geojson", coordinates = "metres" }', "vehicle.roads", "no road on the open ground"),
        ('{ geojson = "near.geojson", origin = [50, 100] }', "vehicle.roads.origin", "must be [lon, lat]"),
        ("{ block_m = [100, 0] }", "vehicle.roads.block_m[1]", "greater than 0"),
        ("{ lines = [[[0, 0]]] }", "vehicle.roads.lines[0]", "at least 2 entries"),
        ("{ lines = [[[0, 0], [9, 9]]], block_m = [50, 50] }", "vehicle.roads", "either lines or block_m"),
        ("{}", "vehicle.roads", "either lines or block_m"),
        ("{ blocks = 3 }", "vehicle.roads.blocks", "did you mean block_m?"),
    ],
)
def test_bad_roads_are_reported_by_their_key(tmp_path: Path, roads: str, key: str, message: str) -> None:
    write_roads(tmp_path / "far.geojson", [[[5000, 5000], [6000, 6000]]])
    write_roads(tmp_path / "near.geojson", [[[8.0, 50.0], [8.01, 50.01]]])
    square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    (tmp_path / "shapes.geojson").write_text(json.dumps(square), encoding="utf-8")
    (tmp_path / "bad.toml").write_text(f"vehicle.roads = {roads}\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        build_world(load_scenario(str(tmp_path / "bad.toml")), Streams(0), {})
    problems = {problem.key: problem.message for problem in error.value.problems}
    assert key in problems
    assert message in problems[key]


def test_a_grid_of_streets_for_the_vehicle_and_degrees_for_the_clients(
    small: Callable[..., Scenario], tmp_path: Path
) -> None:
    write_roads(tmp_path / "lonlat.geojson", [[[10.0, 50.0], [10.002, 50.0], [10.002, 50.001]]])
    raw = {
        "terrain": {"size_m": [300, 200]},
        "vehicle": {"roads": {"block_m": [50, 50]}},
        "clients": {
            "count": 4,
            "mobility": {
                "kind": "roads",
                "roads": {"geojson": "lonlat.geojson", "coordinates": "lonlat", "origin": [10.0, 50.0]},
            },
        },
        "learning": {"dataset": {"samples": [5, 20]}},
        "stop": {"visits": 5},
    }
    scenario = scenario_of(raw, (), "degrees", tmp_path)
    lines = scenario.clients.mobility.roads.lines  # type: ignore[union-attr]
    east = 6_371_008.8 * np.pi / 180 * np.cos(np.radians(50))
    assert lines[0][1] == pytest.approx((0.002 * east, 0.0), abs=1e-6)
    assert run_scenario(scenario, str(tmp_path / "run"))["visits"] == 5
