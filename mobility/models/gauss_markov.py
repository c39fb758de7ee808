"""Gauss–Markov: velocity with memory."""

from __future__ import annotations

import math

import numpy as np

from fedmule.mobility.models.bouncing import Bounds
from fedmule.mobility.models.movement import Draw, FloatArray, IntArray, Movement, Waypoints, normals, random_positions
from fedmule.mobility.terrain import Terrain


class GaussMarkov(Movement):
    """Walkers with v ← α v + σ √(1 − α²) w every `step_s`, with memory α and w standard normal.

    This is the model of Liang and Haas with mean velocity 0.
    Both components are N(0, σ²) at all times, with correlation αᵏ over k steps; the speed is Rayleigh distributed with
    mean σ √(π/2) = `speed_mps`. Walls and borders mirror move and velocity, which preserves all of this, and the
    uniform density.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        speed_mps: float,
        memory: float,
        step_s: float,
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._sigma = speed_mps * math.sqrt(2 / math.pi)
        self._memory = memory
        self._step_s = step_s
        self._bounds = Bounds(terrain)
        self._steps = np.zeros(count, dtype=np.int64)  # steps begun so far; numbers the draws
        self._velocity = np.zeros((count, 2))

    def start(self) -> FloatArray:
        """Uniform over the open ground."""
        return random_positions(self._terrain, self._draw, np.arange(len(self._steps)), 0 * self._steps)

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """One step at a constant velocity."""
        step = self._steps[client]
        self._steps[client] += 1
        memory = np.where(step > 0, self._memory, 0.0)[:, None]
        noise = self._sigma * normals(
            self._draw(client, -1 - step, 2)
        )  # negative counters: distinct from those of the positions
        velocity = memory * self._velocity[client] + np.sqrt(1 - memory**2) * noise
        speed = np.hypot(*velocity.T)
        bounced = self._bounds.go(xy, velocity * self._step_s, np.maximum(speed, 1e-12))
        self._velocity[client] = bounced.move / self._step_s
        walk = bounced.routes
        return Waypoints(client[walk.walker], t[walk.walker] + walk.seconds, walk.xy)
