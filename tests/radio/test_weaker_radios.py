"""Clients whose radio is weaker: their links close nearer, at the distance of the budget."""

from __future__ import annotations

import numpy as np
import pytest
from making import Static, WifiDirect, Zigbee, reporting

from fedmule.mobility.models.movement import Movement, Waypoints
from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories, Way
from fedmule.radio.graph import ContactGraph
from fedmule.radio.link import first_linked, link_over_time, linked
from fedmule.radio.obstruction import Obstruction
from fedmule.simulator.streams import Streams

OPEN = Obstruction()
HERE = np.zeros(2)


def range_with(loss_db: float, radio=None) -> float:
    """By hand: path loss grows by 30 dB per decade of distance, so a loss of L dB divides the range by 10^(L/30)."""
    return (radio or WifiDirect()).range_m / 10 ** (loss_db / 30)


@pytest.mark.parametrize("radio", [WifiDirect(), Zigbee(), WifiDirect(range_m=77.0)])
@pytest.mark.parametrize("loss_db", [0.5, 6.0, 20.0])
def test_the_range_is_that_of_the_budget(radio, loss_db):
    distance = range_with(loss_db, radio) * np.array([1 - 1e-6, 1 + 1e-6])
    there = np.stack([distance, np.zeros(2)], axis=1)
    assert linked(radio, OPEN, HERE, there, np.full(2, loss_db)).tolist() == [True, False]
    assert linked(radio, OPEN, HERE, there, loss_db).tolist() == [True, False]
    assert linked(radio, OPEN, HERE, there).all()
    assert (radio.budget(distance, loss_db).goodput_bps > 0).tolist() == [True, False]


class Leaving(Movement):
    """One client that walks east from the vehicle, 1 m/s."""

    still = False

    def start(self):
        return np.zeros((1, 2))

    def extend(self, client, t, xy):
        return Waypoints(client, t + 1000.0, xy + np.array([1000.0, 0.0]))


@pytest.mark.parametrize("loss_db", [0.0, 3.0, 15.0])
def test_a_link_ends_where_the_weaker_radio_does(loss_db):
    """And has the rates of the ladder at that loss on the way."""
    radio = WifiDirect()
    stretches, begin = [], 0.0
    for stretch in link_over_time(radio, OPEN, Trajectories(Leaving()), Way.standing(HERE), 0, 0.0, loss_db):
        stretches.append((begin, stretch))
        begin = stretch.end_s
        if stretch.rate_bps == 0:
            break
    assert stretches[-1][0] == pytest.approx(range_with(loss_db), rel=1e-9)
    ladder = radio.ladder(loss_db)
    for start, stretch in stretches[:-1]:
        step = np.searchsorted(ladder.distances_m, (start + stretch.end_s) / 2)
        assert stretch.rate_bps == ladder.rates_bps[step]


def test_a_link_begins_where_the_weaker_radio_does():
    radio = WifiDirect()
    still = Way(np.array([0.0]), np.array([[0.0, 0.0]]))
    comes = Way(np.array([0.0, 1000.0]), np.array([[1000.0, 0.0], [0.0, 0.0]]))
    at_s = first_linked(radio, OPEN, comes, still, 0.0, 1000.0, 9.0)
    assert at_s == pytest.approx(1000.0 - range_with(9.0), abs=1e-5)


def graph_of(xy, loss_db):
    terrain = Terrain((500.0, 500.0), ())
    ways = Trajectories(Static(terrain, len(xy), Streams(0).draw("x"), tuple(map(tuple, xy))))
    positions = Positions(ways, Streams(0).draw("reports"), reporting())
    return ContactGraph(positions, WifiDirect(), OPEN, np.ones(len(xy), dtype=bool), np.array(loss_db))


def test_neighbours_would_hear_the_vehicle_at_each_others_place():
    """0 and 1 are strong, 2 and 3 lose 10 dB: an edge with one of them is shorter."""
    far, near = 0.9 * range_with(0.0), 0.9 * range_with(10.0)
    assert far > range_with(10.0)
    graph = graph_of([(100, 100), (100 + far, 100), (100, 100 + far), (100, 100 + far + near)], [0.0, 0.0, 10.0, 10.0])
    assert graph.edges().tolist() == [[0, 1], [2, 3]]
    assert [graph.neighbours(i).tolist() for i in range(4)] == [[1], [0], [3], [2]]


def test_rows_and_edges_agree_on_random_ground():
    generator = np.random.default_rng(4)
    xy = generator.uniform(0, 150, (40, 2))
    loss_db = generator.choice([0.0, 4.0, 12.0], 40)
    graph = graph_of(xy, loss_db)
    pairs = {(i, int(j)) for i in range(40) for j in graph.neighbours(i)}
    assert pairs == {(j, i) for i, j in pairs}
    assert sorted(pair for pair in pairs if pair[0] < pair[1]) == [tuple(edge) for edge in graph.edges().tolist()]
    by_hand = [
        (i, j)
        for i in range(40)
        for j in range(i + 1, 40)
        if np.hypot(*(xy[i] - xy[j])) <= range_with(max(loss_db[i], loss_db[j]))
    ]
    assert sorted(pair for pair in pairs if pair[0] < pair[1]) == by_hand
