"""Models that bounce off walls: where they lead, and what they preserve."""

import numpy as np
import pytest
import shapely
from every_model import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from making import RandomWalk
from random_terrain import SIZE_M, length_inside, polygon_lists, terrain_of
from test_movement import trace

from fedmule.mobility.models.bouncing import Bounds
from fedmule.mobility.models.gauss_markov import GaussMarkov
from fedmule.mobility.models.movement import random_positions
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.simulator.streams import Streams

WIDE = Terrain((1e6, 1e6))  # so wide that nobody meets a border
WALLS = [shapely.box(30, 20, 70, 60), shapely.Polygon([(0, 100), (40, 100), (0, 70)])]
WALLED = Terrain((100.0, 100.0), [Obstacle(wall) for wall in WALLS])


def test_in_an_empty_rectangle_a_bounced_move_is_the_straight_one_folded():
    rng = np.random.default_rng(0)
    size = np.array([30.0, 20.0])
    start, move, speed = rng.uniform(0, size, (200, 2)), rng.normal(0, 60, (200, 2)), rng.uniform(1, 3, 200)
    went = Bounds(Terrain((30.0, 20.0))).go(start, move, speed)
    assert went.routes.end == pytest.approx(size - np.abs(size - (start + move) % (2 * size)), abs=1e-6)
    assert went.routes.duration == pytest.approx(np.hypot(*move.T) / speed)
    flips = np.floor((start + move) / size) % 2
    assert went.move == pytest.approx(np.where(flips == 1, -move, move), abs=1e-9)


@settings(max_examples=60)
@given(polygon_lists, st.integers(0, 10**6), st.sampled_from([1.0, 15.0, 200.0]))
def test_bounced_moves_keep_their_length_and_stay_out_of_walls(polygons, seed, far_m):
    terrain = terrain_of(polygons)
    rng = np.random.default_rng(seed)
    start = random_positions(terrain, Streams(seed).draw("mobility"), np.arange(8), np.zeros(8, dtype=np.int64))
    for _ in range(3):  # from wherever the last one ended
        move = rng.normal(0, far_m, (8, 2))
        went = Bounds(terrain).go(start, move, np.ones(8))
        assert went.routes.duration == pytest.approx(np.hypot(*move.T))
        assert np.hypot(*went.move.T) == pytest.approx(np.hypot(*move.T))
        for i in range(8):
            route = np.concatenate([start[i][None], went.routes.xy[went.routes.walker == i]])
            assert length_inside(polygons, route) < 1e-9
            assert (route >= 0).all()
            assert (route <= SIZE_M).all()
        start = went.routes.end


def test_a_walker_caught_in_a_narrow_corner_stays_there_while_time_passes():
    needle = Terrain((100.0, 100.0), [Obstacle(shapely.Polygon([(0, 0), (100, 50), (100, 0)])),
                                      Obstacle(shapely.Polygon([(0, 0), (100, 50.5), (0, 60)]))])  # fmt: skip
    position = np.array([[90.0, 45.2]])
    assert (needle.area_of(position) >= 0).all()
    bounds = Bounds(Terrain((100.0, 100.0), needle.obstacles))
    went = bounds.go(needle.nearest_open(position[0])[None], np.array([[-400.0, -201.0]]), np.ones(1))
    assert went.routes.duration == pytest.approx(np.hypot(400, 201))
    route = went.routes.xy
    assert max(shapely.LineString(route).intersection(o.polygon).length for o in needle.obstacles) < 1e-9


def uniform_shares(positions, boxes, terrain):
    """For each box, the fraction of positions in it and its fraction of the open ground."""
    ground = terrain.areas[0].area
    for box in boxes:
        share = np.mean(shapely.intersects_xy(box, positions[:, 0], positions[:, 1]))
        yield share, terrain.areas[0].intersection(box).area / ground


@pytest.mark.parametrize(
    "model",
    [
        lambda count: RandomWalk(WALLED, count, Streams(1).draw("mobility"), (0.5, 3.0), 20.0),
        lambda count: RandomWalk(WALLED, count, Streams(1).draw("mobility"), (0.5, 3.0), step_m=40.0),
        lambda count: GaussMarkov(WALLED, count, Streams(1).draw("mobility"), 2.0, 0.9, 10.0),
    ],
    ids=["random_walk", "random_walk_by_distance", "gauss_markov"],
)
def test_a_uniform_crowd_stays_uniform_among_walls(model):
    boxes = [shapely.box(0, 0, 30, 30), shapely.box(70, 20, 100, 60), shapely.box(40, 60, 60, 65), WALLS[0].buffer(3)]
    positions = sampled(model(4000), [0.0, 400.0])
    for at in positions:
        for share, expected in uniform_shares(at, boxes, WALLED):
            assert abs(share - expected) < 4 * np.sqrt(expected / 4000)


def steps_of(movement, step_s, steps):
    """Positions [steps+1,n,2] at the ends of steps, the first of which begins at time 0."""
    return sampled(movement, step_s * np.arange(steps + 1))


def test_random_walk_spreads_at_the_known_rate():
    """|x|² grows by E[v²] τ² every step: directions are independent and uniform."""
    low, high = 1.0, 4.0
    tracks = trace(RandomWalk(WIDE, 3000, Streams(5).draw("mobility"), (low, high), 30.0), until=400.0, step=100.0)
    after = np.array([xy[12] - xy[2] for _, xy in tracks])  # ten full steps after the remainder of the first
    for times, _ in tracks[:50]:
        assert 0 < times[2] <= 30  # it started somewhere in the first step
        assert np.diff(times[2:13]) == pytest.approx(np.full(10, 30.0))
    square = (low**2 + low * high + high**2) / 3 * 30.0**2
    assert np.mean((after**2).sum(axis=1)) == pytest.approx(10 * square, rel=0.07)
    assert after.mean(axis=0) == pytest.approx([0, 0], abs=4 * np.sqrt(5 * square / 3000))


def test_random_walk_by_distance_shows_slow_walkers_more_often():
    low, high = 0.5, 5.0
    movement = RandomWalk(WIDE, 3000, Streams(5).draw("mobility"), (low, high), step_m=100.0)
    near = sampled(movement, [0.0, 0.01, 1000.0, 1000.01])
    for k in (0, 2):
        speed = np.hypot(*(near[k + 1] - near[k]).T) / 0.01
        assert np.mean(speed) == pytest.approx((high - low) / np.log(high / low), rel=0.06)
    tracks = trace(RandomWalk(WIDE, 20, Streams(5).draw("mobility"), (low, high), step_m=100.0), until=900.0)
    for _, xy in tracks:
        assert np.hypot(*np.diff(xy[2:-1], axis=0).T) == pytest.approx(np.full(len(xy) - 4, 100.0))


@pytest.mark.parametrize("memory", [0.0, 0.6, 0.95])
def test_gauss_markov_velocity_has_the_known_distribution(memory):
    step_s, mean = 7.0, 1.3
    movement = GaussMarkov(WIDE, 6000, Streams(4).draw("mobility"), mean, memory, step_s)
    velocity = np.diff(steps_of(movement, step_s, 9), axis=0) / step_s
    variance = mean**2 * 2 / np.pi
    speed = np.hypot(*np.moveaxis(velocity, -1, 0))
    for k in range(9):
        assert velocity[k].mean(axis=0) == pytest.approx([0, 0], abs=0.06)
        assert velocity[k].var(axis=0) == pytest.approx([variance] * 2, rel=0.09)
        assert speed[k].mean() == pytest.approx(mean, rel=0.03)
        correlation = (velocity[0] * velocity[k]).mean() / variance
        assert correlation == pytest.approx(memory**k, abs=0.05)
    assert (velocity[0] * velocity[0][:, ::-1]).mean() == pytest.approx(0, abs=0.06)


def test_gauss_markov_keeps_its_speeds_where_it_bounces():
    small = Terrain((20.0, 20.0))
    tracks = trace(GaussMarkov(small, 300, Streams(4).draw("mobility"), 2.0, 0.9, 10.0), until=200.0)
    metres = np.array([np.hypot(*np.diff(xy, axis=0).T).sum() for _, xy in tracks])
    assert metres.mean() / 200 == pytest.approx(2.0, rel=0.06)
