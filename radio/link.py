"""What a radio is: how fast a link goes at a distance, and how that changes while a client moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories, Way, first_within, position_at, within_shares

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

HAIR_S = 1e-6  # by which two who have come into range are let go on, so that rounding does not leave them outside
LOOK_AHEAD_S = 60.0  # how far ahead of an exchange a client's way is looked at in one go


@dataclass(frozen=True)
class Ladder:
    """Rates by distance: rates_bps[k] up to distances_m[k] (ascending), nothing beyond the last."""

    distances_m: FloatArray  # [k]
    rates_bps: FloatArray  # [k] useful bits per second, overheads already taken off


@dataclass(frozen=True)
class Budget:
    """What becomes of a signal at each of m distances; nan where a radio has no such figure."""

    distance_m: FloatArray
    path_loss_db: FloatArray  # obstacles counted
    received_dbm: FloatArray
    snr_db: FloatArray
    mode: tuple[str, ...]  # modulation and coding used; "" where there is no link
    rate_bps: FloatArray  # on the air
    per: FloatArray  # packet error rate; 1 where there is no link
    goodput_bps: FloatArray  # useful bits per second: overheads, retransmissions and waiting taken off


class Radio:
    """Base of the radios. One of one's own overrides `ladder` and sets the two times."""

    setup_s = 0.0  # before the first byte of a contact: discovery, association
    latency_s = 0.0  # from the last byte sent to the last byte usable, each way
    duty_cycle = 1.0  # share of the time one device may send; a ladder's rates hold while it does
    level = "dBm"  # what received power is counted in

    def ladder(self, loss_db: float) -> Ladder:
        """Rates by distance when obstacles take `loss_db` from the ray."""
        raise NotImplementedError

    @property
    def range_m(self) -> float:
        """How far a link with nothing in its way reaches."""
        return reach_m(self.ladder(0.0))

    @property
    def farthest_m(self) -> float:
        """How far the luckiest link reaches."""
        return self.range_m

    def delay_s(self, distance_m: FloatArray) -> FloatArray:
        """From the last byte sent to the last byte usable over these distances [m]."""
        return np.full(len(distance_m), self.latency_s)

    def shadow_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """What links [m] between a ([2] or [m,2]) and b [m,2] lose more than the mean because of where they are."""
        return np.zeros(len(b))

    def shadow_changes(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Shares of the way start→end, in (0,1), where the shadowing of one who walks it may change."""
        return np.empty(0)

    def budget(self, distance_m: FloatArray, loss_db: float = 0.0) -> Budget:
        """The link at these distances [m] when obstacles take `loss_db`; here, all that a ladder tells."""
        goodput = self.duty_cycle * rates_bps(self, distance_m, np.full(len(distance_m), loss_db))
        linked = goodput > 0
        nothing = np.full(len(distance_m), np.nan)
        modes = tuple("on" if there else "" for there in linked)
        return Budget(distance_m, nothing, nothing, nothing, modes, goodput, np.where(linked, 0.0, 1.0), goodput)


def reach_m(ladder: Ladder) -> float:
    return float(ladder.distances_m[-1]) if len(ladder.distances_m) else 0.0


def rates_bps(radio: Radio, distance_m: FloatArray, loss_db: FloatArray) -> FloatArray:
    """Rates [m] of links with these distances [m] and obstacle losses [m]; 0 where there is no link."""
    rates = np.zeros(len(distance_m))
    for loss in np.unique(loss_db):
        ladder = radio.ladder(float(loss))
        same = loss_db == loss
        step = np.searchsorted(ladder.distances_m, distance_m[same], side="left")
        rates[same] = np.append(ladder.rates_bps, 0.0)[step]
    return rates


def linked(radio: Radio, terrain: Terrain, a: FloatArray, b: FloatArray) -> BoolArray:
    """Whether the positions a ([2] or [m,2]) and b [m,2] can hear each other."""
    return rates_bps(radio, np.hypot(*(b - a).T), terrain.radio_loss_db(a, b) + radio.shadow_db(a, b)) > 0


@dataclass(frozen=True)
class Stretch:
    """A stretch of time over which a link's rate stays the same."""

    end_s: float
    rate_bps: float


def link_over_time(
    radio: Radio, terrain: Terrain, trajectories: Trajectories, position: FloatArray, client: int, start_s: float
) -> Iterator[Stretch]:
    """The link between a fixed position and a client from `start_s` on, stretch by stretch, without end.

    A stretch ends at the exact moment the rate changes: where the distance crosses a step of the ladder, where
    an obstacle comes into or leaves the ray, or where the shadowing changes.
    """
    if trajectories.still:
        here = trajectories.positions(start_s)[client]
        yield from _over_leg(radio, terrain, _still(position), _still(here), start_s, np.inf)
    t = start_s
    while True:
        horizon = t + LOOK_AHEAD_S
        times, positions = trajectories.path(client, horizon)
        cuts = np.unique(np.concatenate([[t], times[(times > t) & (times < horizon)], [horizon]]))
        leave, arrive = (
            position_at(times, positions, cuts[:-1]),
            position_at(times, positions, cuts[1:], "left"),
        )  # apart at a jump
        for k, (begin, end) in enumerate(pairwise(cuts.tolist())):
            yield from _over_leg(radio, terrain, _still(position), _Leg(leave[k], arrive[k]), begin, end)
        t = horizon


def delay_at_s(radio: Radio, trajectories: Trajectories, position: FloatArray, client: int, t: float) -> float:
    """From a byte's being sent at time t between a fixed position and a client until it can be used."""
    there = position_at(*trajectories.path(client, t), np.array([t]))
    return float(radio.delay_s(np.hypot(*(there - position).T))[0])


def link_between(radio: Radio, terrain: Terrain, a: Way, b: Way, start_s: float) -> Iterator[Stretch]:
    """The link between two on their ways from `start_s` on, stretch by stretch; the last one has no end."""
    t, cuts = start_s, np.unique(np.concatenate([a.times, b.times]))
    for cut in cuts[cuts > start_s].tolist():
        yield from _over_leg(radio, terrain, _Leg(a.at(t), a.at(cut)), _Leg(b.at(t), b.at(cut)), t, cut)
        t = cut
    yield from _over_leg(radio, terrain, _still(a.at(t)), _still(b.at(t)), t, np.inf)


def first_linked(radio: Radio, terrain: Terrain, a: Way, b: Way, start_s: float, end_s: float) -> float | None:
    """The first time in [start_s, end_s] at which two on their ways hear each other; None if they do not."""
    near_m = radio.farthest_m * (1 + 1e-9)
    t = first_within(a.times, a.positions, b.times, b.positions, near_m, start_s, end_s)
    if t is None:
        return None
    for stretch in link_between(radio, terrain, a, b, t):
        if stretch.rate_bps > 0:
            t += min(HAIR_S, (stretch.end_s - t) / 2) if t > start_s else 0.0
            return t if t <= end_s else None
        t = stretch.end_s
        if t >= end_s:
            break
    return None


@dataclass(frozen=True)
class _Leg:
    """A straight part of a way."""

    start: FloatArray  # [2]
    end: FloatArray  # [2]

    @property
    def way(self) -> FloatArray:
        return self.end - self.start

    def at(self, share: float) -> FloatArray:
        return self.start + self.way * share


def _still(position: FloatArray) -> _Leg:
    return _Leg(position, position)


def _over_leg(radio: Radio, terrain: Terrain, a: _Leg, b: _Leg, start_s: float, end_s: float) -> Iterator[Stretch]:
    gap, change = b.start - a.start, b.way - a.way
    changes = [terrain.loss_changes_between(a.start, a.end, b.start, b.end)] if a.way.any() or b.way.any() else []
    changes += [radio.shadow_changes(leg.start, leg.end) for leg in (a, b) if leg.way.any()]
    shares = np.unique(np.concatenate([[0.0], *changes, [1.0]]))
    for s0, s1 in pairwise(shares):
        here, there = a.at((s0 + s1) / 2), b.at((s0 + s1) / 2)[None]
        ladder = radio.ladder(float((terrain.radio_loss_db(here, there) + radio.shadow_db(here, there))[0]))
        crossings = [within_shares(gap, change, d) for d in ladder.distances_m]
        inner = np.unique([s for pair in crossings for s in pair if s0 < s < s1])
        edges = np.concatenate([[s0], inner, [s1]])
        for e0, e1 in pairwise(edges):
            distance = np.hypot(*(b.at((e0 + e1) / 2) - a.at((e0 + e1) / 2)))
            step = int(np.searchsorted(ladder.distances_m, distance, side="left"))
            rate = float(ladder.rates_bps[step]) if step < len(ladder.rates_bps) else 0.0
            yield Stretch(end_s if e1 == 1.0 else start_s + e1 * (end_s - start_s), rate)
