"""Patrol: one route, walked again and again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedmule.mobility.models.movement import (
    Draw,
    FloatArray,
    IntArray,
    Movement,
    MovementError,
    Waypoints,
    between,
    timed_routes,
)
from fedmule.mobility.terrain import Terrain


class Patrol(Movement):
    """Clients that walk from point to point of one route and stop at each, round and round or back and forth.

    Between points they take the fastest route, each time at a new speed. They start evenly spread over the route.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        route: tuple[tuple[float, float], ...],
        turn_back: bool,
        speed_mps: tuple[float, float],
        pause_s: tuple[float, float],
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._speed_mps = speed_mps
        self._pause_s = pause_s
        points = _given(terrain, route) if route else _rectangle(terrain)
        order = [*range(len(points)), *range(len(points) - 2, -1, -1)] if turn_back else [*range(len(points)), 0]
        legs = [terrain.route(points[a], points[b]) for a, b in pairwise(order)]
        walk = timed_routes(terrain, legs, np.ones(len(legs)))
        # Corners of all legs in order, and when they are reached at 1 m/s; those of leg j are first[j]:first[j + 1].
        self._first = np.searchsorted(walk.walker, np.arange(len(legs) + 1))
        ends = np.cumsum(walk.duration)
        if ends[-1] <= 0:
            raise MovementError("must lead to more than one position", ".route")
        self._at = (ends - walk.duration)[walk.walker] + walk.seconds
        self._at[self._first[1:] - 1] = ends
        self._xy = walk.xy
        self._begin = points[0]
        self._passed = ends[-1] * np.arange(count) / count  # part of the round completed, in seconds at 1 m/s
        self._leg = np.searchsorted(ends, self._passed, side="right")
        self._legs = np.zeros(count, dtype=np.int64)  # legs begun so far; numbers the draws

    def start(self) -> FloatArray:
        """Evenly spread over the route."""
        at, xy = np.append(0.0, self._at), np.concatenate([self._begin[None], self._xy])
        return np.stack([np.interp(self._passed, at, xy[:, axis]) for axis in (0, 1)], axis=1)

    def top_speed_mps(self) -> float:
        """Top speed on the fastest surface."""
        return self._speed_mps[1] * self._terrain.highest_factor

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """The rest of the leg, and the pause at its end."""
        uniform = self._draw(client, self._legs[client], 2)
        self._legs[client] += 1
        speed, pause = between(self._speed_mps, uniform[:, 0]), between(self._pause_s, uniform[:, 1])
        leg, passed = self._leg[client], self._passed[client]
        last = self._first[leg + 1] - 1
        first = np.minimum(np.maximum(self._first[leg], np.searchsorted(self._at, passed, side="right")), last)
        count = last - first + 1
        who = np.repeat(np.arange(len(client)), count)
        row = np.arange(len(who)) - np.repeat(np.cumsum(count) - count, count) + first[who]
        corner_s = t[who] + (self._at[row] - passed[who]) / speed[who]
        arrive = t + (self._at[last] - passed) / speed
        self._leg[client] = (leg + 1) % (len(self._first) - 1)
        self._passed[client] = np.where(self._leg[client] == 0, 0.0, self._at[last])
        return Waypoints.join(
            [
                Waypoints(client[who], corner_s, self._xy[row]),
                Waypoints(client, arrive + pause, self._xy[last]),
            ]
        )


def _given(terrain: Terrain, route: tuple[tuple[float, float], ...]) -> FloatArray:
    points = np.array(route, dtype=float)
    area = terrain.area_of(points)
    for i in np.flatnonzero((area < 0) | (area != area[0])):
        why = "lies in an obstacle that stops movement" if area[i] < 0 else "cannot be reached from the first point"
        raise MovementError(f"{why}: {list(route[i])}", f".route[{i}]")
    return points


def _rectangle(terrain: Terrain) -> FloatArray:
    """Corners a quarter of the terrain's size from its borders, or the open positions nearest to them."""
    corners = np.array([(0.25, 0.25), (0.75, 0.25), (0.75, 0.75), (0.25, 0.75)]) * terrain.size_m
    off = terrain.area_of(corners) != 0
    return np.array([terrain.nearest_open(xy) if moved else xy for xy, moved in zip(corners, off, strict=True)])
