"""Shortest paths on a road network, compiled."""

from __future__ import annotations

import heapq

import numpy as np

from fedmule.mobility.compiler import compiled
from fedmule.mobility.traces.trace import FloatArray, IntArray


@compiled
def shortest(
    first: IntArray,
    neighbour: IntArray,
    length_m: FloatArray,
    nodes: FloatArray,
    a: IntArray,
    start: FloatArray,
    b: IntArray,
    goal: FloatArray,
) -> IntArray:
    """Nodes of the shortest path from `start` on segment a to `goal` on segment b, by A*.

    A segment is its two nodes. The neighbours of node i, and the distances to them, are first[i]:first[i+1] of
    `neighbour` and `length_m`. The heuristic is the straight distance to the goal.
    """
    best = np.full(len(nodes), np.inf)
    came_from = np.full(len(nodes), -1)
    queue = [(0.0, 0.0, -1)]  # estimated total, distance so far, node; numba infers the types from an entry
    queue.pop()
    for node in a:
        best[node] = np.hypot(nodes[node, 0] - start[0], nodes[node, 1] - start[1])
        rest = np.hypot(nodes[node, 0] - goal[0], nodes[node, 1] - goal[1])
        heapq.heappush(queue, (best[node] + rest, best[node], node))
    arrive_m, last = np.inf, -1
    while len(queue):
        total, so_far, node = heapq.heappop(queue)
        if total >= arrive_m:
            break
        if so_far > best[node]:
            continue
        if node == b[0] or node == b[1]:  # from here straight along the goal's segment
            arrive_m, last = total, node
        for k in range(first[node], first[node + 1]):
            following, longer = neighbour[k], so_far + length_m[k]
            if longer < best[following]:
                best[following], came_from[following] = longer, node
                rest = np.hypot(nodes[following, 0] - goal[0], nodes[following, 1] - goal[1])
                heapq.heappush(queue, (longer + rest, longer, following))
    count, node = 0, last
    while node >= 0:
        count, node = count + 1, came_from[node]
    path = np.empty(count, dtype=np.int64)
    node = last
    while node >= 0:
        count -= 1
        path[count] = node
        node = came_from[node]
    return path
