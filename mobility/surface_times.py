"""Times of straight legs across surfaces, compiled.

Seconds are those at 1 m/s on plain ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ON_EDGE_M = 1e-9  # a position this near to the edge of a surface is off it
WITHIN = 1e-9  # share of an edge by which rounding may put a crossing beyond its end; a cut too many does no harm


class Outlines(NamedTuple):
    """Polygons as arrays; the edges of polygon p are rows first[p]:first[p+1]."""

    edges: FloatArray  # [e,4] x and y of both ends
    first: IntArray  # [p+1]
    boxes: FloatArray  # [p,4] lowest x and y, highest x and y
    factors: FloatArray  # [p] on the speed; the last polygon is on top


def outlines(polygons: Sequence[shapely.Polygon], factors: Sequence[float] | None = None) -> Outlines:
    """Return polygons, which may have holes, as arrays."""
    edges, first = [np.empty((0, 4))], [0]
    for polygon in polygons:
        rings = [shapely.get_coordinates(ring) for ring in (polygon.exterior, *polygon.interiors)]
        edges.extend(np.concatenate([ring[:-1], ring[1:]], axis=1) for ring in rings)
        first.append(first[-1] + sum(len(ring) - 1 for ring in rings))
    boxes = shapely.bounds(np.array(polygons, dtype=object)).reshape(-1, 4)
    used = np.ones(len(polygons)) if factors is None else np.array(factors, dtype=float)
    return Outlines(np.concatenate(edges), np.array(first, dtype=np.int64), np.ascontiguousarray(boxes), used)


@compiled
def speed_factor(surfaces: Outlines, x: float, y: float) -> float:
    """Speed factor of the topmost surface at a position."""
    for p in range(len(surfaces.factors) - 1, -1, -1):
        box = surfaces.boxes[p]
        if x < box[0] or y < box[1] or x > box[2] or y > box[3]:
            continue
        inside = False
        for e in range(surfaces.first[p], surfaces.first[p + 1]):
            ax, ay = surfaces.edges[e, 0], surfaces.edges[e, 1]
            bx, by = surfaces.edges[e, 2], surfaces.edges[e, 3]
            wide, high = bx - ax, by - ay
            cross = wide * (y - ay) - high * (x - ax)
            if abs(cross) <= ON_EDGE_M * (abs(wide) + abs(high)):
                along = wide * (x - ax) + high * (y - ay)
                if 0 <= along <= wide * wide + high * high:
                    inside = False
                    break
            if (ay > y) != (by > y) and (cross > 0) == (high > 0):
                inside = not inside
        if inside:
            return float(surfaces.factors[p])
    return 1.0


@compiled
def cut(surfaces: Outlines, ax: float, ay: float, bx: float, by: float, at: FloatArray, edge: IntArray) -> int:
    """Cut a leg where it crosses edges of surfaces: shares of the leg into `at`, ascending, and the edges crossed.

    Both need room for one entry more than there are edges. Returns the number of cuts, the end of the leg included.
    """
    wide, high = bx - ax, by - ay
    count = 0
    for p in range(len(surfaces.factors)):
        box = surfaces.boxes[p]
        if max(ax, bx) < box[0] or max(ay, by) < box[1] or min(ax, bx) > box[2] or min(ay, by) > box[3]:
            continue
        for e in range(surfaces.first[p], surfaces.first[p + 1]):
            cx, cy = surfaces.edges[e, 0], surfaces.edges[e, 1]
            dx, dy = surfaces.edges[e, 2], surfaces.edges[e, 3]
            det = wide * (dy - cy) - high * (dx - cx)
            if det == 0:
                continue
            share = ((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx)) / det
            on_edge = ((cx - ax) * high - (cy - ay) * wide) / det
            if not (0 < share < 1 and -WITHIN <= on_edge <= 1 + WITHIN):
                continue
            k = count
            while k > 0 and at[k - 1] > share:
                at[k], edge[k] = at[k - 1], edge[k - 1]
                k -= 1
            at[k], edge[k] = share, e
            count += 1
    at[count], edge[count] = 1.0, -1
    return count + 1


@compiled
def seconds_of_leg(
    surfaces: Outlines, ax: float, ay: float, bx: float, by: float, at: FloatArray, edge: IntArray
) -> float:
    """Seconds of a straight leg; `at` and `edge` are room to work in."""
    length = np.hypot(bx - ax, by - ay)
    total, before = 0.0, 0.0
    for k in range(cut(surfaces, ax, ay, bx, by, at, edge)):
        if (at[k] - before) * length > ON_EDGE_M or at[k] == 1.0:
            middle = (before + at[k]) / 2
            factor = speed_factor(surfaces, ax + middle * (bx - ax), ay + middle * (by - ay))
            total += (at[k] - before) * length / factor
            before = at[k]
    return total


@compiled
def split(surfaces: Outlines, route: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return a route with a point wherever the speed changes, the factor on each leg, and the edge at each point.

    The edge is -1 at the points of the route itself.
    """
    room = len(surfaces.edges) + 1
    at, edge = np.empty(room), np.empty(room, dtype=np.int64)
    most = len(route) * room
    points, factors, edges = np.empty((most, 2)), np.empty(most), np.empty(most, dtype=np.int64)
    points[0, 0], points[0, 1], edges[0], count = route[0, 0], route[0, 1], -1, 1
    for i in range(len(route) - 1):
        ax, ay, bx, by = route[i, 0], route[i, 1], route[i + 1, 0], route[i + 1, 1]
        length = np.hypot(bx - ax, by - ay)
        before, first = 0.0, True
        for k in range(cut(surfaces, ax, ay, bx, by, at, edge)):
            if (at[k] - before) * length <= ON_EDGE_M and at[k] < 1.0:
                continue
            middle = (before + at[k]) / 2
            factor = speed_factor(surfaces, ax + middle * (bx - ax), ay + middle * (by - ay))
            if not first and factor == factors[count - 2]:
                count -= 1  # the edge of a surface below another one: the leg goes on
            if at[k] < 1.0:
                points[count, 0], points[count, 1] = ax + at[k] * (bx - ax), ay + at[k] * (by - ay)
            else:
                points[count, 0], points[count, 1] = bx, by
            factors[count - 1], edges[count] = factor, edge[k]
            count += 1
            before, first = at[k], False
    return points[:count], factors[: count - 1], edges[:count]


@compiled
def seconds_between(surfaces: Outlines, start: FloatArray, end: FloatArray) -> FloatArray:
    """Seconds [m] of the straight legs from start [m,2] to end [m,2]."""
    room = len(surfaces.edges) + 1
    at, edge = np.empty(room), np.empty(room, dtype=np.int64)
    found = np.empty(len(start))
    for i in range(len(start)):
        found[i] = seconds_of_leg(surfaces, start[i, 0], start[i, 1], end[i, 0], end[i, 1], at, edge)
    return found
