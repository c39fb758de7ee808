"""Reports by satellite against a list of every report: when it was sent, from where, when it arrived, if at all."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Static, Waypoint, reporting

from fedmule.mobility.models.movement import NOWHERE_X_M, Movement, Stays, Waypoints
from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories, position_at
from fedmule.simulator.streams import Streams

TERRAIN = Terrain((100.0, 100.0))
COUNT, END_S = 6, 400.0


def movement(still):
    draw = Streams(1).draw("mobility")
    return Static(TERRAIN, COUNT, draw) if still else Waypoint(TERRAIN, COUNT, draw, (0.5, 3.0), (0.0, 5.0))


@dataclass
class Report:
    sent_s: float
    arrive_s: float
    xy: np.ndarray
    scheduled: bool
    lost: bool = False


def reports_of(client, model, period_s, stagger, delay_s, loss, error_m=0.0):
    """Every report of a client up to END_S, one after the other."""
    draw = Streams(1).draw("reports")
    times, path = Trajectories(model).path(client, END_S)
    numbers = np.arange(2 + int(END_S / period_s))
    along, around, waits, fails = draw(np.full(len(numbers), client), numbers, 4).T.tolist()
    lead = waits[0] if stagger else 0.0
    found = []
    for number in numbers.tolist():
        sent_s = 0.0 if number == 0 else (number - lead) * period_s
        radius, angle = error_m * np.sqrt(-2 * np.log(1 - along[number])), 2 * np.pi * around[number]
        error = radius * np.array([np.cos(angle), np.sin(angle)])
        xy = position_at(times, path, np.array([sent_s]))[0] + error
        if number == 0:
            found.append(Report(0.0, 0.0, xy, lead == 0))
        elif sent_s <= END_S:
            arrive_s = sent_s + delay_s[0] + (delay_s[1] - delay_s[0]) * waits[number]
            found.append(Report(sent_s, arrive_s, xy, True, fails[number] < loss))
    return found


def check(positions, lists, t, velocities=True):
    for client, reports in enumerate(lists):
        here = [r for r in reports if not r.lost and r.arrive_s <= t]
        assert positions.known(np.array([client]))[0] == pytest.approx(here[-1].xy, abs=1e-6)
        assert positions.last_report_s(client) == pytest.approx(here[-1].sent_s, abs=1e-9)
        later = [r.arrive_s for r in reports if not r.lost and r.sent_s > here[-1].sent_s and r.arrive_s > t]
        if min(later, default=np.inf) <= END_S:  # otherwise one that is sent later may come first
            assert positions.next_report_s(client, t) == pytest.approx(min(later), abs=1e-9)
        velocity = positions.known_velocity(client) if velocities else None
        if velocities and (len(here) < 2 or not here[-2].scheduled):
            assert velocity is None
        elif velocities:
            expected = (here[-1].xy - here[-2].xy) / (here[-1].sent_s - here[-2].sent_s)
            assert velocity == pytest.approx(expected, abs=1e-6)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    still=st.booleans(),
    period_s=st.sampled_from([2.5, 10.0, 30.0]),
    stagger=st.booleans(),
    delay_s=st.sampled_from([(0.0, 0.0), (7.0, 7.0), (0.0, 25.0), (40.0, 45.0)]),
    loss=st.sampled_from([0.0, 0.3, 0.8]),
    times=st.lists(st.floats(0.0, END_S), min_size=1, max_size=12),
)
def test_what_is_known_is_what_has_arrived(still, period_s, stagger, delay_s, loss, times):
    """Whenever the vehicle looks, and however long it has not: the newest report that has arrived, and no other."""
    keys = {"stagger": stagger, "delay_s": delay_s, "loss": loss, "error_m": 1.5}
    positions = Positions(
        Trajectories(movement(still)), Streams(1).draw("reports"), reporting(period_s, **keys), keep_two=True
    )
    lists = [reports_of(client, movement(still), period_s, **keys) for client in range(COUNT)]
    for t in sorted(times):
        positions.advance(t)
        check(positions, lists, t)
        known = positions.known(np.arange(COUNT))
        near = [i for i in range(COUNT) if np.hypot(*(known[i] - (50, 50))) <= 40]
        assert positions.known_within(np.array([50.0, 50.0]), 40.0).tolist() == near
        sent = [r for reports in lists for r in reports if r.sent_s <= t]
        assert positions.count_reports(t) == (len(sent), sum(r.lost for r in sent))


def test_reports_come_at_moments_spread_over_the_period():
    n = 2000
    trajectories = Trajectories(Static(TERRAIN, n, Streams(1).draw("mobility")))
    positions = Positions(trajectories, Streams(2).draw("reports"), reporting(60.0, stagger=True, loss=0.25))
    at = np.linspace(0.0, 60.0, 13)
    counts = np.diff([positions.count_reports(t)[0] for t in at])
    assert counts.sum() == n
    assert counts == pytest.approx(np.full(12, n / 12), abs=5 * np.sqrt(n / 12))
    sent, lost = positions.count_reports(60.0 * 50)
    assert sent == 51 * n
    assert lost / (sent - n) == pytest.approx(0.25, abs=0.01)


class ComesAndGoes(Movement):
    """Client 0 is away from 20 to 50 s, and client 1 until 35 s; both go east at 1 m/s while they are there."""

    still = False

    def start(self):
        return np.array([[0.0, 10.0], [NOWHERE_X_M, 0.0]])

    def stays(self):
        return Stays(np.array([0, 0, 1]), np.array([0.0, 50.0, 35.0]), np.array([20.0, np.inf, np.inf]))

    def extend(self, client, t, xy):
        paths = {
            0: [(20, 20, 10), (20, NOWHERE_X_M, 0), (50, NOWHERE_X_M, 0), (50, 50, 10), (1050, 1050, 10)],
            1: [(35, NOWHERE_X_M, 0), (35, 35, 20), (1035, 1035, 20)],
        }
        rows = [(c, *row) for c in client.tolist() for row in paths[c]]
        table = np.array(rows, dtype=float)
        return Waypoints(table[:, 0].astype(np.int64), table[:, 1], table[:, 2:])


@pytest.mark.parametrize("looks", [[120.0], [5.0, 30.0, 41.0, 60.0, 64.9, 65.0, 120.0], list(range(1, 121))])
def test_who_comes_reports_at_once_and_who_is_away_does_not(looks):
    positions = Positions(
        Trajectories(ComesAndGoes()), Streams(1).draw("reports"), reporting(15.0, stagger=False, delay_s=5.0)
    )
    both = np.array([0, 1])
    expected = {5.0: [0, None], 30.0: [15, None], 41.0: [15, 35], 60.0: [50, 45], 64.9: [50, 45], 65.0: [60, 60]}
    for t in map(float, looks):
        positions.advance(t)
        if t in expected:
            east = [None if x <= NOWHERE_X_M else round(x, 6) for x in positions.known(both)[:, 0].tolist()]
            assert east == expected[t]
    assert positions.known(both).tolist() == [[105.0, 10.0], [105.0, 20.0]]
    # At 0, 15, 50, 60, 75, 90, 105 and 120 s; and at 35, 45, 60, 75, 90, 105 and 120 s.
    assert positions.count_reports(120.0) == (15, 0)


def test_a_delay_longer_than_the_run_leaves_the_start():
    """No peeking: whatever the clients do, the vehicle knows where they were at the beginning."""
    positions = Positions(Trajectories(movement(False)), Streams(1).draw("reports"), reporting(10.0, delay_s=1e9))
    start = positions.known(np.arange(COUNT))
    for t in (3.0, 50.0, 390.0):
        positions.advance(t)
        assert np.array_equal(positions.known(np.arange(COUNT)), start)
        assert positions.last_report_s(0) == 0
        assert positions.next_report_s(0, t) > 1e9
