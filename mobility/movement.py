"""What a movement model is: where clients start, and their next waypoints when asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobility.terrain import PLACE_TRIES, Terrain

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# draw(ids [m], counters [m], k) -> uniform numbers [m,k] that depend on (id, counter) alone, so that movement
# does not depend on the order in which it is asked for.
Draw = Callable[[IntArray, IntArray, int], FloatArray]


@dataclass(frozen=True)
class Waypoints:
    """Waypoints of several clients, those of one client in the order of time; linear in between."""

    client: IntArray  # [k]
    t: FloatArray  # [k] s
    xy: FloatArray  # [k,2] m

    @staticmethod
    def join(parts: list[Waypoints]) -> Waypoints:
        return Waypoints(
            np.concatenate([p.client for p in parts]),
            np.concatenate([p.t for p in parts]),
            np.concatenate([p.xy for p in parts]),
        )


class Movement:
    """Base of the movement models. A model of one's own overrides `start` and, if clients move, `extend`."""

    still = True  # False: clients move between visits, and `extend` is asked for their waypoints

    def start(self) -> FloatArray:
        """Places [n,2] at time 0."""
        raise NotImplementedError

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """What follows the last waypoints (t [m], xy [m,2]) of these clients: at least one waypoint each.

        Waypoints of further clients may come along where several move together.
        """
        raise NotImplementedError

    def there(self, t: float) -> BoolArray | None:
        """Who [n] is there at all at time t; None: everyone, always."""
        return None

    def next_arrival_s(self, t: float) -> float:
        """When somebody comes next after t who was not there; inf if nobody does."""
        return np.inf

    def after_visit(self, visit: int) -> FloatArray | None:
        """New places [n,2] if everyone is placed anew after this visit, else None. For still models only."""
        return None


def random_places(terrain: Terrain, draw: Draw, ids: IntArray, counters: IntArray) -> FloatArray:
    """Places [m,2], uniform over the largest open area."""
    size = np.array(terrain.size_m)
    return terrain.open_places(
        len(ids), lambda rows, attempt: draw(ids[rows], counters[rows] * PLACE_TRIES + attempt, 2) * size
    )


def places_near(
    terrain: Terrain, draw: Draw, ids: IntArray, counters: IntArray, centre: FloatArray, radius_m: float
) -> FloatArray:
    """Places [m,2], uniform over the open part of the disc round each centre [m,2]."""

    def propose(rows: IntArray, attempt: int) -> FloatArray:
        uniform = draw(ids[rows], counters[rows] * PLACE_TRIES + attempt, 2)
        return centre[rows] + on_disc(uniform, radius_m)

    return terrain.open_places(len(ids), propose)


def on_disc(uniform: FloatArray, radius_m: float) -> FloatArray:
    """Points [m,2] uniform over a disc about 0, from uniform numbers [m,2]."""
    radius, angle = radius_m * np.sqrt(uniform[:, 0]), 2 * np.pi * uniform[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def between(low_high: tuple[float, float], uniform: FloatArray) -> FloatArray:
    """Uniform numbers of [0,1) stretched to [low, high)."""
    low, high = low_high
    return low + (high - low) * uniform


@dataclass(frozen=True)
class Ways:
    """The shortest ways of several walkers: their corners and ends, without the starts."""

    walker: IntArray  # [k] which walker a point belongs to; a walker's points are in order
    seconds: FloatArray  # [k] since departure
    xy: FloatArray  # [k,2]
    duration: FloatArray  # [m] seconds of each whole way
    end: FloatArray  # [m,2]


def ways(terrain: Terrain, start: FloatArray, goal: FloatArray, speed_mps: FloatArray) -> Ways:
    """Shortest ways for walkers from start [m,2] to goal [m,2] at speeds [m]; straight ones all at once."""
    straight = np.zeros(len(start), dtype=bool) if terrain.surfaces else terrain.clear(start, goal)
    duration = np.hypot(*(goal - start).T) / speed_mps
    end = goal.copy()
    parts = [(np.flatnonzero(straight), duration[straight], goal[straight])]
    for i in np.flatnonzero(~straight):
        seconds, places = terrain.timed_route(terrain.route(start[i], goal[i]), speed_mps[i])
        duration[i], end[i] = seconds[-1], places[-1]
        parts.append((np.full(len(seconds) - 1, i), seconds[1:], places[1:]))
    walker, seconds, xy = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Ways(walker, seconds, xy, duration, end)
