"""Radios and links: the data rate at a distance, and how it changes while the ends of a link move."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Trajectories, Way, crossing_fractions, first_within, position_at
from fedmule.radio.budget import Budget
from fedmule.radio.obstruction import Obstruction

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

HAIR_S = 1e-6  # how long two that come into range keep moving, so that rounding does not leave them outside
LOOK_AHEAD_S = 60.0  # span of a client's path that is evaluated at a time
LOOK_AHEAD_DRIVING_S = 10.0  # the same while the vehicle moves too: the link changes more often


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
    way: Way,
    client: int,
    start_s: float,
    extra_loss_db: float = 0.0,
) -> Iterator[Stretch]:
    """The link between a vehicle on its way and a client from `start_s` on, as an endless series of stretches.

    A stretch ends at the exact moment the rate changes: where the distance crosses a step of the ladder, where
    an obstacle enters or leaves the ray, where an end enters or leaves a jamming zone, or where the shadowing changes.
    `extra_loss_db` is what it loses because the client's radio is weaker.
    """
    t = start_s
    while not (trajectories.still and t >= way.times[-1]):
        horizon = t + (LOOK_AHEAD_S if t >= way.times[-1] else LOOK_AHEAD_DRIVING_S)
        times, positions = trajectories.path(client, horizon)
        inner = np.concatenate([times, way.times])
        cuts = np.unique(np.concatenate([[t], inner[(inner > t) & (inner < horizon)], [horizon]]))
        leave, depart = position_at(times, positions, cuts[:-1]), way.at_times(cuts[:-1])
        # These differ from the next `leave` and `depart` at a jump.
        arrive, reach = position_at(times, positions, cuts[1:], "left"), way.at_times(cuts[1:], "left")
        for k, (begin, end) in enumerate(pairwise(cuts.tolist())):
            legs = _Leg(depart[k], reach[k]), _Leg(leave[k], arrive[k])
            yield from _over_leg(radio, obstruction, *legs, begin, end, extra_loss_db)
        t = horizon
    here, there = way.at(t), trajectories.positions(t)[client]
    yield from _over_leg(radio, obstruction, _still(here), _still(there), t, np.inf, extra_loss_db)


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
    return start_of_link(link_between(radio, obstruction, a, b, t, extra_loss_db), t, start_s, end_s)


def start_of_link(
    link: Iterator[Stretch], since_s: float, start_s: float, end_s: float, after_break: bool = False
) -> float | None:
    """First time in [start_s, end_s] at which a link from `since_s` on is up; None if there is none.

    A link that comes up later than `start_s` counts from HAIR_S later on, if it lasts that long: so it is up then for
    a clock that is off by rounding too. `after_break`: one that is up at `start_s` does not count before it has broken.
    """
    t = up_s = since_s
    up = False
    broken = since_s > start_s or not after_break
    for stretch in link:
        if stretch.end_s <= t:
            continue
        if stretch.rate_bps == 0:
            broken, up = True, False
        elif broken:
            up, up_s = True, up_s if up else t
            first = up_s + HAIR_S if up_s > start_s else up_s
            if first < stretch.end_s:
                return first if first <= end_s else None
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

    def at(self, fractions: FloatArray) -> FloatArray:
        """Positions [m,2] at fractions [m] of it."""
        return np.asarray(self.start + self.vector * fractions[:, None])


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
    cuts = np.unique(np.concatenate([[0.0], *changes, [1.0]]))
    middles = (cuts[:-1] + cuts[1:]) / 2  # of the pieces over which the loss is constant
    here, there = a.at(middles), b.at(middles)
    losses = obstruction.loss_db(here, there) + radio.shadow_db(here, there) + extra_loss_db
    steps = {loss: _Steps(radio.ladder(loss), gap, change) for loss in set(losses.tolist())}
    pieces = [
        (steps[loss], [*steps[loss].crossings_in(s0, s1), s1])
        for (s0, s1), loss in zip(pairwise(cuts.tolist()), losses.tolist(), strict=True)
    ]
    ends = np.array([e1 for _, inner in pieces for e1 in inner])
    halves = (np.concatenate([[0.0], ends[:-1]]) + ends) / 2
    distances = iter(np.hypot(*(b.at(halves) - a.at(halves)).T).tolist())
    for ladder, inner in pieces:
        for e1 in inner:
            yield Stretch(end_s if e1 == 1.0 else start_s + e1 * (end_s - start_s), ladder.rate_bps(next(distances)))


class _Steps:
    """A ladder, and where a link crosses its steps while the vector between its ends goes from `gap` by `change`."""

    def __init__(self, ladder: Ladder, gap: FloatArray, change: FloatArray) -> None:
        self._crossings = crossing_fractions(gap, change, ladder.distances_m)
        self._distances_m = ladder.distances_m.tolist()
        self._rates_bps: list[float] = [*ladder.rates_bps.tolist(), 0.0]

    def crossings_in(self, s0: float, s1: float) -> list[float]:
        return self._crossings[bisect_right(self._crossings, s0) : bisect_left(self._crossings, s1)]

    def rate_bps(self, distance_m: float) -> float:
        return self._rates_bps[bisect_left(self._distances_m, distance_m)]
