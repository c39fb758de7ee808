"""Search for the fastest route across surfaces: A* over the corners of walls and the nodes of seams, compiled."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled, inner
from fedmule.mobility.seams import Seams
from fedmule.mobility.surface_times import Outlines, seconds_of_leg
from fedmule.mobility.trapezoids import SHEAR, Trapezoids, blocked, locate, see

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BETTER = 1 - 1e-12  # a route must take less than this share of the time of another one to count as faster


class Graph(NamedTuple):
    """Nodes at which routes may bend, and the seconds of the legs between them as far as they are known."""

    nodes: FloatArray  # [n,2]
    seams: IntArray  # [n,2] the seams that a node lies on; -1 for none
    off_fast: FloatArray  # [n] distance from the nearest surface that is faster than plain ground; inf if none is
    rows: IntArray  # [n,2] where the legs of a node begin and end in the two below; -1 if they are not known yet
    legs: IntArray  # [m] the nodes to which they lead
    seconds: FloatArray  # [m]
    known: IntArray  # [1] how many legs are


class Ground(NamedTuple):
    """What the time of a leg depends on."""

    surfaces: Outlines
    walls: Trapezoids  # whose points are the nodes
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
            ax, ay = surfaces.edges[e, 0], surfaces.edges[e, 1]
            bx, by = surfaces.edges[e, 2], surfaces.edges[e, 3]
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
    return float(seconds_of_leg(ground.surfaces, a[0], a[1], b[0], b[1], at, edge))


@compiled
def near_seams(seams: Seams, x: float, y: float) -> tuple[FloatArray, IntArray]:
    """Points [k,2] at which a route from here meets the seams nearer than their nodes are apart, and those seams [k].

    They are the nearest point and the two at the critical angle, beyond which it is best to follow the seam.
    """
    points, on = np.empty((3 * len(seams.ends), 2)), np.empty(3 * len(seams.ends), dtype=np.int64)
    count = 0
    for j in range(len(seams.ends)):
        ax, ay, bx, by = seams.ends[j, 0], seams.ends[j, 1], seams.ends[j, 2], seams.ends[j, 3]
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
    ground: Ground,
    graph: Graph,
    seams: Seams,
    start: FloatArray,
    goal: FloatArray,
    cones: FloatArray,
    stack: IntArray,
    seen: IntArray,
) -> tuple[bool, FloatArray, IntArray, float]:
    """Fastest route between two positions over the nodes, and over points of seams near its ends.

    Returns whether there was room for the legs of all nodes that it needed, then the points [k,2] of the route, the
    seams [k,2] that these lie on and its seconds, which are inf if there is none. cones [2,t+2], stack [t+2] and
    seen [n] are room to work in.
    """
    room = len(ground.surfaces.edges) + 1
    at, edge = np.empty(room), np.empty(room, dtype=np.int64)
    off_start = off_fast_m(ground.surfaces, start[0], start[1])
    off_goal = off_fast_m(ground.surfaces, goal[0], goal[1])
    apart_m = np.hypot(goal[0] - start[0], goal[1] - start[1])
    straight_s = leg_s(ground, start, goal, at, edge)
    if at_least_s(apart_m, off_start + off_goal, ground.top) >= straight_s * BETTER:
        return True, np.stack((start, goal)), np.full((2, 2), -1), straight_s
    # All points: the nodes, points near the start and near the goal, and the goal.
    first, first_on = near_seams(seams, start[0], start[1])
    final, final_on = near_seams(seams, goal[0], goal[1])
    n, begin_final, end = len(graph.nodes), len(graph.nodes) + len(first), len(graph.nodes) + len(first) + len(final)
    points = np.concatenate((graph.nodes, first, final, goal.reshape(1, 2)))
    rest_s, best, came_from = np.zeros(end + 1), np.full(end + 1, np.inf), np.full(end + 1, -1)
    best[end] = straight_s
    queue = [(0.0, 0.0, 0, False)]  # bound of the total, seconds so far, point, whether these are exact
    queue.pop()
    for v in range(end):
        off = graph.off_fast[v] if v < n else 0.0
        rest_m = np.hypot(points[v, 0] - goal[0], points[v, 1] - goal[1])
        rest_s[v] = at_least_s(rest_m, off + off_goal, ground.top)
    found = _seen_from(ground.walls, start, stack, cones, seen)
    for i in range(found + end - n):
        v = seen[i] if i < found else n + i - found
        off = graph.off_fast[v] if v < n else 0.0
        there_m = np.hypot(points[v, 0] - start[0], points[v, 1] - start[1])
        least = at_least_s(there_m, off + off_start, ground.top)
        if least + rest_s[v] < best[end] * BETTER:
            heapq.heappush(queue, (least + rest_s[v], least, v, False))
    while len(queue):
        bound, so_far, u, exact = heapq.heappop(queue)
        if bound >= best[end] * BETTER:
            break
        if so_far > best[u] or (so_far == best[u] and not exact):
            continue
        if not exact:  # straight from the start; until now a lower bound
            so_far = leg_s(ground, start, points[u], at, edge)
            if so_far < best[u]:
                best[u], came_from[u] = so_far, -1
                heapq.heappush(queue, (so_far + rest_s[u], so_far, u, True))
            continue
        if u < n and graph.rows[u, 0] < 0:
            known = graph.known[0]
            found = _seen_from(ground.walls, points[u], stack, cones, seen)
            if known + found > len(graph.legs):
                return False, points[:0], graph.seams[:0], np.inf
            for i in range(found):
                v = seen[i]
                graph.legs[known + i] = v
                graph.seconds[known + i] = seconds_of_leg(
                    ground.surfaces, points[u, 0], points[u, 1], points[v, 0], points[v, 1], at, edge
                )
            graph.rows[u, 0], graph.rows[u, 1], graph.known[0] = known, known + found, known + found
        begin_row, end_row = 0, 0  # legs that are known
        if u < n:
            begin_row, end_row, found = graph.rows[u, 0], graph.rows[u, 1], 0
        else:
            found = _seen_from(ground.walls, points[u], stack, cones, seen) if u < begin_final else 0
        begin_rest = begin_final if u < begin_final else end
        for i in range(end_row - begin_row + found + end + 1 - begin_rest):
            if i < end_row - begin_row:
                v, total = graph.legs[begin_row + i], so_far + graph.seconds[begin_row + i]
            else:
                v = seen[i] if i < found else begin_rest + i - (end_row - begin_row) - found
                least = so_far + np.hypot(points[v, 0] - points[u, 0], points[v, 1] - points[u, 1]) / ground.top
                if least >= best[v] or least + rest_s[v] >= best[end] * BETTER:
                    continue
                total = so_far + leg_s(ground, points[u], points[v], at, edge)
            if total < best[v] and total + rest_s[v] < best[end] * BETTER:
                best[v], came_from[v] = total, u
                heapq.heappush(queue, (total + rest_s[v], total, v, True))
    length, u = 2, came_from[end]
    while u >= 0:
        length, u = length + 1, came_from[u]
    way, on_seams, u = np.empty((length, 2)), np.full((length, 2), -1), end
    for i in range(length - 1, -1, -1):
        way[i, 0], way[i, 1] = (points[u, 0], points[u, 1]) if i > 0 else (start[0], start[1])
        if u < n and i > 0:
            on_seams[i, 0], on_seams[i, 1] = graph.seams[u, 0], graph.seams[u, 1]
        elif n <= u < end and i > 0:
            on_seams[i, 0] = first_on[u - n] if u < begin_final else final_on[u - begin_final]
        u = came_from[u] if u >= 0 else -1
    return True, way, on_seams, best[end]


@inner
def _seen_from(walls: Trapezoids, xy: FloatArray, stack: IntArray, cones: FloatArray, seen: IntArray) -> int:
    """Enter the nodes that are seen from a position into `seen`; returns their number."""
    px = xy[0] + SHEAR * xy[1]
    here = locate(walls, px, xy[1])
    return see(walls, here, px, xy[1], stack, cones, seen) if here >= 0 else 0
