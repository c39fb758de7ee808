import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from random_terrain import (
    GROUND,
    SIZE_M,
    by_the_wall,
    least_m,
    length,
    length_inside,
    most_m,
    open_point,
    polygon_lists,
    terrain_of,
)

from fedmule.mobility.terrain import CLEARANCE_M, Obstacle, Terrain
from fedmule.mobility.trajectory import position_at

seeds = st.integers(0, 2**32 - 1)


def check_route(polygons, route, start):
    assert np.isfinite(route).all()
    assert np.array_equal(route[0], start)
    assert length_inside(polygons, route) < 1e-9
    assert (route >= -1e-9).all()
    assert (route <= np.array(SIZE_M) + 1e-9).all()


def part_with(polygons, position, clearance_m):
    """Connected part of the open ground, at a clearance off the walls, that contains or is nearest to a position."""
    walls = shapely.union_all(polygons).buffer(clearance_m, join_style="mitre")
    parts = shapely.get_parts(GROUND.difference(walls))
    return parts[np.argmin(shapely.distance(parts, shapely.Point(position)))]


@settings(deadline=None, max_examples=120, derandomize=True)
@given(polygon_lists, seeds)
def test_route_is_shortest_and_clear(polygons, seed):
    rng = np.random.default_rng(seed)
    start, goal = open_point(polygons, rng), open_point(polygons, rng)
    route = terrain_of(polygons).route(start, goal)
    check_route(polygons, route, start)
    most = most_m(polygons, start, goal)
    if np.isfinite(most):
        assert np.array_equal(route[-1], goal)
        assert length(route) <= most + 1e-3
    if np.array_equal(route[-1], goal):
        assert length(route) >= least_m(polygons, start, goal) - 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_route_through_a_forest_is_shortest(seed):
    """With many obstacles there are many routes of nearly the same length, so the search must not stop too early."""
    rng = np.random.default_rng(seed)
    middles, sizes = rng.uniform((3, 3), (47, 37), (40, 2)), rng.uniform(0.3, 6.0, (40, 2))
    trees = [shapely.box(*(xy - size / 2), *(xy + size / 2)) for xy, size in zip(middles, sizes, strict=True)]
    terrain = terrain_of(trees)
    compared = 0
    for _ in range(12):
        start, goal = open_point(trees, rng), open_point(trees, rng)
        most = most_m(trees, start, goal)
        if np.isfinite(most):
            assert least_m(trees, start, goal) - 1e-3 <= length(terrain.route(start, goal)) <= most + 1e-3
            compared += 1
    assert compared > 5


@settings(deadline=None, max_examples=60, derandomize=True)
@given(polygon_lists, seeds)
def test_route_keeps_its_clearance(polygons, seed):
    """Corners lie a centimetre off all walls, and legs half a centimetre."""
    rng = np.random.default_rng(seed)
    walls = shapely.union_all(polygons)
    terrain = terrain_of(polygons)
    route = terrain.route(open_point(polygons, rng), open_point(polygons, rng))
    assert shapely.distance(walls, shapely.points(route)).min() >= 0.01 - 1e-9
    assert walls.distance(shapely.LineString(route)) >= 0.005 - 1e-9
    to_the_wall = terrain.route(open_point(polygons, rng), by_the_wall(polygons, rng))
    assert walls.distance(shapely.LineString(to_the_wall)) >= 0.005 - 1e-9


@settings(deadline=None, max_examples=120, derandomize=True)
@given(polygon_lists, seeds)
def test_route_ends_at_the_nearest_reachable_position(polygons, seed):
    rng = np.random.default_rng(seed)
    terrain = terrain_of(polygons)
    start = open_point(polygons, rng)
    for goal in [by_the_wall(polygons, rng), rng.uniform((-5, -5), (55, 45)), polygons[0].centroid.coords[0]]:
        goal = np.array(goal)
        route = terrain.route(start, goal)
        check_route(polygons, route, start)
        # As near as possible with the clearance, and no nearer than possible without it.
        gap = np.hypot(*(route[-1] - goal))
        narrow, wide = part_with(polygons, start, 0.0), part_with(polygons, start, CLEARANCE_M + 1e-4)
        assert gap <= wide.distance(shapely.Point(goal)) + 1e-9
        assert gap >= narrow.distance(shapely.Point(goal)) - 1e-9


@settings(deadline=None, max_examples=50, derandomize=True)
@given(polygon_lists, seeds)
def test_from_any_stop_there_is_a_route_onwards(polygons, seed):
    rng = np.random.default_rng(seed)
    terrain = terrain_of(polygons)
    here = open_point(polygons, rng)
    home = part_with(polygons, here, CLEARANCE_M + 1e-4)
    for stop in range(24):
        goal = open_point(polygons, rng) if stop % 3 == 0 else by_the_wall(polygons, rng)
        route = terrain.route(here, goal)
        check_route(polygons, route, here)
        assert np.hypot(*(route[-1] - goal)) <= home.distance(shapely.Point(goal)) + 1e-9
        along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(route, axis=0).T))])
        at = along[rng.integers(len(along))] if stop % 4 == 0 else along[-1] * rng.random()
        here = position_at(along, route, np.array([at]))[0]


@settings(deadline=None, max_examples=40, derandomize=True)
@given(polygon_lists, seeds)
def test_follows_walls_from_stop_to_stop(polygons, seed):
    """Drive along the walls, stopping every few centimetres, as when chasing a client that follows them."""
    rng = np.random.default_rng(seed)
    terrain = terrain_of(polygons)
    here = open_point(polygons, rng)
    for _ in range(10):
        goal = by_the_wall(polygons, rng, most_m=0.006)
        for step in rng.uniform(0, 0.03, 3):
            route = terrain.route(here, goal)
            check_route(polygons, route, here)
            along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(route, axis=0).T))])
            here = position_at(along, route, np.array([along[-1] - step]))[0]


def test_no_obstacles_is_straight():
    terrain = Terrain(SIZE_M)
    route = terrain.route(np.array([1.0, 2.0]), np.array([30.0, 7.0]))
    assert route.tolist() == [[1, 2], [30, 7]]
    assert terrain.route(np.array([1.0, 2.0]), np.array([1.0, 2.0]))[-1].tolist() == [1, 2]


def test_round_a_square_by_hand():
    terrain = Terrain(SIZE_M, [Obstacle(shapely.box(20, 10, 30, 20))])
    route = terrain.route(np.array([15.0, 12.0]), np.array([35.0, 12.0]))
    by_hand = 2 * np.hypot(5, 2) + 10
    assert by_hand <= length(route) <= by_hand + 0.05
    assert len(route) == 4


def test_obstacle_that_stops_nobody_is_driven_through():
    terrain = Terrain(SIZE_M, [Obstacle(shapely.box(20, 0, 30, 40), stops_movement=False)])
    assert len(terrain.route(np.array([1.0, 20.0]), np.array([49.0, 20.0]))) == 2
    assert terrain.area_of(np.array([[25.0, 20.0]]))[0] == 0


U_TRAP = shapely.box(10, 10, 40, 30) - shapely.box(12, 12, 40, 28)  # open to the east


def test_out_of_a_u():
    terrain = Terrain(SIZE_M, [Obstacle(U_TRAP)])
    start, goal = np.array([13.0, 20.0]), np.array([8.0, 20.0])
    route = terrain.route(start, goal)
    check_route([U_TRAP], route, start)
    by_hand = np.hypot(27, 8) + 2 + 30 + np.hypot(2, 10)
    assert by_hand <= length(route) <= by_hand + 0.1


def test_two_us_face_to_face():
    other = shapely.affinity.translate(shapely.affinity.scale(U_TRAP, -1, 0.6), -8, 0)
    walls = [U_TRAP, other]
    terrain = Terrain(SIZE_M, [Obstacle(wall) for wall in walls])
    start, goal = np.array([13.0, 13.0]), np.array([8.0, 38.0])
    route = terrain.route(start, goal)
    check_route(walls, route, start)
    assert least_m(walls, start, goal) <= length(route) <= most_m(walls, start, goal) + 1e-6


@pytest.mark.parametrize(
    ("gap_m", "is_open"), [(1.0, True), (0.025, True), (0.019, False), (0.015, False), (0.0, False)]
)
def test_thin_gap(gap_m, is_open):
    """Gaps narrower than twice the clearance are closed, even to a straight line."""
    walls = [shapely.box(20, 0, 30, 20), shapely.box(20, 20 + gap_m, 30, 30)]
    terrain = Terrain(SIZE_M, [Obstacle(wall) for wall in walls])
    start, goal = np.array([10.0, 20 + gap_m / 2]), np.array([40.0, 20 + gap_m / 2])
    route = terrain.route(start, goal)
    check_route(walls, route, start)
    assert np.array_equal(route[-1], goal)
    through = length(route) < 31
    assert through == is_open
    if not is_open:
        assert length(route) > 2 * np.hypot(10, 10 - gap_m / 2) + 10


@pytest.mark.parametrize("gap_m", [0.025, 0.0199, 0.015, 0.011])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_stopped_where_a_thin_gap_may_be(gap_m, share):
    walls = [shapely.box(20, 10, 30, 20), shapely.box(20, 20 + gap_m, 30, 21)]
    terrain = Terrain(SIZE_M, [Obstacle(wall) for wall in walls])
    start, goal = np.array([10.0, 20 + gap_m / 2]), np.array([40.0, 20 + gap_m / 2])
    route = terrain.route(start, goal)
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(route, axis=0).T))])
    here = position_at(along, route, np.array([share * along[-1]]))[0]
    check_route(walls, terrain.route(here, np.array([25.0, 35.0])), here)


def test_thin_gaps_do_not_lead_into_a_closed_court():
    """A straight line across a court with slits too thin to pass must go round it, or the vehicle is trapped inside."""
    frame = shapely.box(20, 10, 30, 20) - shapely.box(21, 11, 29, 19)
    slit = shapely.box(0, 15, 50, 15.015)
    walls = list(shapely.get_parts(frame - slit))
    terrain = Terrain(SIZE_M, [Obstacle(wall) for wall in walls])
    start, goal = np.array([10.0, 15.0075]), np.array([40.0, 15.0075])
    assert terrain.area_of(np.array([[25.0, 15.0]]))[0] != 0
    route = terrain.route(start, goal)
    assert np.array_equal(route[-1], goal)
    assert shapely.LineString(route).distance(shapely.Point(25, 15)) > 4


def test_touching_walls_let_nobody_through():
    walls = [shapely.box(0, 0, 20, 20), shapely.box(20, 20, 50, 40)]  # they share one corner
    terrain = Terrain(SIZE_M, [Obstacle(wall) for wall in walls])
    assert len(terrain.areas) == 2
    start = np.array([10.0, 30.0])
    route = terrain.route(start, np.array([30.0, 10.0]))
    check_route(walls, route, start)
    assert np.hypot(*(route[-1] - [20, 20])) < 0.05


def test_wall_to_the_border_divides():
    wall = shapely.box(20, -1, 22, 41)
    terrain = Terrain(SIZE_M, [Obstacle(wall)])
    start = np.array([5.0, 5.0])
    route = terrain.route(start, np.array([40.0, 33.0]))
    check_route([wall], route, start)
    assert route[-1] == pytest.approx([20 - CLEARANCE_M, 33])


def test_border_is_no_way_round():
    wall = shapely.box(20, -1, 22, 30)
    terrain = Terrain(SIZE_M, [Obstacle(wall)])
    start, goal = np.array([15.0, 1.0]), np.array([27.0, 1.0])
    route = terrain.route(start, goal)
    by_hand = 2 * np.hypot(5, 29) + 2
    assert by_hand <= length(route) <= by_hand + 0.05


RING = shapely.Polygon(shapely.box(10, 10, 40, 30).exterior.coords, [shapely.box(15, 15, 35, 25).exterior.coords])


def test_court_of_an_obstacle():
    terrain = Terrain(SIZE_M, [Obstacle(RING), Obstacle(shapely.box(20, 15, 30, 22))])
    outside, court, wall = np.array([5.0, 5.0]), np.array([17.0, 17.0]), np.array([12.0, 12.0])
    assert terrain.area_of(np.stack([outside, court, wall, [-1.0, 5.0], [25.0, 17.0]])).tolist() == [0, 1, -1, -1, -1]
    within = terrain.route(court, np.array([33.0, 17.0]))  # round the block inside the court
    check_route([RING, shapely.box(20, 15, 30, 22)], within, court)
    by_hand = 2 * np.hypot(3, 5) + 10
    assert by_hand <= length(within) <= by_hand + 0.1
    out = terrain.route(court, np.array([17.0, 5.0]))
    assert out[-1] == pytest.approx([17, 15 + CLEARANCE_M])
    into = terrain.route(outside, court)
    assert into[-1] == pytest.approx([10 - CLEARANCE_M, 17]) or into[-1] == pytest.approx([17, 10 - CLEARANCE_M])


def test_nearest_open_by_hand():
    terrain = Terrain(SIZE_M, [Obstacle(RING)])
    assert terrain.nearest_open(np.array([11.0, 20.0])) == pytest.approx([10 - CLEARANCE_M, 20])
    assert terrain.nearest_open(np.array([14.0, 20.0]), area=1) == pytest.approx([15 + CLEARANCE_M, 20])
    assert terrain.nearest_open(np.array([3.0, 4.0])).tolist() == [3, 4]
    assert terrain.nearest_area(np.array([14.0, 20.0])) == 1
    assert terrain.nearest_area(np.array([11.0, 20.0])) == 0
    assert terrain.nearest_open(np.array([-5.0, 45.0])) == pytest.approx([0, 40])


@settings(deadline=None, max_examples=40, derandomize=True)
@given(polygon_lists, seeds)
def test_areas_are_the_connected_open_ground(polygons, seed):
    rng = np.random.default_rng(seed)
    terrain = terrain_of(polygons)
    positions = rng.uniform((-3, -3), (53, 43), (60, 2))
    found = terrain.area_of(positions)
    areas = [area.area for area in terrain.areas]
    assert areas == sorted(areas, reverse=True)
    for position, area in zip(positions, found, strict=True):
        point = shapely.Point(position)
        clear_m = min([polygon.distance(point) for polygon in polygons] + [0.0 if not GROUND.covers(point) else 9.0])
        if clear_m == 0:
            assert area == -1
        elif clear_m > 0.06:  # beyond the longest mitre
            assert area >= 0
    for i, j in rng.integers(0, len(positions), (40, 2)):
        if found[i] >= 0 and found[j] >= 0:
            joined = part_with(polygons, positions[i], CLEARANCE_M).distance(shapely.Point(positions[j])) < 1e-9
            assert joined == (found[i] == found[j])
