"""The open ground as trapezoids, in compiled loops: who lies where, and what a position sees.

A line sweeps from west to east and stops at every corner of a wall. Between two stops the open ground falls into
trapezoids with a piece of a wall above and one below; neighbours share gaps in their vertical sides, and every line of
sight leads through such gaps only. All of it happens on ground that is sheared, x + SHEAR·y, so that hardly ever is a
wall vertical or do two corners lie one above the other; straight lines stay straight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled, inner

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SHEAR = 0.3819660112501051  # irrational: no direction that maps are drawn in becomes vertical
SLABS = 1024  # strips in which trapezoids are looked up


class Trapezoids(NamedTuple):
    """Trapezoids, sheared; sides are 0 for west and 1 for east."""

    x: FloatArray  # [t,2] of their sides
    walls: FloatArray  # [t,2,4] ends of the walls below and above
    beside: IntArray  # [t,2,2] the neighbours on each side, the lower one first; -1 for none
    gaps: FloatArray  # [t,2,2,2] from where to where they share a side
    points: FloatArray  # [n,2] the positions that are looked for
    at: IntArray  # [n] the trapezoid of each position; -1 inside a wall
    first: IntArray  # [t+1] the positions in trapezoid i are inside[first[i]:first[i+1]]
    inside: IntArray
    slab_first: IntArray  # [SLABS+1] trapezoids that reach into strip i are slab[slab_first[i]:slab_first[i+1]]
    slab: IntArray
    span: tuple[float, float]  # west end and width of a strip


def trapezoids(walls: Sequence[shapely.Polygon], points: FloatArray, ground: FloatArray) -> Trapezoids:
    """Divide what walls leave open of the plane about the ground, given by its corners [4,2].

    The walls are disjoint polygons; points [n,2] are the positions that can be looked for.
    """
    rings = [
        shapely.get_coordinates(ring)
        for wall in shapely.orient_polygons(np.array(walls, dtype=object)).tolist()
        for ring in (wall.exterior, *wall.interiors)
    ]  # the inside of a wall is on the left
    edges = np.concatenate([np.empty((0, 4)), *(np.concatenate([ring[:-1], ring[1:]], axis=1) for ring in rings)])
    edges[:, ::2] += SHEAR * edges[:, 1::2]
    ground, points = sheared(ground), sheared(points)
    low, high = ground.min(axis=0), ground.max(axis=0)
    for ends in (edges[:, :2], edges[:, 2:], points):
        if len(ends):
            low, high = np.minimum(low, ends.min(axis=0)), np.maximum(high, ends.max(axis=0))
    low, high = low - 1.0, high + 1.0
    back = (edges[:, 0] > edges[:, 2]) | ((edges[:, 0] == edges[:, 2]) & (edges[:, 1] > edges[:, 3]))
    edges[back] = edges[back][:, [2, 3, 0, 1]]
    frame = np.array([[low[0], low[1], high[0], low[1]], [low[0], high[1], high[0], high[1]]])
    edges = np.concatenate([frame, edges])  # two walls far out, below and above all others
    open_above = np.concatenate([[True, False], back]).astype(np.int64)
    # Stops: the corners of walls and the points; of each the edges that end there, those that begin, and the points.
    every = np.concatenate([edges[2:, 2:], edges[2:, :2], points])
    kind = np.repeat([0, 1, 2], [len(edges) - 2, len(edges) - 2, len(points)])
    number = np.concatenate([np.arange(2, len(edges)), np.arange(2, len(edges)), np.arange(len(points))])
    slope = (edges[:, 3] - edges[:, 1]) / np.maximum(edges[:, 2] - edges[:, 0], 1e-300)
    steep = np.where(kind == 2, 0.0, slope[np.where(kind == 2, 0, number)])
    order = np.lexsort((steep, kind, every[:, 1], every[:, 0]))
    most = 2 * len(order) + 2
    x, sides, at = np.empty((most, 2)), np.empty((most, 2), np.int64), np.full(len(points), -1)
    beside, gaps, cuts = np.full((most, 2, 2), -1), np.zeros((most, 2, 2, 2)), np.empty((2, len(edges)), np.int64)
    made = _sweep(edges, open_above, every[order], kind[order], number[order], x, sides, beside, gaps, at, cuts)
    x, sides, beside, gaps = x[:made].copy(), sides[:made], beside[:made].copy(), gaps[:made].copy()
    some = np.flatnonzero(at >= 0)
    inside = some[np.argsort(at[some], kind="stable")]
    first = np.searchsorted(at[inside], np.arange(len(x) + 1)).astype(np.int64)
    width = (high[0] - low[0]) / SLABS
    low_slab, high_slab = (np.clip((x - low[0]) / width, 0, SLABS - 1).astype(np.int64)).T
    reach = high_slab - low_slab + 1
    member = np.repeat(np.arange(len(x)), reach)
    strip = low_slab[member] + np.arange(len(member)) - np.repeat(np.cumsum(reach) - reach, reach)
    by_strip = np.argsort(strip, kind="stable")
    slab_first = np.searchsorted(strip[by_strip], np.arange(SLABS + 1)).astype(np.int64)
    span = float(low[0]), float(width)
    return Trapezoids(x, edges[sides], beside, gaps, points, at, first, inside, slab_first, member[by_strip], span)


def sheared(xy: FloatArray) -> FloatArray:
    """Positions [m,2] on the sheared ground."""
    return np.stack([xy[:, 0] + SHEAR * xy[:, 1], xy[:, 1]], axis=1)


@inner
def _height(edge: FloatArray, x: float) -> float:
    """Where a wall passes x, between its ends."""
    wide = edge[2] - edge[0]
    share = min(max((x - edge[0]) / wide, 0.0), 1.0) if wide > 0 else 0.0
    return float(edge[1] + share * (edge[3] - edge[1]))


@inner
def _between(ground: Trapezoids, t: int, px: float, py: float) -> bool:
    """Whether a sheared position between the sides of a trapezoid is between its walls."""
    return bool(_height(ground.walls[t, 0], px) <= py <= _height(ground.walls[t, 1], px))


@compiled
def _sweep(
    edges: FloatArray,
    open_above: IntArray,
    xy: FloatArray,
    kind: IntArray,
    number: IntArray,
    x: FloatArray,
    walls: IntArray,
    beside: IntArray,
    gaps: FloatArray,
    at: IntArray,
    cuts: IntArray,
) -> int:
    """Enter trapezoids into arrays by a line that sweeps from west to east; returns their number.

    It stops at positions xy [k,2], in order: where edges end (kind 0) and begin (1), ascending, and at points (2).
    cuts [2,e] is room for the edges that the line cuts, and the trapezoid above each; -1 for a wall.
    """
    now, above = cuts[0], cuts[1]
    now[0], now[1], above[0], above[1] = 0, 1, 0, -1
    x[0, 0], walls[0, 0], walls[0, 1] = edges[0, 0], 0, 1
    cut, made, k = 2, 1, 0
    while k < len(xy):
        px, py = xy[k, 0], xy[k, 1]
        ending, beginning, after = 0, 0, k
        while after < len(xy) and xy[after, 0] == px and xy[after, 1] == py:
            ending, beginning = ending + (kind[after] == 0), beginning + (kind[after] == 1)
            after += 1
        # The edges that end here are now[low+1:high]; without any, this lies between edges low and high.
        low, high = 0, cut - 1
        if ending:
            low, high = cut, -1
            for i in range(cut):
                for j in range(k, k + ending):
                    if now[i] == number[j]:
                        low, high = min(low, i - 1), max(high, i + 1)
        else:
            while high - low > 1:
                middle = (low + high) // 2
                if _height(edges[now[middle]], px) <= py:
                    low = middle
                else:
                    high = middle
        if ending + beginning:
            floor, roof = _height(edges[now[low]], px), _height(edges[now[high]], px)
            west_low, west_high = above[low], above[high - 1]
            for i in range(low, high):
                if above[i] >= 0:
                    x[above[i], 1] = px
            shift = beginning - (high - low - 1)
            if shift > 0:
                for i in range(cut - 1, high - 1, -1):
                    now[i + shift], above[i + shift] = now[i], above[i]
            elif shift < 0:
                for i in range(high, cut):
                    now[i + shift], above[i + shift] = now[i], above[i]
            cut, high = cut + shift, high + shift
            for i in range(beginning):
                now[low + 1 + i] = number[k + ending + i]
            for i in range(low, high):
                above[i] = -1
                if open_above[now[i]]:
                    x[made, 0], walls[made, 0], walls[made, 1] = px, now[i], now[i + 1]
                    above[i], made = made, made + 1
            for part in range(2):  # below this position, and above
                west, east = (west_low, above[low]) if part == 0 else (west_high, above[high - 1])
                if west >= 0 and east >= 0:
                    beside[west, 1, part], beside[east, 0, part] = east, west
                    for t, side in ((west, 1), (east, 0)):
                        gaps[t, side, part, 0] = floor if part == 0 else py
                        gaps[t, side, part, 1] = py if part == 0 else roof
        for j in range(k + ending + beginning, after):
            at[number[j]] = above[low]
        k = after
    for i in range(cut - 1):
        if above[i] >= 0:
            x[above[i], 1] = edges[0, 2]
    return made


@inner
def locate(ground: Trapezoids, px: float, py: float) -> int:
    """The trapezoid of a sheared position; -1 inside a wall."""
    strip = min(max(int((px - ground.span[0]) / ground.span[1]), 0), SLABS - 1)
    for i in range(ground.slab_first[strip], ground.slab_first[strip + 1]):
        t = ground.slab[i]
        if ground.x[t, 0] <= px <= ground.x[t, 1] and _between(ground, t, px, py):
            return int(t)
    return -1


@inner
def see(ground: Trapezoids, here: int, px: float, py: float, room: IntArray, cones: FloatArray, seen: IntArray) -> int:
    """Enter the points that are seen from a sheared position in trapezoid `here` into `seen`; returns their number.

    room [t+2] and cones [2,t+2] are room to work in.
    """
    count = 0
    for side in range(2):
        room[0], cones[0, 0], cones[1, 0], waiting = here, -np.inf, np.inf, 1
        while waiting:
            waiting -= 1
            t, low, high = room[waiting], cones[0, waiting], cones[1, waiting]  # directions: slopes as seen from here
            for i in range(ground.first[t], ground.first[t + 1]):
                v = ground.inside[i]
                away = ground.points[v, 0] - px if side else px - ground.points[v, 0]
                rise = ground.points[v, 1] - py
                if (away > 0 and low * away <= rise <= high * away) or (away == 0 and side and t == here):
                    seen[count] = v
                    count += 1
            far = abs(ground.x[t, side] - px)
            for part in range(2):
                beyond = ground.beside[t, side, part]
                if beyond < 0:
                    continue
                down, up = ground.gaps[t, side, part, 0] - py, ground.gaps[t, side, part, 1] - py
                if far > 0:
                    down, up = max(low, down / far), min(high, up / far)
                elif down <= 0 <= up:
                    down, up = low, high
                else:
                    continue
                if down <= up:
                    room[waiting], cones[0, waiting], cones[1, waiting] = beyond, down, up
                    waiting += 1
    return count


@compiled
def blocked(ground: Trapezoids, ax: float, ay: float, bx: float, by: float) -> bool:
    """Whether a wall stands between two positions, or one of them is inside a wall."""
    px, qx = ax + SHEAR * ay, bx + SHEAR * by
    t, side = locate(ground, px, ay), 1 if qx > px else 0
    while t >= 0 and not ground.x[t, 0] <= qx <= ground.x[t, 1]:
        at = ay + (ground.x[t, side] - px) / (qx - px) * (by - ay)
        beyond = -1
        for part in range(2):
            if (
                ground.beside[t, side, part] >= 0
                and ground.gaps[t, side, part, 0] <= at <= ground.gaps[t, side, part, 1]
            ):
                beyond = ground.beside[t, side, part]
        t = beyond
    if t < 0:
        return True
    return not _between(ground, t, qx, by)
