"""Fastest routes across surfaces: never slower than others, and close to the fastest there are."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from random_terrain import GROUND, SIZE_M, length_inside, open_point, polygon_lists

from fedmule.mobility.driving import Driving
from fedmule.mobility.models.movement import fastest_routes
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_world

NOWHERE = shapely.box(-9, -9, -8, -8)
FACTORS = [0.1, 0.25, 0.5, 0.8, 1.5, 3.0]


def seconds(terrain: Terrain, route: np.ndarray) -> float:
    return float(terrain.timed_route(route, 1.0)[0][-1])


def made(walls: list[shapely.Polygon], surfaces: list[shapely.Polygon], factors: list[float]) -> Terrain:
    return Terrain(
        SIZE_M, [Obstacle(wall) for wall in walls], [Surface(*both) for both in zip(surfaces, factors, strict=True)]
    )


@settings(deadline=None, max_examples=40, derandomize=True)
@given(polygon_lists, st.integers(0, 2**32 - 1))
def test_never_slower_than_the_shortest_route_and_never_through_a_wall(polygons, seed):
    rng = np.random.default_rng(seed)
    walls, surfaces = polygons[::2], [*polygons[1::2], shapely.box(*rng.uniform(0, 30, 2), 40, 35)]
    terrain = made(walls, surfaces, rng.choice(FACTORS, len(surfaces)).tolist())
    for _ in range(4):
        start, goal = open_point(walls, rng), open_point(walls, rng)
        if terrain.area_of(start[None]) != terrain.area_of(goal[None]):
            continue
        route = terrain.route(start, goal)
        assert route[[0, -1]].tolist() == [start.tolist(), goal.tolist()]
        assert length_inside(walls, route) < 1e-9
        assert shapely.union_all(walls).distance(shapely.LineString(route)) >= 0.005 - 1e-9
        assert GROUND.buffer(1e-9).covers(shapely.LineString(route))
        assert seconds(terrain, route) <= seconds(terrain, terrain.router.route(start, goal)) * (1 + 1e-9)


def leg_seconds(legs: np.ndarray, surfaces: list[shapely.Polygon], factors: list[float]) -> np.ndarray:
    """Seconds of legs [m,2,2], from the lengths of their parts on the surfaces."""
    lines = shapely.linestrings(legs)
    total, below = shapely.length(lines), shapely.Polygon()
    for surface, factor in zip(reversed(surfaces), reversed(factors), strict=True):
        total += (1 / factor - 1) * shapely.length(shapely.intersection(surface.difference(below), lines))
        below = below.union(surface)
    return total


def fine_search(walls, surfaces, factors, ends: list[np.ndarray], spacing_m: float = 1.3) -> np.ndarray:
    """Seconds between all of some positions, over points close together on both sides of all edges, by networkx."""
    shapes = [shape.buffer(side, join_style="mitre") for shape in surfaces for side in (-0.002, 0.002)]
    shapes += [wall.buffer(0.012, join_style="mitre") for wall in walls]
    edge = shapely.get_coordinates(shapely.segmentize([shape.exterior for shape in shapes], spacing_m))
    blocked = shapely.union_all(walls).buffer(0.011, join_style="mitre")
    free = shapely.covers(GROUND, shapely.points(edge)) & ~shapely.intersects(blocked, shapely.points(edge))
    nodes = np.concatenate([np.array(ends), np.unique(edge[free], axis=0)])
    a, b = np.triu_indices(len(nodes), 1)
    shapely.prepare(blocked)
    sees = ~shapely.intersects(blocked, shapely.linestrings(nodes[np.stack([a, b], axis=1)]))
    a, b = a[sees], b[sees]
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        zip(a, b, leg_seconds(nodes[np.stack([a, b], axis=1)], surfaces, factors), strict=True)
    )
    found = [nx.single_source_dijkstra_path_length(graph, i) for i in range(len(ends))]
    return np.array([[row.get(j, np.inf) for j in range(len(ends))] for row in found])


WORLDS = {
    "wood": ([], [shapely.Polygon([(15, 8), (30, 6), (36, 20), (25, 34), (14, 26)])], [0.4]),
    "road": ([], [shapely.Polygon([(6, 0), (8, 0), (8, 18), (50, 18), (50, 20), (6, 20)])], [1.5]),
    "motorway across a swamp": (
        [shapely.box(20, 24, 32, 30)],
        [shapely.Polygon(xy) for xy in ([(4, 4), (44, 10), (40, 34), (8, 30)], [(0, 14), (50, 17), (50, 19), (0, 16)])],
        [0.2, 3.0],
    ),
    "wall with a muddy gate": (
        [shapely.box(22, -1, 24, 17), shapely.box(22, 23, 24, 41)],
        [shapely.box(16, 15, 30, 25), shapely.box(10, 30, 40, 36)],
        [0.25, 2.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("world", list(WORLDS))
def test_within_a_hundredth_of_a_fine_search(world):
    walls, surfaces, factors = WORLDS[world]
    rng = np.random.default_rng(1)
    ends = [open_point(walls or [NOWHERE], rng) for _ in range(8)]
    terrain, best = made(walls, surfaces, factors), fine_search(walls, surfaces, factors, ends)
    bends = 0
    for i, start in enumerate(ends):
        for j, goal in enumerate(ends):
            if i == j:
                continue
            route = terrain.route(start, goal)
            bends += len(route) > 2
            checked = leg_seconds(np.array(list(pairwise(route))), surfaces, factors).sum()
            assert seconds(terrain, route) == pytest.approx(checked, rel=1e-6)
            assert checked <= 1.01 * best[i, j] + 0.02  # it keeps a centimetre off
    assert bends > 10


@pytest.mark.parametrize("seed", range(4))
def test_denser_nodes_save_less_than_a_hundredth(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    middles, spreads = rng.uniform((5, 5), (45, 35), (4, 2)), rng.uniform(3, 9, 4)
    blobs = [
        shapely.MultiPoint(rng.normal(xy, spread, (6, 2))).convex_hull
        for xy, spread in zip(middles, spreads, strict=True)
    ]
    usual = made(blobs[:1], blobs[1:], rng.permutation(FACTORS)[:3].tolist())
    dense = Terrain(SIZE_M, usual.obstacles, usual.surfaces)
    ends = [open_point(blobs[:1], rng) for _ in range(30)]
    pairs = [pair for pair in zip(ends[::2], ends[1::2], strict=True) if (usual.area_of(np.array(pair)) == 0).all()]
    took = [seconds(usual, usual.route(*pair)) for pair in pairs]
    monkeypatch.setattr("fedmule.mobility.seams.POINTS", 1000)
    finer = [seconds(usual, dense.route(*pair)) for pair in pairs]
    assert (np.array(took) <= 1.01 * np.array(finer)).all()


def test_it_stays_on_the_terrain_where_a_wood_reaches_beyond():
    wood = shapely.Polygon([(4.43, 19.37), (-6.8, 26.52), (18.74, 40.41), (16.89, 19.22)])
    thicket = shapely.Polygon([(12.26, 34.96), (15.82, 42.03), (16.32, 36.3), (15.8, 32.7)])
    terrain = made([], [wood, thicket], [0.25, 0.1])
    for start, goal in (((18.11, 35.19), (7.39, 37.99)), ((5.64, 31.74), (27.63, 27.6))):
        route = terrain.route(np.array(start), np.array(goal))
        assert len(route) > 4
        assert GROUND.buffer(1e-9).covers(shapely.LineString(route))


def test_it_obeys_snells_law():
    terrain = made([], [shapely.box(0, 0, 50, 20)], [0.5])
    start, goal = np.array([5.0, 35.0]), np.array([40.0, 5.0])
    route = terrain.route(start, goal)
    assert len(route) == 3
    into, out = (leg[0] / np.hypot(*leg) for leg in np.diff(route, axis=0))
    assert into / out == pytest.approx(1 / 0.5, rel=1e-3)


@pytest.mark.parametrize("apart_m", [3.0, 8.0, 25.0, 40.0])
@pytest.mark.parametrize("off_m", [0.3, 1.0, 4.0])
def test_short_ways_use_a_road_as_soon_as_it_pays(apart_m, off_m):
    """To the road at the critical angle, along it, and back: or straight where that is too far round."""
    terrain = made([], [shapely.box(-1, 20, 51, 24)], [1.5])
    start = np.array([5.0, 20 - off_m])
    by_road = 2 * off_m / np.sqrt(1 - 1 / 1.5**2) + (apart_m - 2 * off_m / np.sqrt(1.5**2 - 1)) / 1.5
    best = min(apart_m, by_road) if apart_m > 2 * off_m / np.sqrt(1.5**2 - 1) else apart_m
    found = seconds(terrain, terrain.route(start, start + np.array([apart_m, 0.0])))
    assert best * (1 - 1e-9) <= found <= best * 1.01 + 0.02


@pytest.mark.parametrize("factor", [0.4, 1.0])
def test_a_surface_as_slow_as_the_ground_changes_nothing(factor):
    """Nor does one that lies under another."""
    wood = shapely.box(10, 10, 40, 30)
    for terrain in (made([], [wood], [1.0]), made([], [wood, wood.buffer(1)], [factor, 1.0])):
        assert terrain.route(np.array([5.0, 20.0]), np.array([45.0, 21.0])).tolist() == [[5, 20], [45, 21]]


def test_routes_do_not_depend_on_those_asked_for_before():
    walls, surfaces, factors = WORLDS["motorway across a swamp"]
    rng = np.random.default_rng(3)
    ends = [open_point(walls, rng) for _ in range(12)]
    once, again = (made(walls, surfaces, factors) for _ in range(2))
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    first = [once.route(*pair) for pair in pairs]
    for route, pair in zip(reversed(first), reversed(pairs), strict=True):
        assert again.route(*pair).tolist() == route.tolist()


def test_walkers_and_vehicles_go_round_the_wood():
    walls, surfaces, factors = WORLDS["wood"]
    terrain = made(walls, surfaces, factors)
    start, goal = np.array([[10.0, 12.0]]), np.array([[40.0, 14.0]])
    straight = terrain.timed_route(np.concatenate([start, goal]), 2.0)[0][-1]
    walk = fastest_routes(terrain, start, goal, np.array([2.0]))
    assert walk.duration[0] < 0.8 * straight
    drive_s, positions = Driving(terrain, 2.0).way(start[0], goal[0])
    assert drive_s[-1] == pytest.approx(walk.duration[0])
    assert shapely.LineString(positions).intersection(surfaces[0]).length < 1


def test_round_the_north_wood_of_warzone():
    world = build_world(load_scenario("warzone"), Streams(0), {})
    start, goal = np.array([700.0, 780.0]), np.array([1100.0, 800.0])
    through = world.terrain.timed_route(np.stack([start, goal]), 10.0)[0][-1]
    assert through == pytest.approx(82.1, abs=0.1)
    assert world.driving[0].way(start, goal)[0][-1] <= 47
