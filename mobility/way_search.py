"""Search for the fastest route across surfaces: A* over the corners of walls and the nodes of seams, compiled."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled
from fedmule.mobility.seams import Seams
from fedmule.mobility.surface_times import Outlines, blocked, seconds_of_leg

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BETTER = 1 - 1e-12  # a route must take less than this share of the time of another one to count as faster


class Graph(NamedTuple):
    """Nodes at which routes may bend, and the seconds of the legs between them as far as they are known."""

    nodes: FloatArray  # [n,2]
    seams: IntArray  # [n,2] the seams that a node lies on; -1 for none
    off_fast: FloatArray  # [n] distance from the nearest surface that is faster than plain ground; inf if none is
    rows: FloatArray  # [m,n] seconds from some nodes to all; inf where a wall stands between
    row_of: IntArray  # [n] the row of a node; -1 if it is not known yet


class Ground(NamedTuple):
    """What the time of a leg depends on."""

    surfaces: Outlines
    walls: Outlines
    top: float  # the largest speed factor, at least 1


@compiled
def off_fast_m(surfaces: Outlines, x: float, y: float) -> float:
    """Distance from the nearest surface that is faster than plain ground; inf if there is none."""
    least = np.inf
    for p in range(len(surfaces.factors)):
        if surfaces.factors[p] <= 1:
            continue
        inside = False
        for e in range(surfaces.first[p], surfaces.first[p + 1]):
            ax, ay, bx, by = surfaces.edges[e]
            wide, high = bx - ax, by - ay
            share = ((x - ax) * wide + (y - ay) * high) / max(wide * wide + high * high, 1e-300)
            share = min(max(share, 0.0), 1.0)
            least = min(least, np.hypot(ax + share * wide - x, ay + share * high - y))
            if (ay > y) != (by > y) and (wide * (y - ay) - high * (x - ax) > 0) == (high > 0):
                inside = not inside
        if inside:
            return 0.0
    return least


@compiled
def at_least_s(metres: float, plain_m: float, top: float) -> float:
    """Lower bound of the seconds over a distance whose ends are `plain_m` in all away from fast surfaces."""
    return metres if metres <= plain_m else plain_m + (metres - plain_m) / top


@compiled
def leg_s(ground: Ground, a: FloatArray, b: FloatArray, at: FloatArray, edge: IntArray) -> float:
    """Seconds of a straight leg; inf if a wall blocks it."""
    if blocked(ground.walls, a[0], a[1], b[0], b[1]):
        return np.inf
    return seconds_of_leg(ground.surfaces, a[0], a[1], b[0], b[1], at, edge)


@compiled
def near_seams(seams: Seams, x: float, y: float) -> tuple[FloatArray, IntArray]:
    """Points [k,2] at which a route from here meets the seams nearer than their nodes are apart, and those seams [k].

    They are the nearest point and the two at the critical angle, beyond which it is best to follow the seam.
    """
    points, on = np.empty((3 * len(seams.ends), 2)), np.empty(3 * len(seams.ends), dtype=np.int64)
    count = 0
    for j in range(len(seams.ends)):
        ax, ay, bx, by = seams.ends[j]
        length = np.hypot(bx - ax, by - ay)
        ux, uy = (bx - ax) / length, (by - ay) / length
        along, off = (x - ax) * ux + (y - ay) * uy, abs((y - ay) * ux - (x - ax) * uy)
        foot = min(max(along, 0.0), length)
        if np.hypot(along - foot, off) > seams.spacing_m:
            continue
        ratio = seams.slow[j] / seams.fast[j]
        aside = off * ratio / np.sqrt(1 - ratio * ratio)
        for k in range(-1, 2):
            place = along + k * aside
            if 0 < place < length:
                points[count, 0], points[count, 1], on[count] = ax + place * ux, ay + place * uy, j
                count += 1
    return points[:count], on[:count]


@compiled
def search(
    ground: Ground, graph: Graph, seams: Seams, start: FloatArray, goal: FloatArray
) -> tuple[int, FloatArray, IntArray, float]:
    """Fastest route between two positions over the nodes, and over points of seams near its ends.

    Returns -1, its points [k,2], the seams [k,2] that these lie on and its seconds, which are inf if there is none; or
    a node whose row is needed first.
    """
    room = len(ground.surfaces.edges) + 1
    at, edge = np.empty(room), np.empty(room, dtype=np.int64)
    arrive_s, last = leg_s(ground, start, goal, at, edge), -1
    off_start = off_fast_m(ground.surfaces, start[0], start[1])
    off_goal = off_fast_m(ground.surfaces, goal[0], goal[1])
    apart = np.hypot(goal[0] - start[0], goal[1] - start[1])
    if at_least_s(apart, off_start + off_goal, ground.top) >= arrive_s * BETTER:
        return -1, np.stack((start, goal)), np.full((2, 2), -1), arrive_s
    first, first_on = near_seams(seams, start[0], start[1])
    final, final_on = near_seams(seams, goal[0], goal[1])
    n, count = len(graph.nodes), len(graph.nodes) + len(first) + len(final)
    begin_final = n + len(first)
    points = np.concatenate((graph.nodes, first, final))
    rest_s, best = np.empty(count), np.full(count, np.inf)
    came_from = np.full(count, -1)
    queue = [(0.0, 0.0, 0, False)]  # bound of the total, seconds so far, node, whether these are exact
    queue.pop()
    for v in range(count):
        off = graph.off_fast[v] if v < n else 0.0
        there_m = np.hypot(points[v, 0] - start[0], points[v, 1] - start[1])
        rest_m = np.hypot(points[v, 0] - goal[0], points[v, 1] - goal[1])
        least, rest_s[v] = (
            at_least_s(there_m, off + off_start, ground.top),
            at_least_s(rest_m, off + off_goal, ground.top),
        )
        if least + rest_s[v] < arrive_s * BETTER:
            queue.append((least + rest_s[v], least, v, False))
    heapq.heapify(queue)
    while len(queue):
        bound, so_far, u, exact = heapq.heappop(queue)
        if bound >= arrive_s * BETTER:
            break
        if so_far > best[u] or (not exact and so_far == best[u]):
            continue
        if not exact:  # straight from the start, seconds yet unknown
            so_far = leg_s(ground, start, points[u], at, edge)
            if so_far < best[u]:
                best[u], came_from[u] = so_far, -1
                if so_far + rest_s[u] < arrive_s * BETTER:
                    heapq.heappush(queue, (so_far + rest_s[u], so_far, u, True))
            continue
        total = so_far + leg_s(ground, points[u], goal, at, edge)
        if total < arrive_s * BETTER:
            arrive_s, last = total, u
        if u >= begin_final:
            continue
        for v in range(begin_final, count):
            least = np.hypot(points[v, 0] - points[u, 0], points[v, 1] - points[u, 1]) / ground.top
            if so_far + least < best[v] and so_far + least + rest_s[v] < arrive_s * BETTER:
                total = so_far + leg_s(ground, points[u], points[v], at, edge)
                if total < best[v]:
                    best[v], came_from[v] = total, u
                    heapq.heappush(queue, (total + rest_s[v], total, v, True))
        if u >= n:
            j = first_on[u - n]
            for k in range(seams.first[j], seams.first[j + 1]):
                v = seams.node[k] + n - len(seams.points)
                total = so_far + leg_s(ground, points[u], points[v], at, edge)
                if total < best[v]:
                    best[v], came_from[v] = total, u
                    heapq.heappush(queue, (total + rest_s[v], total, v, True))
            continue
        row = graph.row_of[u]
        if row < 0:
            return u, np.empty((0, 2)), np.empty((0, 2), dtype=np.int64), np.inf
        for v in range(n):
            total = so_far + graph.rows[row, v]
            if total < best[v]:
                best[v], came_from[v] = total, u
                if total + rest_s[v] < arrive_s * BETTER:
                    heapq.heappush(queue, (total + rest_s[v], total, v, True))
    length, u = 2, last
    while u >= 0:
        length, u = length + 1, came_from[u]
    found, on_seams = np.empty((length, 2)), np.full((length, 2), -1)
    found[0], found[length - 1], u = start, goal, last
    for i in range(length - 2, 0, -1):
        found[i] = points[u]
        if u < n:
            on_seams[i] = graph.seams[u]
        else:
            on_seams[i, 0] = first_on[u - n] if u < begin_final else final_on[u - begin_final]
        u = came_from[u]
    return -1, found, on_seams, arrive_s
