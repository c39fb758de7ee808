"""A steady current in the plane that has no sources and flows along every shore."""

from __future__ import annotations

import numpy as np
import shapely

from mobility.movement import FloatArray
from mobility.terrain import Terrain

SHORE = 0.5  # of an eddy's radius: how far out the shore slows the current
GRID = 200  # points a side, to find the strongest current


class Current:
    """u = (∂ψ/∂y, −∂ψ/∂x) for ψ = R(d) · Σ s exp(−r²/2a²): eddies of radius a and sense s = ±1.

    R rises from 0 at the shore to 1 at distance SHORE·a, so no water crosses the shore of the largest open area. ψ is
    scaled so that the strongest current is `speed_mps`.
    """

    def __init__(
        self, terrain: Terrain, centres: FloatArray, senses: FloatArray, radius_m: float, speed_mps: float
    ) -> None:
        self._centres, self._senses, self._radius_m = centres, senses, radius_m
        rings = terrain.areas[0].boundary
        self._edges = np.concatenate(
            [np.stack([xy[:-1], xy[1:]], axis=1) for xy in map(shapely.get_coordinates, shapely.get_parts(rings))]
        )
        self._tree = shapely.STRtree(np.asarray(shapely.linestrings(self._edges)))
        self._scale = 1.0
        some = (np.stack(np.meshgrid(*[np.arange(GRID)] * 2), axis=-1).reshape(-1, 2) + 0.5) / GRID * terrain.size_m
        near = np.concatenate(
            [some, *(centres + radius_m * np.array(way) for way in ((1, 0), (0, 1), (-1, 0), (0, -1)))]
        )
        water = near[terrain.area_of(near) == 0]
        strongest = np.hypot(*self.velocity(water).T).max(initial=0.0) if len(water) else 0.0
        self._scale = speed_mps / strongest if strongest > 0 else 0.0

    def stream(self, xy: FloatArray) -> FloatArray:
        """ψ [m] at places [m,2], m²/s: it stays the same for whoever drifts."""
        return self._scale * self._ramp(xy)[0] * self._eddies(xy)[0]

    def velocity(self, xy: FloatArray) -> FloatArray:
        """u [m,2] at places [m,2], m/s."""
        (ramp, ramp_slope), (eddies, eddies_slope) = self._ramp(xy), self._eddies(xy)
        slope = self._scale * (ramp[:, None] * eddies_slope + eddies[:, None] * ramp_slope)
        return np.stack([slope[:, 1], -slope[:, 0]], axis=1)

    def drifted(self, xy: FloatArray, seconds: float) -> FloatArray:
        """Where places [m,2] drift to in a short time (Runge and Kutta, fourth order)."""
        a = self.velocity(xy)
        b = self.velocity(xy + seconds / 2 * a)
        c = self.velocity(xy + seconds / 2 * b)
        d = self.velocity(xy + seconds * c)
        return xy + seconds / 6 * (a + 2 * b + 2 * c + d)

    def _eddies(self, xy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ s exp(−r²/2a²) [m] and its gradient [m,2]."""
        gap = xy[:, None] - self._centres
        each = self._senses * np.exp(-(gap**2).sum(axis=2) / (2 * self._radius_m**2))
        return each.sum(axis=1), -(each[:, :, None] * gap).sum(axis=1) / self._radius_m**2

    def _ramp(self, xy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """R = s²(3 − 2s) for s = d / (SHORE·a) up to 1 [m], and its gradient [m,2]."""
        wide = SHORE * self._radius_m
        ramp, slope = np.ones(len(xy)), np.zeros((len(xy), 2))
        row, edge = self._tree.query_nearest(shapely.points(xy), max_distance=wide, all_matches=False)
        start, way = self._edges[edge, 0], self._edges[edge, 1] - self._edges[edge, 0]
        share = np.clip(((xy[row] - start) * way).sum(axis=1) / (way * way).sum(axis=1), 0.0, 1.0)
        gap = xy[row] - start - share[:, None] * way
        distance = np.hypot(*gap.T)
        s = np.minimum(distance / wide, 1.0)
        ramp[row] = s**2 * (3 - 2 * s)
        away = gap / np.where(distance > 0, distance, 1.0)[:, None]
        slope[row] = (6 * s * (1 - s) / wide)[:, None] * away
        return ramp, slope
