import itertools

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from random_terrain import SIZE_M, polygon_lists

from fedmule.mobility.models.movement import on_disc, positions_near, random_positions
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.simulator.streams import Streams

seeds = st.integers(0, 2**32 - 1)


def factor_at(polygons, factors, positions):
    """Factor of the last surface that contains each position."""
    found = np.ones(len(positions))
    for polygon, factor in zip(polygons, factors, strict=True):
        found[shapely.contains_xy(polygon, positions[:, 0], positions[:, 1])] = factor
    return found


@settings(deadline=None, max_examples=40, derandomize=True)
@given(polygon_lists, seeds)
def test_time_on_surfaces_is_the_integral(polygons, seed):
    rng = np.random.default_rng(seed)
    factors = rng.choice([0.25, 0.5, 0.8, 1.5, 3.0], len(polygons))
    surfaces = [Surface(p, f) for p, f in zip(polygons, factors, strict=True)]
    route = rng.uniform((0, 0), SIZE_M, (5, 2))
    seconds, positions = Terrain(SIZE_M, (), surfaces).timed_route(route, speed_mps=2.0)
    share = (np.arange(4000) + 0.5) / 4000
    total = 0.0
    for a, b in itertools.pairwise(route):
        fine = a + share[:, None] * (b - a)
        total += np.mean(1 / (2.0 * factor_at(polygons, factors, fine))) * np.hypot(*(b - a))
        corner = np.flatnonzero((positions == b).all(axis=1))[0]
        assert seconds[corner] == pytest.approx(total, abs=0.25)
    assert seconds[-1] == pytest.approx(total, rel=2e-3, abs=0.05)
    assert (np.diff(seconds) >= 0).all()
    # At every moment in between, the speed is that of the surface.
    middle = (positions[1:] + positions[:-1]) / 2
    length, spent = np.hypot(*np.diff(positions, axis=0).T), np.diff(seconds)
    long = length > 1e-6
    assert (length / np.where(long, spent, 1))[long] == pytest.approx(
        2.0 * factor_at(polygons, factors, middle)[long], rel=1e-6
    )


def test_last_listed_surface_lies_on_top():
    mud, road = shapely.box(10, 0, 40, 40), shapely.box(0, 18, 50, 22)
    route = np.array([[0.0, 20.0], [50.0, 20.0]])
    below = Terrain(SIZE_M, (), [Surface(road, 2.0), Surface(mud, 0.5)])
    above = Terrain(SIZE_M, (), [Surface(mud, 0.5), Surface(road, 2.0)])
    assert below.timed_route(route, 1.0)[0][-1] == pytest.approx(10 / 2 + 30 / 0.5 + 10 / 2)
    assert above.timed_route(route, 1.0)[0][-1] == pytest.approx(50 / 2)


def test_time_without_surfaces():
    seconds, positions = Terrain(SIZE_M).timed_route(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [3.0, 14.0]]), 2.5)
    assert seconds.tolist() == [0, 2, 2, 6]
    assert len(positions) == 4


@pytest.mark.parametrize("position", [[50.0, 10.0], [25.0, 10.0], [10.0, 10.0], [25.0, 40.0]])
def test_standing_still_takes_no_time(position):
    terrain = Terrain(SIZE_M, (), [Surface(shapely.box(25, 0, 50, 40), 0.5)])
    seconds, positions = terrain.timed_route(np.array([position, position]), 1.0)
    assert seconds[-1] == 0
    assert (positions == position).all()


def test_random_positions_are_uniform_over_open_ground():
    walls = [shapely.box(5, 5, 20, 30), shapely.Polygon([(25, 5), (45, 10), (30, 35)])]
    terrain = Terrain(SIZE_M, [Obstacle(wall) for wall in walls])
    count = 20_000
    positions = random_positions(
        terrain, Streams(3).draw("positions"), np.arange(count), np.zeros(count, dtype=np.int64)
    )
    assert (terrain.area_of(positions) == 0).all()
    open_ground = shapely.box(0, 0, *SIZE_M) - shapely.union_all(walls)
    cells = [shapely.box(x, y, x + 10, y + 8) for x in range(0, 50, 10) for y in range(0, 40, 8)]
    expected = np.array([cell.intersection(open_ground).area for cell in cells]) / open_ground.area * count
    cell = (positions[:, 0] // 10 * 5 + positions[:, 1] // 8).astype(int)
    seen = np.bincount(cell, minlength=25)
    used = expected > 5
    assert seen[~used].sum() <= 40
    chi_square = ((seen - expected)[used] ** 2 / expected[used]).sum()
    assert chi_square < 75  # 24 degrees of freedom: one in a million


def test_random_positions_only_in_the_largest_area():
    terrain = Terrain(SIZE_M, [Obstacle(shapely.box(20, -1, 22, 41))])
    positions = random_positions(terrain, Streams(1).draw("positions"), np.arange(500), np.zeros(500, dtype=np.int64))
    assert (positions[:, 0] > 22).all()


def test_random_positions_depend_on_id_and_counter_alone():
    terrain = Terrain(SIZE_M, [Obstacle(shapely.box(5, 5, 45, 35))])
    draw = Streams(5).draw("positions")
    ids, counters = np.arange(50), np.arange(50) % 7
    together = random_positions(terrain, draw, ids, counters)
    turned = random_positions(terrain, draw, ids[::-1].copy(), counters[::-1].copy())[::-1]
    alone = np.concatenate([random_positions(terrain, draw, ids[[i]], counters[[i]]) for i in range(50)])
    assert np.array_equal(together, turned)
    assert np.array_equal(together, alone)
    assert not np.array_equal(together, random_positions(terrain, draw, ids, counters + 1))


def test_positions_near_fill_the_open_part_of_the_disc():
    terrain = Terrain(SIZE_M, [Obstacle(shapely.box(25, 0, 50, 40))])
    centre = np.broadcast_to([23.0, 20.0], (8000, 2))
    ids = np.arange(8000)
    positions = positions_near(terrain, Streams(2).draw("near"), ids, 0 * ids, centre, 6.0)
    assert (positions[:, 0] < 25).all()
    gap = positions - centre
    assert np.hypot(*gap.T).max() <= 6
    disc = shapely.Point(0, 0).buffer(6, quad_segs=200)
    for x in (-4.0, -2.0, 0.0):
        expected = disc.intersection(shapely.box(-6, -6, x, 6)).area / disc.intersection(shapely.box(-6, -6, 2, 6)).area
        assert (gap[:, 0] < x).mean() == pytest.approx(expected, abs=0.03)


def test_positions_near_where_nothing_is_open_settle_on_the_border():
    wall = shapely.box(10, 10, 40, 30)
    terrain = Terrain(SIZE_M, [Obstacle(wall)])
    positions = positions_near(
        terrain, Streams(2).draw("near"), np.arange(20), np.zeros(20, dtype=np.int64), np.full((20, 2), 20.0), 3.0
    )
    gap = shapely.distance(wall, shapely.points(positions))
    assert (gap > 0).all()
    assert (gap < 0.05).all()


def test_on_disc_moments():
    uniform = np.random.default_rng(0).random((40_000, 2))
    points = on_disc(uniform, 3.0)
    square = (points**2).sum(axis=1)
    assert square.max() <= 9
    assert square.mean() == pytest.approx(4.5, rel=0.02)
    assert (square**2).mean() == pytest.approx(27, rel=0.03)
    assert points.mean(axis=0) == pytest.approx([0, 0], abs=0.03)
