"""Search for the shortest route round walls, compiled: A* over their corners."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled, inner
from fedmule.mobility.trapezoids import SHEAR, Trapezoids, locate, see

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEVER, DONE = -1, -2  # instead of a place in the queue


@compiled
def shortest(ground: Trapezoids, xy: FloatArray, barred: IntArray, real: FloatArray, whole: IntArray) -> IntArray:
    """Positions that the shortest route passes, from the last one to the first; none if there is no route.

    xy [n,2] are the corners of the walls, the start and the goal. No route takes one of the legs barred [k,2], in
    either direction. real [4,m] and whole [6,m] are room to work in; m is at least n and two more than there are
    trapezoids.
    """
    start, goal = len(xy) - 2, len(xy) - 1
    best, bound, came_from, place, queue, sees_goal = real[0], real[1], whole[0], whole[1], whole[2], whole[3]
    seen, stack, cones = whole[4], whole[5], real[2:]
    for v in range(len(xy)):
        best[v], place[v], sees_goal[v] = np.inf, NEVER, 0
    best[start], node, waiting = 0.0, goal, 0
    while True:
        x, y = xy[node, 0], xy[node, 1]
        here = ground.at[node] if node < start else locate(ground, x + SHEAR * y, y)
        found = see(ground, here, x + SHEAR * y, y, stack, cones, seen) if here >= 0 else 0
        if node == goal:  # first of all: which corners see it
            for i in range(found):
                sees_goal[seen[i]] = 1
            node = start
            continue
        if sees_goal[node]:
            seen[found] = goal
            found += 1
        for i in range(found):
            v = seen[i]
            if place[v] == DONE:
                continue
            total = best[node] + np.hypot(xy[v, 0] - x, xy[v, 1] - y)
            if total >= best[v]:
                continue
            least = total + np.hypot(xy[goal, 0] - xy[v, 0], xy[goal, 1] - xy[v, 1])
            if least >= best[goal] or _barred(barred, node, v):
                continue
            best[v], bound[v], came_from[v] = total, least, node
            if place[v] == NEVER:
                place[v] = waiting
                queue[waiting] = v
                waiting += 1
            _rise(queue, place, bound, v)
        if not waiting:
            break
        node = queue[0]
        waiting -= 1
        place[node] = DONE
        if waiting:
            _sink(queue, place, bound, queue[waiting], waiting)
        if node == goal:
            break
    count = 0
    if best[goal] < np.inf:
        seen[0], count = goal, 1
        while seen[count - 1] != start:
            seen[count], count = came_from[seen[count - 1]], count + 1
    route: IntArray = seen[:count]
    return route


@inner
def _barred(barred: IntArray, a: int, b: int) -> bool:
    for i in range(len(barred)):
        if (barred[i, 0] == a and barred[i, 1] == b) or (barred[i, 0] == b and barred[i, 1] == a):
            return True
    return False


@inner
def _rise(queue: IntArray, place: IntArray, bound: FloatArray, v: int) -> None:
    """Move a position forward in the queue, a binary heap, to where its bound belongs."""
    i = place[v]
    while i > 0 and bound[queue[(i - 1) // 2]] > bound[v]:
        queue[i] = queue[(i - 1) // 2]
        place[queue[i]] = i
        i = (i - 1) // 2
    queue[i], place[v] = v, i


@inner
def _sink(queue: IntArray, place: IntArray, bound: FloatArray, v: int, waiting: int) -> None:
    """Enter a position at the head of the queue, and move it back to where its bound belongs."""
    i = 0
    while 2 * i + 1 < waiting:
        following = 2 * i + 1
        if following + 1 < waiting and bound[queue[following + 1]] < bound[queue[following]]:
            following += 1
        if bound[queue[following]] >= bound[v]:
            break
        queue[i] = queue[following]
        place[queue[i]] = i
        i = following
    queue[i], place[v] = v, i
