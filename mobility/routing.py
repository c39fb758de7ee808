"""Shortest routes round walls: A* over the visibility graph of their corners."""

from __future__ import annotations

import heapq

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Router:
    """Shortest routes for a point that keeps `clearance_m` from the walls.

    The corners of a route lie `clearance_m` off the walls and no leg comes closer than half of that, so routes are
    some centimetres longer than the ideal ones and rounding never leads into a wall.
    """

    def __init__(self, walls: BaseGeometry, ground: shapely.Polygon, clearance_m: float) -> None:
        self.clearance_m = clearance_m
        self.inflated = inflated = walls.buffer(clearance_m, join_style="mitre")
        # Inflated and shrunk back halfway: gaps that the inflation closes stay closed.
        self.core = inflated.buffer(-clearance_m / 2, join_style="mitre")
        shapely.prepare(self.core)
        corners = _convex_corners(inflated)
        inside = shapely.intersects_xy(ground, corners[:, 0], corners[:, 1])
        free = ~shapely.intersects_xy(self.core, corners[:, 0], corners[:, 1])
        self.corners: FloatArray = corners[inside & free]
        self._seen: dict[int, tuple[IntArray, FloatArray]] = {}

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
        count = len(self.corners)
        to_goal = np.hypot(*(self.corners - goal).T)
        sees_goal = self.clear(self.corners, np.broadcast_to(goal, (count, 2)))
        best = np.full(count + 1, np.inf)  # the goal is node `count`
        came_from = np.full(count + 1, -1)
        first, lengths = self._visible(start)
        best[first] = lengths
        queue = [(best[v] + to_goal[v], int(v)) for v in first]
        heapq.heapify(queue)
        done = np.zeros(count + 1, dtype=bool)
        while queue:
            _, node = heapq.heappop(queue)
            if node == count:
                return self._trace(came_from, start, goal)
            if done[node]:
                continue
            done[node] = True
            if sees_goal[node] and best[node] + to_goal[node] < best[count]:
                best[count] = best[node] + to_goal[node]
                came_from[count] = node
                heapq.heappush(queue, (best[count], count))
            following, lengths = self._visible_from_corner(node)
            total = best[node] + lengths
            for v, length in zip(following[total < best[following]], total[total < best[following]], strict=True):
                best[v] = length
                came_from[v] = node
                heapq.heappush(queue, (length + to_goal[v], int(v)))
        raise ValueError(f"no route from {start} to {goal}")

    def _visible(self, position: FloatArray) -> tuple[IntArray, FloatArray]:
        seen = np.flatnonzero(self.clear(np.broadcast_to(position, self.corners.shape), self.corners))
        return seen, np.hypot(*(self.corners[seen] - position).T)

    def _visible_from_corner(self, node: int) -> tuple[IntArray, FloatArray]:
        if node not in self._seen:
            self._seen[node] = self._visible(self.corners[node])
        return self._seen[node]

    def _trace(self, came_from: IntArray, start: FloatArray, goal: FloatArray) -> FloatArray:
        nodes = []
        node = int(came_from[len(self.corners)])
        while node >= 0:
            nodes.append(node)
            node = int(came_from[node])
        return np.concatenate([start[None], self.corners[nodes[::-1]], goal[None]])


def _convex_corners(geometry: BaseGeometry) -> FloatArray:
    """Corners [k,2] of polygons at which a shortest route can bend: the convex ones."""
    found = [np.empty((0, 2))]
    for polygon in shapely.get_parts(shapely.orient_polygons(geometry)):
        if not isinstance(polygon, shapely.Polygon):
            continue
        for ring in [polygon.exterior, *polygon.interiors]:
            points = shapely.get_coordinates(ring)[:-1]
            before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
            found.append(points[before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0] > 0])
    return np.concatenate(found)
