"""Radios and links: the data rate at a distance, and how it changes while the ends of a link move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Trajectories, Way, first_within
from fedmule.radio.budget import Budget
from fedmule.radio.obstruction import Obstruction

if TYPE_CHECKING:
    from fedmule.radio.propagation import Shadowing

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


class Ladders:
    """The ladders of a radio that have been needed so far, as a table for compiled loops."""

    def __init__(self, ladder: Callable[[float], Ladder]) -> None:
        self._ladder = ladder
        self._of: dict[float, Ladder] = {}
        self.add(0.0)

    def add(self, loss_db: float) -> None:
        """Add the ladder for a loss."""
        from fedmule.radio.stretches import Rungs  # slow to import, so only where needed

        self._of[loss_db] = self._ladder(loss_db)
        losses_db = sorted(self._of)
        steps = [self._of[loss] for loss in losses_db]
        self.table = Rungs(
            np.array(losses_db),
            np.cumsum([0, *(len(each.distances_m) for each in steps)]),
            np.concatenate([each.distances_m for each in steps]).astype(float),
            np.concatenate([each.rates_bps for each in steps]).astype(float),
        )


class Radio:
    """Base class of radios. Subclass, override `ladder` and set `setup_s` and `latency_s`."""

    setup_s = 0.0  # before the first byte of a contact: discovery, association
    latency_s = 0.0  # from sending the last byte until it is usable, each way
    duty_cycle = 1.0  # fraction of the time that one device may send; a ladder's rates hold while it sends
    level = "dBm"  # unit of received power
    shadowing: Shadowing | None = None  # beyond the mean path loss

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
        return self.shadowing.loss_db(a, b) if self.shadowing else np.zeros(len(b))

    @cached_property
    def ladders(self) -> Ladders:
        """The ladders that have been needed so far."""
        return Ladders(self.ladder)

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
    from fedmule.radio.stretches import rates_between  # slow to import, so only where needed

    view, extra_db = obstruction.view(radio.shadowing), np.zeros(len(b)) + extra_loss_db
    ends = np.zeros((len(b), 2)) + a, np.ascontiguousarray(b, dtype=float)
    while True:
        missing_db, rates = rates_between(view, radio.ladders.table, *ends, extra_db)
        if missing_db != missing_db:  # nan: none is missing
            return np.asarray(rates > 0)
        radio.ladders.add(missing_db)


class Stretch(NamedTuple):
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
    t, on_the_way_s = start_s, way.times[-1]
    while not (trajectories.still and t >= on_the_way_s):
        horizon = t + (LOOK_AHEAD_S if t >= on_the_way_s else LOOK_AHEAD_DRIVING_S)
        path = Way(*trajectories.path(client, horizon))
        yield from _stretches(radio, obstruction, way, path, t, horizon, extra_loss_db)
        t = horizon
    path = Way(*trajectories.path(client, t))
    yield from _stretches(radio, obstruction, way, path, t, np.inf, extra_loss_db)


def link_between(
    radio: Radio, obstruction: Obstruction, a: Way, b: Way, start_s: float, extra_loss_db: float = 0.0
) -> Iterator[Stretch]:
    """The link between two moving ends from `start_s` on, stretch by stretch; the last one never ends."""
    return _stretches(radio, obstruction, a, b, start_s, np.inf, extra_loss_db, later=(True, True))


def _stretches(
    radio: Radio,
    obstruction: Obstruction,
    a: Way,
    b: Way,
    start_s: float,
    end_s: float,
    extra_loss_db: float,
    later: tuple[bool, bool] = (True, False),
) -> Iterator[Stretch]:
    """The link between two moving ends over a span of time; where one jumps, see `stretches`."""
    from fedmule.radio.stretches import stretches  # slow to import, so only where needed

    view, paths = obstruction.view(radio.shadowing), (a.times, a.positions, b.times, b.positions)
    span_s = float(start_s), float(end_s)
    while True:
        missing_db, ends, rates = stretches(view, radio.ladders.table, *paths, span_s, later, extra_loss_db)
        if missing_db != missing_db:  # nan: none is missing
            return map(Stretch, ends.tolist(), rates.tolist())
        radio.ladders.add(missing_db)


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
