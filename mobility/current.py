"""A steady current in the plane that has no sources and flows along every shore."""

from __future__ import annotations

import math

import numpy as np
import shapely

from mobility.contacts import compiled
from mobility.movement import FloatArray, IntArray
from mobility.terrain import Terrain

SHORE = 0.5  # of an eddy's radius: how far out the shore slows the current
GRID = 100  # points a side, to find the strongest current


class Current:
    """u = (∂ψ/∂y, −∂ψ/∂x) for ψ = R · Σ s exp(−r²/2a²): eddies of radius a that turn left (s = 1) or right (−1).

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
        """R [m] and its gradient [m,2]."""
        ramp, slope = ramps(xy, self._edges, self._until, SHORE * self._radius_m)
        return ramp, slope


def _shores(terrain: Terrain) -> tuple[FloatArray, IntArray]:
    """Edges [e,2,2] of the four borders and of every piece of land in turn, and where each of them ends [k]."""
    ground = shapely.box(0.0, 0.0, *terrain.size_m)
    land = shapely.get_parts(ground.difference(terrain.areas[0]))
    rings = [shapely.get_coordinates(ground)[[i, i + 1]] for i in range(4)]
    shores = [[ring] for ring in rings] + [
        [shapely.get_coordinates(ring) for ring in (piece.exterior, *piece.interiors)]
        for piece in land
        if isinstance(piece, shapely.Polygon)
    ]
    edges = [[np.stack([xy[:-1], xy[1:]], axis=1) for xy in shore] for shore in shores]
    whole = [np.concatenate(parts) for parts in edges]
    return np.concatenate(whole), np.cumsum([len(part) for part in whole])


@compiled
def ramps(xy: FloatArray, edges: FloatArray, until: IntArray, wide_m: float) -> tuple[FloatArray, FloatArray]:
    """Π s²(3 − 2s) [m] over all shores, with s = distance / wide_m up to 1, and its gradient [m,2]."""
    ramp, slope = np.ones(len(xy)), np.zeros((len(xy), 2))
    for i in range(len(xy)):
        first = 0
        for last in until:
            least, gap_x, gap_y = np.inf, 0.0, 0.0
            for k in range(first, last):
                x, y = edges[k, 0, 0], edges[k, 0, 1]
                way_x, way_y = edges[k, 1, 0] - x, edges[k, 1, 1] - y
                share = ((xy[i, 0] - x) * way_x + (xy[i, 1] - y) * way_y) / (way_x * way_x + way_y * way_y)
                share = min(max(share, 0.0), 1.0)
                x, y = xy[i, 0] - x - share * way_x, xy[i, 1] - y - share * way_y
                if x * x + y * y < least:
                    least, gap_x, gap_y = x * x + y * y, x, y
            first = last
            distance = math.sqrt(least)
            if distance >= wide_m:
                continue
            s = distance / wide_m
            one, steep = s * s * (3 - 2 * s), 6 * (1 - s) / wide_m**2  # dR/dd = steep · d
            slope[i, 0] = slope[i, 0] * one + ramp[i] * steep * gap_x
            slope[i, 1] = slope[i, 1] * one + ramp[i] * steep * gap_y
            ramp[i] *= one
    return ramp, slope
