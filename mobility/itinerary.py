"""Routes that a vehicle drives by itself: along way-points, by a timetable, or as recorded in a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from fedmule.mobility.driving import Driving
from fedmule.mobility.models.movement import FloatArray, MovementError
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.traces.formats import read_trace
from fedmule.mobility.traces.trace import TraceError
from fedmule.mobility.trajectory import Way

ON_ROUTE_M = 1.0  # how near a stop must be to the route
SPEED_SLACK = 1 + 1e-9  # rounding must not make a timetable that just fits too fast

End = Literal["closed", "there_and_back", "once"]


@dataclass(frozen=True)
class Stop:
    """A place where a vehicle waits."""

    at: tuple[float, float]
    wait_s: float


@dataclass(frozen=True)
class Departure:
    """A place that a vehicle reaches at one time and leaves at another."""

    at: tuple[float, float]
    arrive_s: float
    depart_s: float


class Itinerary:
    """A way through positions at times, from time 0 on; then repeated, or the vehicle stays at its end."""

    def __init__(self, way: Way, period_s: float | None = None) -> None:
        self._way = way
        self._period_s = period_s

    @property
    def start(self) -> FloatArray:
        """Position [2] at time 0."""
        return self._way.at(0.0)

    def at(self, t: float) -> FloatArray:
        """Position [2] at time t."""
        return self._way.at(t if self._period_s is None else t % self._period_s)

    def part(self, start: float, end: float) -> Way:
        """The part between two times."""
        if self._period_s is None:
            return self._way.between(start, end)
        rounds = range(int(start // self._period_s), int(end // self._period_s) + 1)
        times = np.concatenate([self._way.times + number * self._period_s for number in rounds])
        return Way(times, np.tile(self._way.positions, (len(rounds), 1))).between(start, end)


def along_route(
    terrain: Terrain,
    speed_mps: float,
    points: Sequence[tuple[float, float]],
    end: End,
    stops: Sequence[Stop],
) -> Itinerary:
    """Drive straight from point to point at a speed, as surfaces allow, and wait at the stops on every pass."""
    line = np.array(points, dtype=float)
    if end == "closed" and (line[0] != line[-1]).any():
        line = np.concatenate([line, line[:1]])
    _check_open(terrain, line, ".points", closes=len(line) > len(points))
    line, waits = _with_stops(line, stops)
    if end == "there_and_back":
        line, waits = np.concatenate([line, line[-2::-1]]), np.concatenate([waits, waits[-2::-1]])
    if end != "once":
        waits[-1] = 0.0  # the first point again: it waits there at the beginning of the next round
    seconds, positions = [0.0], [line[0]]
    for k, (a, b) in enumerate(pairwise(line)):
        if waits[k]:
            seconds.append(seconds[-1] + waits[k])
            positions.append(a)
        spent, places = terrain.timed_route(np.stack([a, b]), speed_mps)
        seconds.extend(seconds[-1] + spent[1:])
        positions.extend(places[1:])
    way = Way(np.array(seconds), np.array(positions))
    return Itinerary(way, None if end == "once" else seconds[-1])


def by_timetable(
    terrain: Terrain,
    driving: Driving,
    speed_mps: float,
    stops: Sequence[Departure],
    period_s: float | None,
) -> Itinerary:
    """Drive from stop to stop round obstacles, as fast as needed to arrive in time, and wait there until departure."""
    places = np.array([stop.at for stop in stops])
    for i, area in enumerate(terrain.area_of(places).tolist()):
        if area < 0:
            raise MovementError("lies in an obstacle that stops movement, or off the terrain", f".stops[{i}].at")
    times, positions = [stops[0].arrive_s, stops[0].depart_s], [places[0], places[0]]
    hops = [(i, i + 1) for i in range(len(stops) - 1)]
    if period_s is not None:
        hops.append((len(stops) - 1, 0))
    for i, j in hops:
        leaves, arrives = stops[i].depart_s, stops[j].arrive_s + (period_s or 0.0) * (j <= i)
        seconds, route = driving.way(places[i], places[j])
        if np.hypot(*(route[-1] - places[j])) > ON_ROUTE_M:
            raise MovementError("cannot be reached from the stop before: obstacles stand between", f".stops[{j}].at")
        if seconds[-1] > (arrives - leaves) * SPEED_SLACK:
            needed = speed_mps * seconds[-1] / (arrives - leaves) if arrives > leaves else np.inf
            message = f"is too early: the way from the stop before would take {needed:.3g} m/s, not {speed_mps:g}"
            raise MovementError(message, ".period_s" if j <= i else f".stops[{j}].arrive_s")
        pace = (arrives - leaves) / seconds[-1] if seconds[-1] > 0 else 0.0
        times.extend([*(leaves + pace * seconds[1:-1]), arrives])
        positions.extend(route[1:])
        if j > i:
            times.append(stops[j].depart_s)
            positions.append(places[j])
    return Itinerary(_from_zero(np.array(times), np.array(positions), period_s), period_s)


def as_recorded(
    terrain: Terrain, path: str, node: str | None, shift_m: tuple[float, float], origin: tuple[float, float] | None
) -> Itinerary:
    """Drive as a node of a trace did; time 0 is when the trace begins. It stays where it was last seen."""
    trace = read_trace(path, origin or terrain.origin)
    if node is not None and node not in trace.names:
        some = ", ".join(trace.names[:5]) + (", …" if len(trace) > 5 else "")
        raise MovementError(f'{path} has no node "{node}"; it has {some}', ".node")
    number = 0 if node is None else trace.names.index(node)
    rows = slice(trace.first[number], trace.first[number + 1])
    times, positions = trace.t[rows] - trace.begin_s, np.stack([trace.x[rows], trace.y[rows]], axis=1) + shift_m
    known = ~np.isnan(positions[:, 0])
    if not known.any():
        raise TraceError(f"{path}: node {trace.names[number]} has no position")
    times, positions = times[known], positions[known]
    _check_open(terrain, positions, ".path", of=f"{path}: ")
    return Itinerary(Way(times, positions))


def _from_zero(times: FloatArray, positions: FloatArray, period_s: float | None) -> Way:
    """The way from time 0: where a repeated one is before its first stop is where its last round would be."""
    way = Way(times, positions)
    if period_s is None:
        return way
    earlier = Way(np.concatenate([times - period_s, times[1:]]), np.concatenate([positions, positions[1:]]))
    return earlier.between(0.0, period_s)


def _with_stops(line: FloatArray, stops: Sequence[Stop]) -> tuple[FloatArray, FloatArray]:
    """The line with a point at every stop, and how long to wait at each point."""
    waits = np.zeros(len(line))
    for i, stop in enumerate(stops):
        at = np.array(stop.at)
        leg, share, gap = _nearest(line, at)
        if gap > ON_ROUTE_M:
            raise MovementError(f"is {gap:.1f} m away from the route", f".stops[{i}].at")
        exact = np.flatnonzero(np.hypot(*(line - at).T) <= 1e-6)
        if exact.size:
            waits[exact] = stop.wait_s
            continue
        place = line[leg] + share * (line[leg + 1] - line[leg])
        line, waits = np.insert(line, leg + 1, place, axis=0), np.insert(waits, leg + 1, stop.wait_s)
    return line, waits


def _nearest(line: FloatArray, at: FloatArray) -> tuple[int, float, float]:
    """The leg of a line nearest to a position, the share of it that lies before, and the distance."""
    legs = np.diff(line, axis=0)
    lengths = np.maximum((legs**2).sum(axis=1), 1e-300)
    shares = np.clip(((at - line[:-1]) * legs).sum(axis=1) / lengths, 0.0, 1.0)
    gaps = np.hypot(*(line[:-1] + shares[:, None] * legs - at).T)
    leg = int(np.argmin(gaps))
    return leg, float(shares[leg]), float(gaps[leg])


def _check_open(terrain: Terrain, line: FloatArray, key: str, closes: bool = False, of: str = "") -> None:
    """Raise MovementError unless a line keeps off the walls and on the terrain."""
    outside = np.flatnonzero(terrain.area_of(line) < 0)
    if outside.size:
        x, y = line[outside[0]]
        raise MovementError(
            f"{of}point {outside[0]} at ({x:g}, {y:g}) lies in an obstacle that stops movement, or off the terrain", key
        )
    blocked = np.flatnonzero(~terrain.clear(line[:-1], line[1:]))
    if blocked.size:
        (ax, ay), (bx, by) = line[blocked[0]], line[blocked[0] + 1]
        back = ", where the route closes," if closes and blocked[0] == len(line) - 2 else ""
        message = f"{of}from ({ax:g}, {ay:g}) to ({bx:g}, {by:g}){back} leads through an obstacle that stops movement"
        raise MovementError(message, key)
