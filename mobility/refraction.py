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
def polish(
    ground: Ground, rails: FloatArray, points: FloatArray, on: IntArray, seconds: float
) -> tuple[FloatArray, float]:
    """Return a route with its bends and its crossings of edges where they are best, and its seconds.

    rails [r,4] are edges, with x and y of both ends, those of the surfaces last. A point of the route may move along
    one or two of them, `on` [k,2]; -1 for none.
    """
    room = len(ground.surfaces.edges) + 1
    at, edge = np.empty(room), np.empty(room, dtype=np.int64)
    points, on = _without_needless(ground, points, on, at, edge)
    for _ in range(PASSES):
        before = seconds
        points, slowness, on = _with_crossings(ground, rails, points, on)
        if len(points) == 2:
            break
        moved = refract(points, slowness, rails, on)
        total = 0.0
        for i in range(1, len(moved)):
            total += leg_s(ground, moved[i - 1], moved[i], at, edge)
        if total < seconds:
            points, seconds = moved, total
        seconds -= _move_singly(ground, rails, points, slowness, on, at, edge)
        if seconds > before * (1 - 100 * ENOUGH):
            break
    return points, seconds


@compiled
def _move_singly(
    ground: Ground,
    rails: FloatArray,
    points: FloatArray,
    slowness: FloatArray,
    on: IntArray,
    at: FloatArray,
    edge: IntArray,
) -> float:
    """Move each point to where it is best, unless the slowness of its legs would not be as assumed; return the gain."""
    gain = 0.0
    xy = np.empty(2)
    for i in range(1, len(points) - 1):
        for r in range(2):
            if on[i, r] < 0:
                continue
            x, y, _ = _best_on_rail(rails[on[i, r]], points[i - 1], slowness[i - 1], points[i + 1], slowness[i])
            share = 1.0
            while share > 0.2:
                xy[0], xy[1] = points[i, 0] + share * (x - points[i, 0]), points[i, 1] + share * (y - points[i, 1])
                saved = 0.0
                for k in range(4):
                    middle, end = points[i] if k < 2 else xy, points[i - 1 if k % 2 == 0 else i + 1]
                    leg = leg_s(ground, middle, end, at, edge)
                    saved += leg if k < 2 else -leg
                if saved > 0:
                    points[i, 0], points[i, 1], gain = xy[0], xy[1], gain + saved
                    break
                share /= 2
    return gain


@compiled
def _without_needless(
    ground: Ground, points: FloatArray, on: IntArray, at: FloatArray, edge: IntArray
) -> tuple[FloatArray, IntArray]:
    """The route without bends that save no time."""
    count = 1
    for i in range(1, len(points)):
        if i < len(points) - 1:
            legs = ((count - 1, i + 1), (count - 1, i), (i, i + 1))
            saved = 0.0
            for k in range(3):
                leg = leg_s(ground, points[legs[k][0]], points[legs[k][1]], at, edge)
                saved += leg if k == 0 else -leg * (1 + 1e-9)
            if saved <= 0:
                continue
        for k in range(2):
            points[count, k], on[count, k] = points[i, k], on[i, k]
        count += 1
    return points[:count], on[:count]


@compiled
def _with_crossings(
    ground: Ground, rails: FloatArray, points: FloatArray, on: IntArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The route with a point on every edge it crosses, the slowness of its legs, and the rails its points lie on."""
    every, factors, edges = split(ground.surfaces, points)
    found, slowness = np.empty((len(every), 2)), np.empty(len(factors))
    found_on = np.full((len(every), 2), -1)
    found[0, 0], found[0, 1] = points[0, 0], points[0, 1]
    count, bend, longest = 1, 0, 0.0  # `longest`: of the pieces of this leg that are joined
    for k in range(1, len(every)):
        metres = np.hypot(every[k, 0] - every[k - 1, 0], every[k, 1] - every[k - 1, 1])
        if metres >= longest:
            slowness[count - 1], longest = 1 / factors[k - 1], metres
        if edges[k] < 0:
            bend += 1
            found_on[count, 0], found_on[count, 1] = on[bend, 0], on[bend, 1]
        else:
            near = False
            for i in range(bend, bend + 2):
                if on[i, 0] >= 0 and np.hypot(every[k, 0] - points[i, 0], every[k, 1] - points[i, 1]) <= SAME_M:
                    near = True
            if near:
                continue
            found_on[count, 0] = len(rails) - len(ground.surfaces.edges) + edges[k]
        found[count, 0], found[count, 1] = every[k, 0], every[k, 1]
        count, longest = count + 1, 0.0
    return found[:count], slowness[: count - 1], found_on[:count]


@compiled
def refract(points: FloatArray, slowness: FloatArray, rails: FloatArray, on: IntArray) -> FloatArray:
    """Return the points [k,2] of the fastest route with bends on the same rails.

    slowness [k-1] is that of each leg, s/m, wherever its ends move. The time is convex in the positions on the rails,
    so moving one point at a time leads to its minimum, which obeys Snell's law.
    """
    moved = np.empty((len(points), 2))
    for i in range(len(points)):
        moved[i, 0], moved[i, 1] = points[i, 0], points[i, 1]
    total = np.inf
    for _ in range(SWEEPS):
        before, total = total, 0.0
        for i in range(1, len(moved) - 1):
            least = np.inf
            for r in range(2):
                if on[i, r] < 0:
                    continue
                x, y, seconds = _best_on_rail(rails[on[i, r]], moved[i - 1], slowness[i - 1], moved[i + 1], slowness[i])
                if seconds < least:
                    least, best_x, best_y = seconds, x, y
            if least < np.inf:
                moved[i, 0], moved[i, 1] = best_x, best_y
        for i in range(len(slowness)):
            total += slowness[i] * np.hypot(moved[i + 1, 0] - moved[i, 0], moved[i + 1, 1] - moved[i, 1])
        if total >= before * (1 - ENOUGH):
            break
    return moved


@compiled
def _best_on_rail(
    rail: FloatArray, p: FloatArray, slow_p: float, q: FloatArray, slow_q: float
) -> tuple[float, float, float]:
    """Position on a rail with the least time from p and on to q, and that time."""
    ax, ay, bx, by = rail[0], rail[1], rail[2], rail[3]
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
