"""Routes among many houses, against the complete visibility graph."""

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_routes import PlainRouter
from random_terrain import length, open_point, polygon_lists, terrain_of
from towns import houses, open_positions

from fedmule.mobility.clearance import MITRE_LIMIT, grown
from fedmule.mobility.route_search import shortest
from fedmule.mobility.terrain import CLEARANCE_M, Obstacle, Terrain
from fedmule.mobility.trapezoids import blocked, trapezoids

NONE_BARRED = np.empty((0, 2), dtype=np.int64)
ROWS, PITCH_M = 7, 20.0

COURTS = [
    shapely.box(x, y, x + 14, y + 14) - shapely.box(x + 2, y + 2, x + 12, y + 12) for x in (3, 43) for y in (3, 83)
]
ALLEYS = [shapely.box(x, y, x + 10, y + 10) for x in np.arange(0.0, 120.0, 10.015) for y in (20.0, 30.0, 100.03)]
ROUND = [shapely.Point(x, y).buffer(6, quad_segs=q) for x, y, q in ((50, 50, 4), (70, 52, 16), (90, 50, 64))]

TOWNS = {
    "turned": houses(ROWS, 1),
    "overlapping": houses(ROWS, 2, size_m=(12.0, 19.0)),
    "in line": houses(ROWS, 3, turned=False),
    "touching": houses(ROWS, 4, size_m=(16.0, 22.0), turned=False),
    "thin": houses(ROWS, 5, size_m=(0.2, 30.0)),
    "tiny": houses(ROWS, 6, size_m=(0.02, 0.3)),
    "courts": COURTS + houses(ROWS, 7, size_m=(3.0, 9.0)),
    "alleys": ALLEYS,
    "round": ROUND + houses(ROWS, 8, size_m=(3.0, 9.0)),
}


def town(name):
    return Terrain((ROWS * PITCH_M, ROWS * PITCH_M), [Obstacle(polygon) for polygon in TOWNS[name]])


@pytest.mark.parametrize("name", TOWNS)
def test_routes_through_a_town_are_the_shortest(name):
    terrain = town(name)
    plain, rng = PlainRouter(terrain.router), np.random.default_rng(5)
    ends = open_positions(terrain, 40, rng)
    on_corners = terrain.router.corners[rng.integers(len(terrain.router.corners), size=12)]
    on_walls = shapely.get_coordinates(
        shapely.line_interpolate_point(terrain.areas[0].exterior, rng.random(8), normalized=True)
    )
    ends = np.concatenate([ends, on_corners[terrain.area_of(on_corners) == 0], on_walls])
    ends = ends[: len(ends) // 2 * 2]
    rng.shuffle(ends)
    bent = 0
    for start, goal in ends.reshape(-1, 2, 2):
        if (terrain.area_of(np.stack([start, goal])) != 0).any():
            continue
        route = terrain.route(start, goal)
        assert np.array_equal(route[[0, -1]], [start, goal])
        assert terrain.clear(route[:-1], route[1:]).all()
        assert length(route) == pytest.approx(plain.length(start, goal), rel=1e-9)
        bent += len(route) > 2
    assert bent >= 3


@settings(deadline=None, max_examples=60, derandomize=True)
@given(polygon_lists, st.integers(0, 2**32 - 1))
def test_routes_among_shapes_that_touch_are_the_shortest(polygons, seed):
    rng, terrain = np.random.default_rng(seed), terrain_of(polygons)
    plain = PlainRouter(terrain.router)
    for _ in range(3):
        start, goal = open_point(polygons, rng), open_point(polygons, rng)
        if len({*terrain.area_of(np.stack([start, goal]))}) == 1:
            assert length(terrain.route(start, goal)) == pytest.approx(plain.length(start, goal), rel=1e-9)


@pytest.mark.parametrize("name", TOWNS)
def test_what_corners_see_of_each_other(name):
    """The trapezoids fill the open ground, and lines of sight through them are those that no wall cuts."""
    router = town(name).router
    ground, plain = router._trapezoids, PlainRouter(router)
    middle = ground.x.mean(axis=1)
    wide, rise = ground.walls[:, :, 2] - ground.walls[:, :, 0], ground.walls[:, :, 3] - ground.walls[:, :, 1]
    at = ground.walls[:, :, 1] + (middle[:, None] - ground.walls[:, :, 0]) / wide * rise
    area = ((ground.x[:, 1] - ground.x[:, 0]) * (at[:, 1] - at[:, 0])).sum()
    floor, roof = ground.walls[0, 0], ground.walls[0, 1]  # the frame
    assert area == pytest.approx((floor[2] - floor[0]) * (roof[1] - floor[1]) - router.core.area, abs=1e-2)
    assert (ground.at >= 0).all()
    differ = 0
    for i in range(0, len(router.corners), 3):
        sees = plain.sees(router.corners[i], router.corners)
        found = [not blocked(ground, *router.corners[i], *xy) for xy in router.corners]
        differ += (sees != found).sum()
    assert differ == 0


def test_a_route_avoids_legs_that_are_barred():
    """As if rounding had led them into a wall."""
    router = town("turned").router
    plain, corners = PlainRouter(router), router.corners
    ends = np.array([[2.0, 2.0], [135.0, 138.0]])
    positions, barred = np.concatenate([corners, ends]), NONE_BARRED
    lengths = []
    for _ in range(4):
        passed = shortest(router._trapezoids, positions, barred, *router._room)[::-1]
        assert passed[0] == len(corners)
        assert passed[-1] == len(corners) + 1
        lengths.append(length(positions[passed]))
        assert lengths[-1] == pytest.approx(plain.length(*ends, without=barred.tolist()), rel=1e-9)
        barred = np.concatenate([barred, np.stack([passed[1:-2], passed[2:-1]], axis=1)])  # all but the ends
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_no_route_out_of_a_court():
    terrain = town("courts")
    inside, outside = np.array([10.0, 10.0]), np.array([30.0, 70.0])
    assert terrain.area_of(np.stack([inside, outside])).tolist() != [0, 0]
    with pytest.raises(ValueError, match="no route"):
        terrain.router.route(inside, outside)
    assert np.hypot(*(terrain.route(inside, outside)[-1] - inside)) < 9  # to the wall


@pytest.mark.parametrize("name", TOWNS)
def test_walls_grow_group_by_group_as_they_do_at_once(name):
    polygons = TOWNS[name]
    at_once = shapely.union_all(polygons).buffer(CLEARANCE_M, join_style="mitre", mitre_limit=MITRE_LIMIT)
    found = grown(polygons, CLEARANCE_M)
    assert shapely.multipolygons(found).is_valid
    assert len(found) == len(shapely.get_parts(at_once))
    assert shapely.symmetric_difference(at_once, shapely.multipolygons(found)).area < 1e-9


def test_positions_are_found_in_their_trapezoids():
    terrain = town("turned")
    core, rng = terrain.router.core, np.random.default_rng(3)
    points = rng.uniform((-20, -20), (160, 160), (400, 2))
    frame = np.array([[0, 0], [140, 0], [140, 140], [0, 140]])
    ground = trapezoids(shapely.get_parts(core).tolist(), points, frame)
    outside = ~shapely.intersects_xy(core, *points.T)
    assert ((ground.at >= 0) == outside).all()
    assert [not blocked(ground, *xy, *xy) for xy in points] == outside.tolist()
    assert 100 < outside.sum() < 380
