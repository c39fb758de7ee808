from itertools import islice, pairwise

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Disc, Squads, Static, Waypoint, WifiDirect

from fedmule.mobility.models.movement import Movement, Waypoints
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.mobility.trajectory import Trajectories, Way
from fedmule.radio.link import link_over_time, linked, rates_bps
from fedmule.radio.obstruction import Obstruction
from fedmule.simulator.streams import Streams

WALLS = [
    Obstacle(shapely.box(20, 20, 60, 30), True, 6.0),
    Obstacle(shapely.Polygon([(70, 10), (95, 50), (60, 60)]), True, 15.0),
    Obstacle(shapely.box(10, 60, 50, 62), True, 0.0),
    Obstacle(shapely.box(30, 70, 80, 90) - shapely.box(40, 75, 70, 85), False, 4.0),
]
TERRAIN = Terrain((100.0, 100.0), WALLS)
OPEN, WALLED = Obstruction(), Obstruction(WALLS)


class Line(Movement):
    """One client that walks from a position at a constant velocity."""

    still = False

    def __init__(self, start, velocity, leg_s=1000.0):
        self._start, self._velocity, self._leg_s = np.array([start], float), np.array(velocity, float), leg_s

    def start(self):
        return self._start

    def extend(self, client, t, xy):
        return Waypoints(client, t + self._leg_s, xy + self._velocity * self._leg_s)


def stretches(radio, obstruction, trajectories, position, client, start_s, until):
    found = []
    for stretch in link_over_time(
        radio, obstruction, trajectories, Way.standing(np.array(position, float)), client, start_s
    ):
        found.append(stretch)
        if stretch.end_s > until:
            return found


def loss_by_hand(a, b):
    ray = shapely.LineString([a, b])
    return sum(wall.radio_loss_db for wall in WALLS if wall.polygon.intersects(ray))


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    st.sampled_from([WifiDirect(60.0), WifiDirect(), Disc(40.0), Disc(25.0)]),
    st.sampled_from([Waypoint, Squads]),
    st.integers(0, 1000),
    st.floats(0, 300),
)
def test_link_against_dense_sampling(radio, model, seed, start_s):
    def world():
        return Trajectories(model(TERRAIN, 5, Streams(seed).draw("mobility"), speed_mps=(0.5, 4.0), pause_s=(0.0, 9.0)))

    rng = np.random.default_rng(seed)
    position, client = rng.uniform(0, 100, 2), int(rng.integers(5))
    trajectories, other = world(), world()
    trajectories.positions(start_s)
    found = stretches(radio, WALLED, trajectories, position, client, start_s, start_s + 130)
    ends = np.array([stretch.end_s for stretch in found])
    assert (np.diff(ends) >= 0).all()
    assert ends[0] >= start_s
    for t in np.sort(rng.uniform(start_s, start_s + 130, 150)):
        if np.abs(ends - t).min() < 1e-6:
            continue
        xy = other.positions(t)[client]
        expected = rates_bps(radio, np.array([np.hypot(*(xy - position))]), np.array([loss_by_hand(position, xy)]))[0]
        assert found[np.searchsorted(ends, t)].rate_bps == expected


@pytest.mark.parametrize("leg_s", [1000.0, 7.0, 0.9])
@pytest.mark.parametrize("start_s", [0.0, 2.5])
def test_range_is_crossed_at_the_exact_moment(leg_s, start_s):
    """Past the position at 2 m/s, 6 m to its side; the disc of 10 m is entered at x = -8 and left at x = 8."""
    trajectories = Trajectories(Line((-30, 6), (2, 0), leg_s))
    trajectories.positions(start_s)
    found = stretches(Disc(10.0), OPEN, trajectories, (0, 0), 0, start_s, 100.0)
    changes = [a.end_s for a, b in pairwise(found) if a.rate_bps != b.rate_bps]
    assert changes == pytest.approx([11.0, 19.0], abs=1e-6)
    assert found[0].rate_bps == found[-1].rate_bps == 0


def test_rates_change_at_every_step_of_the_ladder():
    radio = WifiDirect(100.0)
    steps = radio.ladder(0.0).distances_m
    trajectories = Trajectories(Line((0, 0), (1.5, 0)))
    found = stretches(radio, OPEN, trajectories, (0, 0), 0, 0.0, 100.0)
    changes = [a.end_s for a, b in pairwise(found) if a.rate_bps != b.rate_bps]
    assert changes == pytest.approx(steps / 1.5, abs=1e-6)
    rates = [b.rate_bps for a, b in pairwise(found) if a.rate_bps != b.rate_bps]
    assert rates == [*radio.ladder(0.0).rates_bps[1:], 0.0]


def test_walking_behind_a_wall():
    """The shadow of a wall from (10,-10) to (12,10), seen from the origin, meets x = 20 at y = ±20."""
    wall = Obstruction([Obstacle(shapely.box(10, -10, 12, 10), True, 20.0)])
    trajectories = Trajectories(Line((20, -40), (0, 1)))
    found = stretches(Disc(60.0), wall, trajectories, (0, 0), 0, 0.0, 79.0)
    changes = [(a.end_s, b.rate_bps) for a, b in pairwise(found) if a.rate_bps != b.rate_bps]
    assert [end for end, _ in changes] == pytest.approx([20, 60], abs=1e-6)
    assert [rate > 0 for _, rate in changes] == [False, True]


def test_still_clients_have_one_endless_stretch():
    trajectories = Trajectories(Static(TERRAIN, 2, Streams(0).draw("m"), ((3.0, 4.0), (90.0, 90.0))))
    for client, rate in [(0, 10e6), (1, 0.0)]:
        first = next(iter(link_over_time(Disc(30.0), OPEN, trajectories, Way.standing(np.zeros(2)), client, 5.0)))
        assert first.end_s == np.inf
        assert first.rate_bps == rate


def test_a_client_at_the_same_position():
    """There is no division by zero if the client is exactly at the position."""
    trajectories = Trajectories(Line((5, 5), (0, 0)))
    for stretch in islice(
        link_over_time(WifiDirect(), WALLED, trajectories, Way.standing(np.array([5.0, 5.0])), 0, 0.0), 3
    ):
        assert stretch.rate_bps == WifiDirect().ladder(0.0).rates_bps[0]


@pytest.mark.parametrize("radio", [Disc(40.0), WifiDirect(60.0)])
def test_linked_against_the_formula(radio):
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0, 100, (2, 300, 2))
    found = linked(radio, WALLED, a, b)
    for i in range(300):
        distance, loss = np.hypot(*(a[i] - b[i])), loss_by_hand(a[i], b[i])
        expected = (
            distance <= 40 and loss == 0 if type(radio).__name__ == "Disc" else distance <= 60 * 10 ** (-loss / 30)
        )
        assert found[i] == expected
    assert 20 < found.sum() < 280
