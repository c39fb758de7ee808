"""Refraction: bends of a route moved along the edges they lie on until it is fastest, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled
from fedmule.mobility.surface_times import split
from fedmule.mobility.way_search import Ground, leg_s

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SWEEPS = 40
HALVINGS = 24
ENOUGH = 1e-6  # stop once a sweep saves a smaller share of the time
PASSES = 3  # a route that has moved may cross other edges
SAME_M = 0.1  # a crossing this near to a bend is that of the bend, which lies a little on the fast side of the edge


@compiled
def polish(ground: Ground, points: FloatArray, rails: FloatArray, seconds: float) -> tuple[FloatArray, float]:
    """Return a route with its bends and its crossings of edges where they are best, and its seconds.

    rails [k,2,4] are the edges along which its points may move; see `refract`.
    """
    room = len(ground.surfaces.edges) + 1
    at, edge = np.empty(room), np.empty(room, dtype=np.int64)
    points, rails = _without_needless(ground, points, rails, at, edge)
    for _ in range(PASSES):
        before = seconds
        points, slowness, rails = _with_crossings(ground, points, rails)
        if len(points) == 2:
            break
        moved, whole = refract(points, slowness, rails), 1.0
        while whole > 0.1:  # what was assumed of the legs may not hold that far away
            tried = points + whole * (moved - points)
            total = 0.0
            for i in range(len(tried) - 1):
                total += leg_s(ground, tried[i], tried[i + 1], at, edge)
            if total < seconds:
                points, seconds = tried, total
                break
            whole /= 2
        if seconds > before * (1 - 100 * ENOUGH):
            break
    return points, seconds


@compiled
def _without_needless(
    ground: Ground, points: FloatArray, rails: FloatArray, at: FloatArray, edge: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The route without bends that save no time."""
    keep = np.ones(len(points), dtype=np.bool_)
    last = 0
    for i in range(1, len(points) - 1):
        via = leg_s(ground, points[last], points[i], at, edge) + leg_s(ground, points[i], points[i + 1], at, edge)
        keep[i] = leg_s(ground, points[last], points[i + 1], at, edge) > via * (1 + 1e-9)
        last = i if keep[i] else last
    return points[keep], rails[keep]


@compiled
def _with_crossings(
    ground: Ground, points: FloatArray, rails: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The route with a point on every edge it crosses, the slowness of its legs, and the edges its points lie on."""
    every, factors, edges = split(ground.surfaces, points)
    found, slowness, on = every.copy(), np.empty(len(factors)), np.full((len(every), 2, 4), np.nan)
    on[0] = rails[0]
    count, bend, longest = 1, 0, 0.0  # `longest`: of the pieces of this leg that are joined
    for k in range(1, len(every)):
        metres = np.hypot(every[k, 0] - every[k - 1, 0], every[k, 1] - every[k - 1, 1])
        if metres >= longest:
            slowness[count - 1], longest = 1 / factors[k - 1], metres
        if edges[k] < 0:
            bend += 1
            on[count] = rails[bend]
        else:
            near = _near_bend(every[k], points, bend, rails) or _near_bend(every[k], points, bend + 1, rails)
            if near:
                continue
            on[count, 0], on[count, 1] = ground.surfaces.edges[edges[k]], np.nan
        found[count], count, longest = every[k], count + 1, 0.0
    return found[:count], slowness[: count - 1], on[:count]


@compiled
def _near_bend(xy: FloatArray, points: FloatArray, bend: int, rails: FloatArray) -> bool:
    if np.isnan(rails[bend, 0, 0]):
        return False
    return np.hypot(xy[0] - points[bend, 0], xy[1] - points[bend, 1]) <= SAME_M


@compiled
def refract(points: FloatArray, slowness: FloatArray, rails: FloatArray) -> FloatArray:
    """Return the points [k,2] of the fastest route with bends on the same edges.

    slowness [k-1] is that of each leg, s/m, wherever its ends move. rails [k,2,4] are one or two edges, with x and y of
    both ends, along which a point may move; NaN if none. The time is convex in the positions on the edges, so moving
    one point at a time leads to its minimum, which obeys Snell's law.
    """
    points = points.copy()
    total = np.inf
    for _ in range(SWEEPS):
        before, total = total, 0.0
        for i in range(1, len(points) - 1):
            least = np.inf
            x, y = points[i]
            for r in range(2):
                ax, ay, bx, by = rails[i, r]
                if np.isnan(ax):
                    continue
                u, v, seconds = _best_on_rail(ax, ay, bx, by, points[i - 1], slowness[i - 1], points[i + 1], slowness[i])
                if seconds < least:
                    least, x, y = seconds, u, v
            points[i, 0], points[i, 1] = x, y
        for i in range(len(slowness)):
            total += slowness[i] * np.hypot(points[i + 1, 0] - points[i, 0], points[i + 1, 1] - points[i, 1])
        if total >= before * (1 - ENOUGH):
            break
    return points


@compiled
def _best_on_rail(
    ax: float, ay: float, bx: float, by: float, p: FloatArray, slow_p: float, q: FloatArray, slow_q: float
) -> tuple[float, float, float]:
    """Position on the edge from a to b with the least time from p and on to q, and that time."""
    length = np.hypot(bx - ax, by - ay)
    ux, uy = (bx - ax) / length, (by - ay) / length
    along_p, off_p = (p[0] - ax) * ux + (p[1] - ay) * uy, (p[1] - ay) * ux - (p[0] - ax) * uy
    along_q, off_q = (q[0] - ax) * ux + (q[1] - ay) * uy, (q[1] - ay) * ux - (q[0] - ax) * uy
    low, high = min(max(min(along_p, along_q), 0.0), length), min(max(max(along_p, along_q), 0.0), length)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        to_p, to_q = np.hypot(middle - along_p, off_p), np.hypot(middle - along_q, off_q)
        rises = 0.0  # derivative of the time
        if to_p > 0:
            rises += slow_p * (middle - along_p) / to_p
        if to_q > 0:
            rises += slow_q * (middle - along_q) / to_q
        if rises > 0:
            high = middle
        else:
            low = middle
    at = (low + high) / 2
    seconds = slow_p * np.hypot(at - along_p, off_p) + slow_q * np.hypot(at - along_q, off_q)
    return ax + at * ux, ay + at * uy, seconds
