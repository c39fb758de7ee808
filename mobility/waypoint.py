"""Random waypoint: walk to a random place, pause, go on."""

from __future__ import annotations

import numpy as np

from mobility.movement import Draw, FloatArray, IntArray, Movement, Waypoints, between, random_places, ways
from mobility.terrain import Terrain


class Waypoint(Movement):
    """Each client walks the shortest way to a random place at a random speed, pauses, and so on."""

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        speed_mps: tuple[float, float] = (0.5, 1.5),
        pause_s: tuple[float, float] = (0.0, 60.0),
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._speed_mps = speed_mps
        self._pause_s = pause_s
        self._legs = np.zeros(count, dtype=np.int64)  # legs walked so far; numbers the draws

    def start(self) -> FloatArray:
        return random_places(self._terrain, self._draw, np.arange(len(self._legs)), 0 * self._legs)

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        self._legs[client] += 1
        leg = self._legs[client]
        goal = random_places(self._terrain, self._draw, client, leg)
        uniform = self._draw(client, -leg, 2)  # negative counters: apart from those of the places
        walk = ways(self._terrain, xy, goal, between(self._speed_mps, uniform[:, 0]))
        rest = t + walk.duration + between(self._pause_s, uniform[:, 1])
        return Waypoints.join(
            [
                Waypoints(client[walk.walker], t[walk.walker] + walk.seconds, walk.xy),
                Waypoints(client, rest, walk.end),
            ]
        )
