"""Drift: floats and sensors carried by underwater currents."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.bouncing import Bounds
from fedmule.mobility.models.current import Current
from fedmule.mobility.models.movement import Draw, FloatArray, IntArray, Movement, Waypoints, normals, random_positions
from fedmule.mobility.terrain import Terrain

STEP = 0.1  # how far the strongest current carries in one step, in eddy radii


class Drift(Movement):
    """Clients carried by eddies and dispersed by turbulence; a fraction of them is moored and stays put.

    dx = u dt + √(2K) dW with the steady current u and the diffusion K, m²/s. The current is free of divergence and
    crosses no shore, and clients that turbulence would carry ashore bounce back, so they start and stay uniform over
    the water.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        eddies: int,
        eddy_m: float,
        speed_mps: float,
        diffusion_m2ps: float,
        moored: float,
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        number = np.arange(eddies)
        uniform = draw(count + number, 0 * number, 2)  # ids distinct from the clients'
        self.current = Current(
            terrain, uniform * terrain.size_m, np.where(number % 2 == 0, 1.0, -1.0), eddy_m, speed_mps
        )
        self._step_s = STEP * eddy_m / speed_mps
        self._jitter_m = float(np.sqrt(2 * diffusion_m2ps * self._step_s))
        self._bounds = Bounds(terrain)
        client = np.arange(count)
        rank = draw(client, 0 * client - 1, 1)[:, 0]
        self.moored = np.argsort(np.argsort(rank, kind="stable")) < round(moored * count)  # [n]
        self._steps = np.zeros(count, dtype=np.int64)  # steps taken so far; numbers the draws

    def start(self) -> FloatArray:
        """Uniform over the water."""
        return random_positions(self._terrain, self._draw, np.arange(len(self._steps)), 0 * self._steps)

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """One step of drift; moored clients stay for good."""
        step = self._steps[client]
        self._steps[client] += 1
        afloat = ~self.moored[client]
        fixed, client, t, step = client[~afloat], client[afloat], t[afloat], step[afloat]
        move = self.current.drifted(xy[afloat], self._step_s) - xy[afloat]
        if self._jitter_m > 0:
            move += self._jitter_m * normals(self._draw(client, -2 - step, 2))
        metres = np.hypot(*move.T)
        walk = self._bounds.go(xy[afloat], move, np.maximum(metres, 1e-12) / self._step_s).routes
        return Waypoints.join(
            [
                Waypoints(fixed, np.full(len(fixed), np.inf), xy[~afloat]),
                Waypoints(client[walk.walker], t[walk.walker] + walk.seconds, walk.xy),
            ]
        )
