"""A client walks away from a standing vehicle: when its link ends and what is delivered, in closed form."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Acoustic, Ble, Disc, WifiDirect, Zigbee

from fedmule.mobility.models.movement import Movement, Waypoints
from fedmule.mobility.trajectory import Trajectories, Way
from fedmule.radio.channel import Load
from fedmule.radio.exchange import run_exchange
from fedmule.radio.hearing import Hearing
from fedmule.radio.link import link_over_time
from fedmule.radio.obstruction import Obstruction

OPEN = Obstruction()
HERE = np.array([5e4, 5e4])


class Straight(Movement):
    """Clients that walk forever, each in its own direction."""

    still = False

    def __init__(self, start, velocity):
        self._start, self._velocity = np.array(start, float), np.array(velocity, float)

    def start(self):
        return HERE + self._start

    def extend(self, client, t, xy):
        return Waypoints(client, t + 37.0, xy + 37.0 * self._velocity[client])


def exchange(radio, start, velocity, down, up, compute_s=0.0, broadcast=True):
    m = len(start)
    ways = Trajectories(Straight(start, velocity))
    hearing = Hearing(radio, OPEN, ways, np.zeros(m))
    links = [hearing.link(Way.standing(HERE), i, 0.0) for i in range(m)]
    delays = [partial(hearing.delay_s, Way.standing(HERE), i) for i in range(m)]
    load = Load(np.array(down), np.full(m, compute_s), np.array(up), broadcast)
    return run_exchange(links, load, 0.0, radio.setup_s, delays, radio.duty_cycle)


def crossing_s(start, velocity, distance_m):
    """Last time at which |start + t·velocity| = distance."""
    (x, y), (u, v) = start, velocity
    a, b, c = u * u + v * v, x * u + y * v, x * x + y * y - distance_m**2
    return (-b + np.sqrt(b * b - a * c)) / a


def bits_until(radio, start, velocity, begin_s, end_s):
    """∫ rate dt over the rings of the ladder for a client that only moves away."""
    ladder, total, since = radio.ladder(0.0), 0.0, begin_s
    for distance, rate in zip(ladder.distances_m, ladder.rates_bps, strict=True):
        if np.hypot(*start) >= distance:
            continue
        until = min(crossing_s(start, velocity, distance), end_s)
        total += rate * max(until - since, 0.0)
        since = max(since, until)
    return total


KINDS = [
    partial(WifiDirect, range_m=80.0, setup_s=1.0),
    partial(WifiDirect, range_m=60.0, standard="ac"),
    partial(Zigbee, range_m=90.0),
    partial(Ble, range_m=70.0),
    partial(Disc, range_m=50.0, rate_mbps=1.0),
    partial(Acoustic, range_m=400.0),
]
away = st.tuples(st.floats(0.0, 30.0), st.floats(0.0, 20.0), st.floats(0.2, 9.0), st.floats(0.0, 5.0))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(away)
def test_link_and_bytes_end_where_geometry_says(kind, way):
    radio, (x, y, u, v) = kind(), way
    dies_s = crossing_s((x, y), (u, v), radio.range_m)
    out = exchange(radio, [(x, y)], [(u, v)], [10**10], [0])
    assert not out.delivered[0]
    assert out.end_s == pytest.approx(dies_s, rel=1e-9)
    expected = bits_until(radio, (x, y), (u, v), radio.setup_s, dies_s) / 8
    assert abs(out.bytes_down[0] - expected) <= 1 + 1e-9 * expected
    assert out.airtime_s == pytest.approx(max(dies_s - radio.setup_s, 0.0), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(away, st.floats(0.05, 0.95))
def test_a_transfer_ends_with_its_last_byte(kind, way, share):
    """Send exactly the bytes that fit into a fraction of the time in range: the exchange ends at that moment."""
    radio, (x, y, u, v) = kind(), way
    dies_s = crossing_s((x, y), (u, v), radio.range_m)
    end_s = radio.setup_s + share * (dies_s - radio.setup_s)
    size = int(bits_until(radio, (x, y), (u, v), radio.setup_s, end_s) // 8)
    if dies_s <= radio.setup_s + 0.1 or size < 100:
        return
    out = exchange(radio, [(x, y)], [(u, v)], [0], [size])
    delay_s = radio.delay_s(np.array([np.hypot(x + u * end_s, y + v * end_s)]))[0]
    slowest = radio.ladder(0.0).rates_bps[-1]
    if end_s + delay_s < dies_s - 1e-6:
        assert out.delivered[0]
        assert out.end_s == pytest.approx(end_s + delay_s, abs=8 / slowest + 1e-6)
    elif end_s + delay_s > dies_s + 8 / slowest + 1e-6:
        assert not out.delivered[0]
        assert out.end_s == pytest.approx(dies_s)
    assert (out.bytes_up[0], out.air_bytes_up) == (size, size)


@pytest.mark.parametrize("broadcast", [True, False])
def test_others_are_served_while_one_walks_away(broadcast):
    """Disc, 1 Mb/s up to 50 m; the first leaves at 8 s, 100 kB take 0.8 s alone."""
    radio = Disc(range_m=50.0, rate_mbps=1.0, latency_s=0.0, setup_s=0.0)
    start, velocity = [(10.0, 0.0), (0.0, 5.0), (0.0, -5.0)], [(5.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    out = exchange(radio, start, velocity, [2_000_000] * 3, [0] * 3, broadcast=broadcast)
    assert out.delivered.tolist() == [False, True, True]
    if broadcast:
        assert out.end_s == pytest.approx(16)
        assert out.bytes_down.tolist() == [1_000_000, 2_000_000, 2_000_000]
        assert out.air_bytes_down == 2_000_000
    else:
        assert out.bytes_down.tolist() == [333_333, 2_000_000, 2_000_000]
        assert out.air_bytes_down == 4_333_333
        assert out.end_s == pytest.approx(8 + 2 * (16e6 - 8e6 / 3) / 1e6)
    assert out.airtime_s == pytest.approx(out.end_s)


def test_a_jump_out_of_range_ends_the_link_at_once():
    class Vanishing(Movement):
        still = False

        def start(self):
            return HERE[None] + 3.0

        def extend(self, client, t, xy):
            gone = np.array([-1e8, 0.0])
            return Waypoints(np.repeat(client, 3), np.array([7.0, 7.0, 1e9]), np.stack([HERE + 3.0, gone, gone]))

    ways = Trajectories(Vanishing())
    link = link_over_time(Disc(range_m=20.0), OPEN, ways, Way.standing(HERE), 0, 0.0)
    assert [(s.end_s, s.rate_bps > 0) for s in (next(link), next(link))] == [(7.0, True), (60.0, False)]
