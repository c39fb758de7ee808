"""Shortest routes round walls: A* over the visibility graph of their corners."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.clearance import grown, shrunk

if TYPE_CHECKING:
    from fedmule.mobility.trapezoids import Trapezoids

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Router:
    """Shortest routes for a point that keeps `clearance_m` from the walls.

    The corners of a route lie `clearance_m` off the walls and no leg comes closer than half of that, so routes are
    some centimetres longer than the ideal ones and rounding never leads into a wall.
    """

    def __init__(self, walls: Sequence[shapely.Polygon], ground: shapely.Polygon, clearance_m: float) -> None:
        self.clearance_m = clearance_m
        parts = grown(walls, clearance_m)
        self.inflated = shapely.MultiPolygon(parts.tolist())
        # Inflated and shrunk back halfway: gaps that the inflation closes stay closed.
        self.core = shapely.MultiPolygon(shrunk(parts, clearance_m / 2).tolist())
        shapely.prepare(self.core)
        low_x, low_y, high_x, high_y = ground.bounds
        self._ground = np.array([[low_x, low_y], [high_x, low_y], [high_x, high_y], [low_x, high_y]])
        x, y = corners = _convex_corners(parts).T
        inside = (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)
        free = ~shapely.intersects_xy(self.core, x, y)
        self.corners: FloatArray = np.ascontiguousarray(corners.T[inside & free])

    def clear(self, start: FloatArray, end: FloatArray) -> BoolArray:
        """Whether each straight line from start [m,2] to end [m,2] keeps off the walls."""
        if self.core.is_empty:
            return np.ones(len(start), dtype=bool)
        lines = shapely.linestrings(np.stack([start, end], axis=1))
        return ~np.asarray(shapely.intersects(self.core, lines))

    def route(self, start: FloatArray, goal: FloatArray) -> FloatArray:
        """Shortest route [k,2] between two positions in the same open area."""
        if self.clear(start[None], goal[None])[0]:
            return np.stack([start, goal])
        from fedmule.mobility.route_search import shortest  # slow to import, so only where needed

        positions = np.concatenate([self.corners, start[None], goal[None]])
        barred = np.empty((0, 2), dtype=np.int64)
        while True:
            passed = shortest(self._trapezoids, positions, barred, *self._room)[::-1]
            if not len(passed):
                raise ValueError(f"no route from {start} to {goal}")
            legs = np.stack([passed[:-1], passed[1:]], axis=1)
            blocked = ~self.clear(positions[legs[:, 0]], positions[legs[:, 1]])
            if not blocked.any():
                return np.asarray(positions[passed])
            barred = np.concatenate([barred, legs[blocked]])  # rounding: a leg that grazes a wall

    def trapezoids(self, points: FloatArray) -> Trapezoids:
        """The ground off the walls as trapezoids, with the positions [n,2] that are looked for on it."""
        from fedmule.mobility.trapezoids import trapezoids

        # On a grid of micrometres, so that no two corners of a wall are as near to each other as rounding.
        walls = shapely.get_parts(shapely.set_precision(shapely.get_parts(self.core), 1e-6))
        return trapezoids([wall for wall in walls if not wall.is_empty], points, self._ground)

    @cached_property
    def _trapezoids(self) -> Trapezoids:
        return self.trapezoids(self.corners)

    @cached_property
    def _room(self) -> tuple[FloatArray, IntArray]:
        """Arrays for the search to work in."""
        size = max(len(self.corners), len(self._trapezoids.x)) + 2
        return np.empty((4, size)), np.empty((6, size), dtype=np.int64)


def _convex_corners(polygons: NDArray[np.object_]) -> FloatArray:
    """Corners [k,2] of polygons at which a shortest route can bend: the convex ones."""
    points, ring = shapely.get_coordinates(shapely.get_rings(shapely.orient_polygons(polygons)), return_index=True)
    if not len(points):
        return np.empty((0, 2))
    # The last point of each ring is the first one again.
    last = np.append(np.flatnonzero(np.diff(ring)), len(ring) - 1)
    first = np.append(0, last[:-1] + 1)
    after = np.diff(points, axis=0, append=points[:1])
    before = np.roll(after, 1, axis=0)
    before[first] = after[last - 1]
    turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0] > 0
    turns[last] = False
    return np.asarray(points[turns])
