"""A steady, divergence-free current in the plane that flows along every shore."""

from __future__ import annotations

import numpy as np
import shapely

from fedmule.mobility.models.movement import FloatArray, IntArray
from fedmule.mobility.terrain import Terrain

SHORE = 0.5  # width of the zone in which a shore slows the current, in eddy radii
GRID = 100  # points per side of the grid on which the strongest current is found


class Current:
    """Current u = (∂ψ/∂y, −∂ψ/∂x) for ψ = R · Σ s exp(−r²/2a²): eddies of radius a, turning left (s = 1) or right (−1).

    R rises from 0 at every shore to 1 at distance SHORE·a from it, so no water crosses the shores of the largest open
    area. ψ is scaled so that the strongest current is `speed_mps`.
    """

    def __init__(
        self, terrain: Terrain, centres: FloatArray, senses: FloatArray, radius_m: float, speed_mps: float
    ) -> None:
        self._centres, self._senses, self._radius_m = centres, senses, radius_m
        self._edges, self._until = _shores(terrain)
        self._scale = 1.0
        some = (np.stack(np.meshgrid(*[np.arange(GRID)] * 2), axis=-1).reshape(-1, 2) + 0.5) / GRID * terrain.size_m
        near = np.concatenate(
            [some, *(centres + radius_m * np.array(side) for side in ((1, 0), (0, 1), (-1, 0), (0, -1)))]
        )
        water = near[terrain.area_of(near) == 0]
        strongest = np.hypot(*self.velocity(water).T).max(initial=0.0) if len(water) else 0.0
        self._scale = speed_mps / strongest if strongest > 0 else 0.0

    def stream(self, xy: FloatArray) -> FloatArray:
        """Stream function ψ [m] at positions [m,2], m²/s: constant along the path of whoever drifts."""
        return self._scale * self._ramp(xy)[0] * self._eddies(xy)[0]

    def velocity(self, xy: FloatArray) -> FloatArray:
        """Velocities u [m,2] at positions [m,2], m/s."""
        (ramp, ramp_slope), (eddies, eddies_slope) = self._ramp(xy), self._eddies(xy)
        slope = self._scale * (ramp[:, None] * eddies_slope + eddies[:, None] * ramp_slope)
        return np.stack([slope[:, 1], -slope[:, 0]], axis=1)

    def drifted(self, xy: FloatArray, seconds: float) -> FloatArray:
        """Positions [m,2] after drifting for a short time (fourth-order Runge–Kutta)."""
        a = self.velocity(xy)
        b = self.velocity(xy + seconds / 2 * a)
        c = self.velocity(xy + seconds / 2 * b)
        d = self.velocity(xy + seconds * c)
        return xy + seconds / 6 * (a + 2 * b + 2 * c + d)

    def _eddies(self, xy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sum Σ s exp(−r²/2a²) [m] and its gradient [m,2]."""
        gap = xy[:, None] - self._centres
        each = self._senses * np.exp(-(gap**2).sum(axis=2) / (2 * self._radius_m**2))
        return each.sum(axis=1), -(each[:, :, None] * gap).sum(axis=1) / self._radius_m**2

    def _ramp(self, xy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ramp R [m] and its gradient [m,2]."""
        from fedmule.mobility.models.shores import ramps  # compiled, so only where it is needed

        ramp, slope = ramps(xy, self._edges, self._until, SHORE * self._radius_m)
        return ramp, slope


def _shores(terrain: Terrain) -> tuple[FloatArray, IntArray]:
    """Edges [e,2,2] of the four borders and of every piece of land, and the index at which each shore ends [k]."""
    ground = shapely.box(0.0, 0.0, *terrain.size_m)
    land = shapely.get_parts(ground.difference(terrain.areas[0]))
    rings = [shapely.get_coordinates(ground)[[i, i + 1]] for i in range(4)]
    shores = [[ring] for ring in rings] + [
        [shapely.get_coordinates(ring) for ring in (piece.exterior, *piece.interiors)]
        for piece in land
        if isinstance(piece, shapely.Polygon)
    ]
    edges = [[np.stack([xy[:-1], xy[1:]], axis=1) for xy in shore] for shore in shores]
    joined = [np.concatenate(parts) for parts in edges]
    return np.concatenate(joined), np.cumsum([len(shore) for shore in joined])
