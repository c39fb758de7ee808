"""Random walk: a straight step, then another in a new direction at a new speed."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.bouncing import Bounds
from fedmule.mobility.models.movement import (
    Draw,
    FloatArray,
    IntArray,
    Movement,
    Waypoints,
    between,
    headings,
    random_positions,
    speed_under_way,
)
from fedmule.mobility.terrain import Terrain


class RandomWalk(Movement):
    """Walkers that draw a new direction and speed every `step_s` seconds, or every `step_m` metres.

    They bounce off walls and borders, so they start and stay uniform over the open ground.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        speed_mps: tuple[float, float],
        step_s: float,
        step_m: float | None,
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._speed_mps = speed_mps
        self._step_s = step_s
        self._step_m = step_m
        self._bounds = Bounds(terrain)
        self._steps = np.zeros(count, dtype=np.int64)  # steps begun so far; numbers the draws

    def start(self) -> FloatArray:
        """Uniform over the open ground."""
        return random_positions(self._terrain, self._draw, np.arange(len(self._steps)), 0 * self._steps)

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """One step."""
        step = self._steps[client]
        self._steps[client] += 1
        uniform = self._draw(client, -1 - step, 3)  # negative counters: distinct from those of the positions
        speed = between(self._speed_mps, uniform[:, 1])
        if self._step_m is not None:
            speed = np.where(step > 0, speed, speed_under_way(self._speed_mps, uniform[:, 1]))
        length = speed * self._step_s if self._step_m is None else np.full(len(client), self._step_m)
        length = np.where(step > 0, length, length * uniform[:, 2])  # the first step has begun before time 0
        walk = self._bounds.go(xy, headings(uniform[:, 0]) * length[:, None], speed).routes
        return Waypoints(client[walk.walker], t[walk.walker] + walk.seconds, walk.xy)
