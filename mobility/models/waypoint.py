"""Random waypoint: walk to a random position, pause, repeat; starting in the steady state."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import (
    Draw,
    FloatArray,
    IntArray,
    Movement,
    Routes,
    Waypoints,
    between,
    fastest_routes,
    mean_slowness,
    positions_near,
    random_positions,
    speed_under_way,
)
from fedmule.mobility.terrain import Terrain


class Waypoint(Movement):
    """Clients that take the fastest route to a random position at a random speed, pause, and repeat.

    With `home_m` the goals of each are within that distance of a home of its own, a random position.

    They start in the steady state (Le Boudec and Vojnović; Navidi and Camp): at any time a leg is observed with
    probability proportional to its duration, the walk and the pause after it.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        speed_mps: tuple[float, float],
        pause_s: tuple[float, float],
        home_m: float | None,
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._speed_mps = speed_mps
        self._pause_s = pause_s
        self._home_m = home_m
        self._legs = np.zeros(count, dtype=np.int64)  # legs begun so far; numbers the draws
        self._home = np.empty((count, 2))
        # Remainder of the first leg: its goal, speed and pause.
        self._goal = np.empty((count, 2))
        self._speed, self._pause = np.empty(count), np.empty(count)

    def start(self) -> FloatArray:
        """Positions in the steady state, by rejection.

        A leg of unit-speed duration D and pause P is kept with probability ∝ D·E[1/v] + P. The largest such value is
        known on open ground; with obstacles it is the largest seen so far, and legs kept before a larger one was seen
        are tested again.
        """
        n = len(self._legs)
        if self._home_m is not None:
            self._home = self._anywhere(2 * n + np.arange(n), np.zeros(n, dtype=np.int64))
        slowness = mean_slowness(self._speed_mps)
        most = float(np.hypot(*self._terrain.size_m)) * slowness + self._pause_s[1]
        taken, chance = np.zeros(n), np.full(n, np.inf)
        positions = np.empty((n, 2))
        attempt = 0
        while (left := np.flatnonzero(chance * most > taken)).size:
            uniform = self._draw(n + left, np.full(len(left), -1 - attempt), 5)  # ids distinct from those of the legs
            origin, goal = (self._goals(left, n + left, np.full(len(left), 2 * attempt + end)) for end in (0, 1))
            walk = self._routes(origin, goal, np.ones(len(left)))
            pause = between(self._pause_s, uniform[:, 1])
            chance[left], taken[left] = uniform[:, 0], walk.duration * slowness + pause
            most = max(most, float(taken[left].max()))
            walking = uniform[:, 2] * taken[left] < walk.duration * slowness
            passed = np.where(walking, uniform[:, 3], 1.0)  # fraction of the walk that is over
            positions[left] = _along(walk, origin, passed)
            self._goal[left] = np.where(walking[:, None], walk.end, positions[left])
            self._speed[left] = speed_under_way(self._speed_mps, uniform[:, 4])
            self._pause[left] = np.where(walking, pause, pause * uniform[:, 3])
            attempt += 1
        return positions

    def top_speed_mps(self) -> float:
        """Top speed on the fastest surface."""
        return self._speed_mps[1] * self._terrain.highest_factor

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """The next walk and pause."""
        leg = self._legs[client]
        self._legs[client] += 1
        goal, speed, pause = self._goal[client], self._speed[client], self._pause[client]
        later = leg > 0
        goal[later] = self._goals(client[later], client[later], leg[later])
        uniform = self._draw(client, -leg, 2)  # negative counters: distinct from those of the positions
        speed = np.where(later, between(self._speed_mps, uniform[:, 0]), speed)
        pause = np.where(later, between(self._pause_s, uniform[:, 1]), pause)
        walk = self._routes(xy, goal, speed)
        return Waypoints.join(
            [
                Waypoints(client[walk.walker], t[walk.walker] + walk.seconds, walk.xy),
                Waypoints(client, t + walk.duration + pause, walk.end),
            ]
        )

    def _goals(self, client: IntArray, ids: IntArray, counters: IntArray) -> FloatArray:
        """Random goals [m,2] of these clients [m]; ids and counters [m] number the draws."""
        if self._home_m is None:
            return self._anywhere(ids, counters)
        return self._near(self._home[client], self._home_m, ids, counters)

    def _anywhere(self, ids: IntArray, counters: IntArray) -> FloatArray:
        """Random positions [m,2]."""
        return random_positions(self._terrain, self._draw, ids, counters)

    def _near(self, centre: FloatArray, radius_m: float, ids: IntArray, counters: IntArray) -> FloatArray:
        """Random positions [m,2] at most this far from centres [m,2]."""
        return positions_near(self._terrain, self._draw, ids, counters, centre, radius_m)

    def _routes(self, start: FloatArray, goal: FloatArray, speed_mps: FloatArray) -> Routes:
        """Timed routes to the goals."""
        return fastest_routes(self._terrain, start, goal, speed_mps)


def _along(walk: Routes, start: FloatArray, fraction: FloatArray) -> FloatArray:
    """Positions [m,2] of walkers when a fraction [m] of the duration of their walks is over."""
    order = np.argsort(walk.walker, kind="stable")
    walker, seconds, xy = walk.walker[order], walk.seconds[order], walk.xy[order]
    now = fraction * walk.duration
    ahead = np.flatnonzero(seconds >= now[walker])
    point = ahead[np.unique(walker[ahead], return_index=True)[1]]  # the next point of each walker
    is_first = point == np.searchsorted(walker, np.arange(len(start)))
    before_s = np.where(is_first, 0.0, seconds[point - 1])
    before = np.where(is_first[:, None], start, xy[point - 1])
    span = seconds[point] - before_s
    part = np.where(span > 0, (now - before_s) / np.where(span > 0, span, 1.0), 0.0)
    return before + part[:, None] * (xy[point] - before)
