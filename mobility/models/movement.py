"""Base class of mobility models: start positions, and further waypoints on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.terrain import POSITION_TRIES, Terrain

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NOWHERE_X_M = -1e8  # absent clients wait at or west of here, out of everyone's reach

# draw(ids [m], counters [m], k) -> uniform numbers [m,k] that depend on (id, counter) alone, so that movement does not
# depend on the order of queries.
Draw = Callable[[IntArray, IntArray, int], FloatArray]


class MovementError(ValueError):
    """A model cannot move its clients on this terrain; `key` is the dotted rest of the scenario key at fault."""

    def __init__(self, message: str, key: str = "") -> None:
        self.key = key
        super().__init__(message)


@dataclass(frozen=True)
class Waypoints:
    """Waypoints of several clients, with straight legs in between; those of each client are in order of time."""

    client: IntArray  # [k]
    t: FloatArray  # [k] s
    xy: FloatArray  # [k,2] m

    @staticmethod
    def join(parts: list[Waypoints]) -> Waypoints:
        """Concatenate waypoints, in the order given."""
        return Waypoints(
            np.concatenate([p.client for p in parts]),
            np.concatenate([p.t for p in parts]),
            np.concatenate([p.xy for p in parts]),
        )


@dataclass(frozen=True)
class Stays:
    """Spans of time in which clients are present; a client that comes and goes has several."""

    client: IntArray  # [k]
    comes_s: FloatArray  # [k]
    goes_s: FloatArray  # [k] inf where it does not leave


class Movement:
    """Base class of mobility models. Subclass and override `start` and, if clients move, `extend`."""

    still = True  # False: clients move between visits, and `extend` is called for their waypoints

    def start(self) -> FloatArray:
        """Positions [n,2] at time 0."""
        raise NotImplementedError

    def first_positions(self) -> FloatArray | None:
        """Positions [n,2] at which clients first appear; None if those at time 0."""
        return None

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """Waypoints after the last ones (t [m], xy [m,2]) of these clients: at least one for each client.

        Where several clients move together, waypoints of others may be included.
        """
        raise NotImplementedError

    def there(self, t: float) -> BoolArray | None:
        """Which clients [n] are present at time t; None if all are, always."""
        return None

    def stays(self) -> Stays | None:
        """When clients are present; None if all are, always."""
        return None

    def top_speed_mps(self) -> float:
        """Speed that no client ever exceeds; inf if there is no such limit, or none is known.

        With a limit clients are followed only where they may matter, so `extend` must give a client the same waypoints
        whenever it is called, and with whomever.
        """
        return np.inf

    def next_arrival_s(self, t: float) -> float:
        """Time after t at which the next absent client arrives; inf if none does."""
        return np.inf

    def after_visit(self, visit: int) -> FloatArray | None:
        """New positions [n,2] if all are redrawn after this visit, otherwise None. For still models only."""
        return None

    def constants(self) -> list[object]:
        """Attributes that never change and are large: a checkpoint does not copy them."""
        return []


def speed_limit_mps(movement: Movement) -> float:
    """Top speed of a model; inf if a subclass overrides `extend` without saying how fast its clients are."""
    makers = [next(c for c in type(movement).__mro__ if name in vars(c)) for name in ("top_speed_mps", "extend")]
    return movement.top_speed_mps() if issubclass(*makers) else np.inf


def somewhere(xy: FloatArray) -> BoolArray:
    """Which positions [m,2] are real ones, not those of absent clients."""
    found: BoolArray = xy[:, 0] > NOWHERE_X_M
    return found


def random_positions(terrain: Terrain, draw: Draw, ids: IntArray, counters: IntArray) -> FloatArray:
    """Positions [m,2], uniform over the largest open area."""
    size = np.array(terrain.size_m)
    return terrain.open_positions(
        len(ids), lambda rows, attempt: draw(ids[rows], counters[rows] * POSITION_TRIES + attempt, 2) * size
    )


def positions_near(
    terrain: Terrain, draw: Draw, ids: IntArray, counters: IntArray, centre: FloatArray, radius_m: float
) -> FloatArray:
    """Positions [m,2], uniform over the open part of the disc round each centre [m,2]."""

    def propose(rows: IntArray, attempt: int) -> FloatArray:
        uniform = draw(ids[rows], counters[rows] * POSITION_TRIES + attempt, 2)
        return centre[rows] + on_disc(uniform, radius_m)

    return terrain.open_positions(len(ids), propose)


def on_disc(uniform: FloatArray, radius_m: float) -> FloatArray:
    """Points [m,2] uniform over a disc about 0, from uniform numbers [m,2]."""
    radius, angle = radius_m * np.sqrt(uniform[:, 0]), 2 * np.pi * uniform[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def between(low_high: tuple[float, float], uniform: FloatArray) -> FloatArray:
    """Uniform numbers from [0,1), scaled to [low, high)."""
    low, high = low_high
    return low + (high - low) * uniform


def mean_slowness(speed_mps: tuple[float, float]) -> float:
    """E[1/v] of speeds uniform on [low, high]: ln(high/low) / (high − low)."""
    low, high = speed_mps
    return float(np.log(high / low) / (high - low)) if high > low else 1 / low


def speed_under_way(speed_mps: tuple[float, float], uniform: FloatArray) -> FloatArray:
    """Speeds of walkers observed at a random moment: density ∝ 1/v on [low, high], since slow legs last longer."""
    low, high = speed_mps
    return low * (high / low) ** uniform


def normals(uniform: FloatArray) -> FloatArray:
    """Independent standard normal numbers [m,2] from uniform ones [m,2] (Box–Muller)."""
    radius, angle = np.sqrt(-2 * np.log1p(-uniform[:, 0])), 2 * np.pi * uniform[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def headings(uniform: FloatArray) -> FloatArray:
    """Unit vectors [m,2] in random directions, from uniform numbers [m]."""
    return np.stack([np.cos(2 * np.pi * uniform), np.sin(2 * np.pi * uniform)], axis=1)


@dataclass(frozen=True)
class Routes:
    """Timed routes of several walkers: their corners and ends, without the starts."""

    walker: IntArray  # [k] which walker a point belongs to; a walker's points are in order
    seconds: FloatArray  # [k] since departure
    xy: FloatArray  # [k,2]
    duration: FloatArray  # [m] seconds of each complete route
    end: FloatArray  # [m,2]


def fastest_routes(terrain: Terrain, start: FloatArray, goal: FloatArray, speed_mps: FloatArray) -> Routes:
    """Fastest routes of walkers from start [m,2] to goal [m,2] at speeds [m]."""
    # Straight ones are handled all at once.
    straight = np.zeros(len(start), dtype=bool) if terrain.surfaces else terrain.clear(start, goal)
    bent = np.flatnonzero(~straight)
    rest = timed_routes(terrain, [terrain.route(start[i], goal[i]) for i in bent], speed_mps[bent])
    duration, end = np.hypot(*(goal - start).T) / speed_mps, goal.copy()
    duration[bent], end[bent] = rest.duration, rest.end
    return Routes(
        np.concatenate([np.flatnonzero(straight), bent[rest.walker]]),
        np.concatenate([duration[straight], rest.seconds]),
        np.concatenate([goal[straight], rest.xy]),
        duration,
        end,
    )


def timed_routes(terrain: Terrain, routes: list[FloatArray], speed_mps: FloatArray) -> Routes:
    """Walks along given routes, each [k,2] from its start, at speeds [m], slower or faster on the surfaces."""
    walks = [terrain.timed_route(route, speed) for route, speed in zip(routes, speed_mps, strict=True)]
    walker = np.repeat(np.arange(len(walks)), [len(positions) - 1 for _, positions in walks])
    return Routes(
        walker.astype(np.int64),
        np.concatenate([np.empty(0), *(seconds[1:] for seconds, _ in walks)]),
        np.concatenate([np.empty((0, 2)), *(positions[1:] for _, positions in walks)]),
        np.array([seconds[-1] for seconds, _ in walks]),
        np.array([positions[-1] for _, positions in walks]).reshape(-1, 2),
    )
