"""Radios and links: the data rate at a distance, and how it changes while the ends of a link move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Trajectories, Way, first_within, position_at, within_fractions
from fedmule.radio.budget import Budget
from fedmule.radio.obstruction import Obstruction

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

HAIR_S = 1e-6  # how long two that come into range keep moving, so that rounding does not leave them outside
LOOK_AHEAD_S = 60.0  # span of a client's path that is evaluated at a time


@dataclass(frozen=True)
class Ladder:
    """Rates by distance: rates_bps[k] up to distances_m[k] (ascending), nothing beyond the last."""

    distances_m: FloatArray  # [k]
    rates_bps: FloatArray  # [k] useful bits per second, net of overheads


class Radio:
    """Base class of radios. Subclass, override `ladder` and set `setup_s` and `latency_s`."""

    setup_s = 0.0  # before the first byte of a contact: discovery, association
    latency_s = 0.0  # from sending the last byte until it is usable, each way
    duty_cycle = 1.0  # fraction of the time that one device may send; a ladder's rates hold while it sends
    level = "dBm"  # unit of received power

    def ladder(self, loss_db: float) -> Ladder:
        """Rates by distance for a link that loses `loss_db` to obstruction and shadowing."""
        raise NotImplementedError

    @property
    def range_m(self) -> float:
        """Reach of an unobstructed link."""
        return reach_m(self.ladder(0.0))

    @property
    def farthest_m(self) -> float:
        """Reach of the most favourable link."""
        return self.range_m

    def delay_s(self, distance_m: FloatArray) -> FloatArray:
        """Seconds [m] from sending the last byte until it is usable, over these distances [m]."""
        return np.full(len(distance_m), self.latency_s)

    def shadow_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Shadowing [m] in dB, beyond the mean path loss, of the links between a ([2] or [m,2]) and b [m,2]."""
        return np.zeros(len(b))

    def shadow_changes(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Fractions in (0,1) of the leg start→end at which the shadowing of a link to it may change."""
        return np.empty(0)

    def budget(self, distance_m: FloatArray, loss_db: float = 0.0) -> Budget:
        """Link budget at these distances [m] with `loss_db` of obstruction; this one has what a ladder holds."""
        goodput = self.duty_cycle * rates_bps(self, distance_m, np.full(len(distance_m), loss_db))
        linked = goodput > 0
        nothing = np.full(len(distance_m), np.nan)
        modes = tuple("on" if there else "" for there in linked)
        return Budget(distance_m, nothing, nothing, nothing, modes, goodput, np.where(linked, 0.0, 1.0), goodput)


def reach_m(ladder: Ladder) -> float:
    """Largest distance of a ladder; 0 if it has no step."""
    return float(ladder.distances_m[-1]) if len(ladder.distances_m) else 0.0


def rates_bps(radio: Radio, distance_m: FloatArray, loss_db: FloatArray) -> FloatArray:
    """Rates [m] of links over these distances [m] with these losses [m] in dB; 0 where there is no link."""
    rates = np.zeros(len(distance_m))
    for loss in np.unique(loss_db):
        ladder = radio.ladder(float(loss))
        same = loss_db == loss
        step = np.searchsorted(ladder.distances_m, distance_m[same], side="left")
        rates[same] = np.append(ladder.rates_bps, 0.0)[step]
    return rates


def linked(
    radio: Radio, obstruction: Obstruction, a: FloatArray, b: FloatArray, extra_loss_db: FloatArray | float = 0.0
) -> BoolArray:
    """Whether there is a link [m] between positions a ([2] or [m,2]) and b [m,2].

    `extra_loss_db` ([m] or one for all) is what it loses because the radio at one end is weaker.
    """
    loss_db = obstruction.loss_db(a, b) + radio.shadow_db(a, b) + extra_loss_db
    return rates_bps(radio, np.hypot(*(b - a).T), loss_db) > 0


@dataclass(frozen=True)
class Stretch:
    """A span of time over which a link's rate is constant."""

    end_s: float
    rate_bps: float


def link_over_time(
    radio: Radio,
    obstruction: Obstruction,
    trajectories: Trajectories,
    position: FloatArray,
    client: int,
    start_s: float,
    extra_loss_db: float = 0.0,
) -> Iterator[Stretch]:
    """The link between a fixed position and a client from `start_s` on, as an endless series of stretches.

    A stretch ends at the exact moment the rate changes: where the distance crosses a step of the ladder, where
    an obstacle enters or leaves the ray, where an end enters or leaves a jamming zone, or where the shadowing changes.
    `extra_loss_db` is what it loses because the client's radio is weaker.
    """
    if trajectories.still:
        here = trajectories.positions(start_s)[client]
        yield from _over_leg(radio, obstruction, _still(position), _still(here), start_s, np.inf, extra_loss_db)
    t = start_s
    while True:
        horizon = t + LOOK_AHEAD_S
        times, positions = trajectories.path(client, horizon)
        cuts = np.unique(np.concatenate([[t], times[(times > t) & (times < horizon)], [horizon]]))
        leave = position_at(times, positions, cuts[:-1])
        arrive = position_at(times, positions, cuts[1:], "left")  # differs from the next `leave` at a jump
        for k, (begin, end) in enumerate(pairwise(cuts.tolist())):
            leg = _Leg(leave[k], arrive[k])
            yield from _over_leg(radio, obstruction, _still(position), leg, begin, end, extra_loss_db)
        t = horizon


def delay_at_s(radio: Radio, trajectories: Trajectories, position: FloatArray, client: int, t: float) -> float:
    """Seconds from sending a byte at time t, between a fixed position and a client, until it is usable."""
    there = position_at(*trajectories.path(client, t), np.array([t]))
    return float(radio.delay_s(np.hypot(*(there - position).T))[0])


def link_between(
    radio: Radio, obstruction: Obstruction, a: Way, b: Way, start_s: float, extra_loss_db: float = 0.0
) -> Iterator[Stretch]:
    """The link between two moving ends from `start_s` on, stretch by stretch; the last one never ends."""
    t, cuts = start_s, np.unique(np.concatenate([a.times, b.times]))
    for cut in cuts[cuts > start_s].tolist():
        legs = _Leg(a.at(t), a.at(cut)), _Leg(b.at(t), b.at(cut))
        yield from _over_leg(radio, obstruction, *legs, t, cut, extra_loss_db)
        t = cut
    yield from _over_leg(radio, obstruction, _still(a.at(t)), _still(b.at(t)), t, np.inf, extra_loss_db)


def first_linked(
    radio: Radio, obstruction: Obstruction, a: Way, b: Way, start_s: float, end_s: float, extra_loss_db: float = 0.0
) -> float | None:
    """First time in [start_s, end_s] at which there is a link between two moving ends; None if there is none."""
    near_m = radio.farthest_m * (1 + 1e-9)
    t = first_within(a.times, a.positions, b.times, b.positions, near_m, start_s, end_s)
    if t is None:
        return None
    for stretch in link_between(radio, obstruction, a, b, t, extra_loss_db):
        if stretch.rate_bps > 0:
            t += min(HAIR_S, (stretch.end_s - t) / 2) if t > start_s else 0.0
            return t if t <= end_s else None
        t = stretch.end_s
        if t >= end_s:
            break
    return None


@dataclass(frozen=True)
class _Leg:
    """A straight piece of a path."""

    start: FloatArray  # [2]
    end: FloatArray  # [2]

    @property
    def vector(self) -> FloatArray:
        return self.end - self.start

    def at(self, fraction: float) -> FloatArray:
        return self.start + self.vector * fraction


def _still(position: FloatArray) -> _Leg:
    return _Leg(position, position)


def _over_leg(
    radio: Radio, obstruction: Obstruction, a: _Leg, b: _Leg, start_s: float, end_s: float, extra_loss_db: float = 0.0
) -> Iterator[Stretch]:
    """Stretches of the link while one end travels leg a and the other leg b, from `start_s` to `end_s`."""
    gap, change = b.start - a.start, b.vector - a.vector
    moving = [leg for leg in (a, b) if leg.vector.any()]
    changes = [obstruction.changes(a.start, a.end, b.start, b.end)] if moving else []
    changes += [radio.shadow_changes(leg.start, leg.end) for leg in moving]
    for s0, s1 in pairwise(np.unique(np.concatenate([[0.0], *changes, [1.0]]))):
        here, there = a.at((s0 + s1) / 2), b.at((s0 + s1) / 2)[None]
        loss_db = obstruction.loss_db(here, there) + radio.shadow_db(here, there) + extra_loss_db
        ladder = radio.ladder(float(loss_db[0]))
        crossings = [within_fractions(gap, change, d) for d in ladder.distances_m]
        inner = np.unique([s for pair in crossings for s in pair if s0 < s < s1])
        for e0, e1 in pairwise(np.concatenate([[s0], inner, [s1]])):
            distance = np.hypot(*(b.at((e0 + e1) / 2) - a.at((e0 + e1) / 2)))
            step = int(np.searchsorted(ladder.distances_m, distance, side="left"))
            rate = float(ladder.rates_bps[step]) if step < len(ladder.rates_bps) else 0.0
            yield Stretch(end_s if e1 == 1.0 else start_s + e1 * (end_s - start_s), rate)
