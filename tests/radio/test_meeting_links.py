"""The link between two moving ends, against dense sampling."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import shapely
from making import Disc, WifiDirect
from numpy.typing import NDArray

from fedmule.mobility.terrain import Obstacle
from fedmule.mobility.trajectory import Way, position_at
from fedmule.radio.link import HAIR_S, Radio, Stretch, first_linked, link_between, linked, rates_bps, start_of_link
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.propagation import Shadowing
from fedmule.simulator.streams import Streams

WALLS = [
    Obstacle(shapely.box(40, 10, 44, 90), True, 9.0),
    Obstacle(shapely.Polygon([(60, 50), (90, 48), (85, 70)]), True, 4.0),
    Obstacle(shapely.box(10, 60, 30, 80), False, 30.0),
]
OPEN, TOWN = Obstruction(), Obstruction(WALLS)
END_S, STEP_S = 40.0, 0.01


def random_way(draw: np.random.Generator) -> Way:
    corners = int(draw.integers(1, 6))
    times = np.sort(draw.uniform(0, END_S * 0.8, corners))
    return Way(times, draw.uniform(0, 100, (corners, 2)))


def sampled(radio: Radio, obstruction: Obstruction, a: Way, b: Way, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rates at times t, position by position."""
    p, q = position_at(a.times, a.positions, t), position_at(b.times, b.positions, t)
    return rates_bps(radio, np.hypot(*(q - p).T), obstruction.loss_db(p, q) + radio.shadow_db(p, q))


RADIOS: dict[str, Radio] = {
    "disc": Disc(25.0),
    "wifi": WifiDirect(40.0),
    "shadowed": WifiDirect(30.0, shadowing=Shadowing(6.0, 20.0, Streams(1).draw("shadowing"))),
}


@pytest.mark.parametrize("radio", RADIOS.values(), ids=RADIOS)
@pytest.mark.parametrize("obstruction", [OPEN, TOWN], ids=["open", "town"])
def test_links_between_moving_ends_against_samples(radio: Radio, obstruction: Obstruction) -> None:
    draw, met = np.random.default_rng(2), 0
    t = np.arange(0.0, END_S, STEP_S)
    for _ in range(12):
        a, b = random_way(draw), random_way(draw)
        expected = sampled(radio, obstruction, a, b, t)
        ends, rates, start = [], [], 0.0
        for stretch in link_between(radio, obstruction, a, b, start):
            ends.append(stretch.end_s)
            rates.append(stretch.rate_bps)
        assert ends == sorted(ends)
        assert ends[-1] == np.inf
        found = np.array(rates)[np.searchsorted(ends, t, side="left")]
        edge = np.min(np.abs(t[:, None] - np.array([0.0, *ends[:-1]])), axis=1) < 1e-6
        assert (found == expected)[~edge].all()

        first = first_linked(radio, obstruction, a, b, 0.0, END_S - STEP_S)
        heard = np.flatnonzero(expected > 0)
        if first is None:
            assert not len(heard)
            continue
        met += 1
        assert not len(heard) or first <= t[heard[0]] + HAIR_S
        assert not len(heard[t[heard] < first - HAIR_S])
        positions = (
            position_at(a.times, a.positions, np.array([first])),
            position_at(b.times, b.positions, np.array([first])),
        )
        assert linked(radio, obstruction, positions[0], positions[1])[0]  # they can stop there and exchange
    assert met >= 5


def test_head_on_and_never() -> None:
    a = Way(np.array([0.0, 10.0]), np.array([[0.0, 50.0], [100.0, 50.0]]))
    b = Way(np.array([0.0, 10.0]), np.array([[100.0, 50.0], [0.0, 50.0]]))
    met = first_linked(Disc(20.0), OPEN, a, b, 0.0, 10.0)
    assert met == pytest.approx(4.0 + HAIR_S, abs=1e-9)  # 100 − 20·t = 20
    assert first_linked(Disc(20.0), OPEN, a, b, 5.0, 10.0) == 5.0  # in range already
    assert first_linked(Disc(20.0), OPEN, a, b, 0.0, 3.9) is None
    aside = Way(np.array([0.0]), np.array([[50.0, 80.0]]))
    assert first_linked(Disc(20.0), OPEN, a, aside, 0.0, np.inf) is None
    wall = Obstruction([Obstacle(shapely.box(45, 0, 46, 49.5), True, 60.0)])
    below = Way(np.array([0.0, 10.0]), np.array([[40.0, 30.0], [40.0, 60.0]]))
    beyond = Way(np.array([0.0, 10.0]), np.array([[51.0, 30.0], [51.0, 60.0]]))
    over_the_wall = first_linked(Disc(20.0), wall, below, beyond, 0.0, 10.0)
    assert over_the_wall == pytest.approx(6.5 + HAIR_S, abs=1e-9)  # both at 49.5


def stretches(*ends_and_rates: tuple[float, float]) -> Iterator[Stretch]:
    return iter([Stretch(end_s, rate_bps) for end_s, rate_bps in ends_and_rates])


def test_a_link_counts_from_a_moment_later_if_it_lasts_that_long() -> None:
    now, moment = 2315.6458701875226, 0.25 * HAIR_S
    soon = np.nextafter(now, np.inf)
    # Down for one step of the clock, up for none, then up: it starts when it lasts, and not at once.
    link = stretches((soon, 0.0), (soon, 5.0), (now + 9, 4.0), (np.inf, 0.0))
    assert start_of_link(link, now, now, now + 30) == soon + HAIR_S
    # Too short to count, then again for long enough, in two stretches.
    short = (now + 1, 0.0), (now + 1 + moment, 5.0), (now + 2, 0.0), (now + 2 + moment, 5.0), (np.inf, 6.0)
    assert start_of_link(stretches(*short), now, now, now + 30) == now + 2 + HAIR_S
    assert start_of_link(stretches(*short), now, now, now + 2) is None
    # Up at once, even if not for long; with `after_break` only after it was down.
    up = (now + moment, 5.0), (now + 1, 0.0), (np.inf, 5.0)
    assert start_of_link(stretches(*up), now, now, now) == now
    assert start_of_link(stretches((now, 0.0), *up), now, now, now) == now
    assert start_of_link(stretches(*up), now, now, now + 30, after_break=True) == now + 1 + HAIR_S
    assert start_of_link(stretches((np.inf, 5.0)), now, now, now + 30, after_break=True) is None
