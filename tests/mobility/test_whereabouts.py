"""Clients are followed only where they matter, and all that is known of them is the same as if all were followed."""

import numpy as np
import pytest
import shapely

from fedmule.mobility.models.grouped import Grouped
from fedmule.mobility.models.manhattan import Manhattan
from fedmule.mobility.models.movement import speed_limit_mps
from fedmule.mobility.models.squads import Squads
from fedmule.mobility.models.static import Static
from fedmule.mobility.models.waypoint import Waypoint
from fedmule.mobility.positions import Positions
from fedmule.mobility.schedule import Reporting
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.mobility.trajectory import Trajectories, Way, first_within
from fedmule.mobility.whereabouts import Whereabouts
from fedmule.simulator.streams import Streams

TERRAIN = Terrain(
    (4000.0, 3000.0),
    [Obstacle(shapely.box(1000, 800, 1500, 1400), True, 10.0, "house")],
    [Surface(shapely.box(0, 2000, 4000, 2100), 2.0, "road")],
    None,
)
REPORTING = Reporting(60.0, 10.0, True, (5.0, 90.0), 0.3)
N = 120


def waypoint(draw):
    return Waypoint(TERRAIN, N, draw, (0.5, 3.0), (0.0, 60.0), None)


def squads(draw):
    return Squads(TERRAIN, N, draw, 15, 40.0, (0.8, 2.0), (10.0, 60.0), 500.0, 0.3)


def manhattan(draw):
    return Manhattan(TERRAIN, N, draw, (200.0, 200.0), 0.5, (0.5, 2.0))


def grouped(draw):
    models = [Static(TERRAIN, 20, draw, None), Waypoint(TERRAIN, N - 20, draw, (0.5, 3.0), (0.0, 60.0), 300.0)]
    return Grouped(models, [model.start() for model in models])


def both(make, keep_two=False):
    """Positions that follow clients where they matter, and those that follow all of them."""
    streams = Streams(3)
    found = []
    for all_of_them in (False, True):
        trajectories = Trajectories(make(streams.draw("mobility")))
        positions = Positions(trajectories, streams.draw("reports"), REPORTING, keep_two)
        if all_of_them:
            trajectories.record(lambda waypoints: None)
        found.append(positions)
    return found


@pytest.mark.parametrize("make", [waypoint, squads, manhattan, grouped])
@pytest.mark.parametrize("step_s", [7.0, 240.0])
def test_the_same_answers_as_if_everybody_were_followed(make, step_s):
    some, everybody = both(make, keep_two=True)
    generator = np.random.default_rng(5)
    t, here = 0.0, np.array([2000.0, 1500.0])
    answers = 0
    for _ in range(120):
        t += step_s * generator.uniform(0.1, 2.0)
        here = np.clip(here + generator.normal(0, 300, 2), 0, TERRAIN.size_m)
        radius = float(generator.choice([50.0, 120.0, 400.0]))
        for positions in (some, everybody):
            positions.advance(t)
        near, known = some.within(here, radius), some.known_within(here, radius)
        assert np.array_equal(near, everybody.within(here, radius))
        assert np.array_equal(known, everybody.known_within(here, radius))
        assert np.array_equal(some.true(near), everybody.true(near))
        assert np.array_equal(some.known(known), everybody.known(known))
        way = Way(np.array([t, t + 20.0]), np.stack([here, here + 150.0]))
        passed = everybody.passed(way, t, t + 20.0, radius).tolist()
        paths = [everybody.trajectories.path(client, t + 20.0) for client in passed]
        comes = [first_within(way.times, way.positions, *path, radius, t, t + 20.0) is not None for path in paths]
        found = some.passed(way, t, t + 20.0, radius)
        assert np.isin(np.array(passed, dtype=np.int64)[np.array(comes, dtype=bool)], found).all()
        assert np.isin(found, passed).all()
        anybody = int(generator.integers(N))
        assert some.last_report_s(anybody) == everybody.last_report_s(anybody)
        assert some.next_report_s(anybody, t) == everybody.next_report_s(anybody, t)
        assert np.array_equal(some.known_velocity(anybody), everybody.known_velocity(anybody))
        answers += len(near) + len(known)
    assert answers > 100
    assert some.count_reports(t) == everybody.count_reports(t)


def test_nobody_is_planned_before_it_can_matter():
    some, _ = both(waypoint)
    extended = []
    extend = some.trajectories.movement.extend
    some.trajectories.movement.extend = lambda client, *rest: extended.extend(client.tolist()) or extend(client, *rest)
    here = np.array([300.0, 300.0])
    start = some.true(np.arange(N))
    for t in np.arange(1.0, 60.0):
        some.advance(t)
        some.within(here, 100.0)
        some.known_within(here, 100.0)
    far = np.hypot(*(start - here).T)
    assert far[sorted(set(extended))].max() < 100 + 1200  # of 4,000 m: lists reach farther than the radius
    assert len(set(extended)) < N / 4


def test_lists_hold_everybody_who_may_be_near():
    generator = np.random.default_rng(1)
    xy = generator.uniform(0, 50_000, (2000, 2))
    heading = generator.normal(size=(2000, 2))
    velocity = 2.0 * heading / np.hypot(*heading.T)[:, None]
    whereabouts = Whereabouts(xy, 2.0, 5.0)
    for t in np.cumsum(generator.uniform(1, 300, 200)):
        position, radius = generator.uniform(0, 50_000, 2), float(generator.choice([30.0, 500.0, 3000.0]))
        there = xy + t * velocity
        found = whereabouts.near(position, radius, float(t))
        near = np.flatnonzero(np.hypot(*(there - position).T) <= radius)
        assert np.isin(near, found).all()
        assert (np.diff(found) > 0).all()
        whereabouts.see(found, there[found], float(t), np.full(len(found), max(0.0, t - 60)))


def test_no_limit_where_a_subclass_moves_in_its_own_way():
    class Faster(Waypoint):
        def extend(self, client, t, xy):
            return super().extend(client, t, xy)

    draw = Streams(1).draw("mobility")
    keys = (TERRAIN, 3, draw, (0.5, 3.0), (0.0, 60.0), None)
    assert speed_limit_mps(Waypoint(*keys)) == 6.0  # twice as fast on the road
    assert speed_limit_mps(Faster(*keys)) == np.inf


@pytest.mark.parametrize("make", [waypoint, squads, manhattan, grouped])
def test_nobody_exceeds_the_limit(make):
    movement = make(Streams(4).draw("mobility"))
    trajectories, limit = Trajectories(movement), speed_limit_mps(movement)
    before = trajectories.positions(0.0).copy()
    for t in np.arange(5.0, 2000.0, 5.0):
        now = trajectories.positions(t).copy()
        assert np.hypot(*(now - before).T).max() <= 5.0 * limit + 1e-6
        before = now
