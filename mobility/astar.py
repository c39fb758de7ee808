"""Shortest ways on a road network, compiled."""

from __future__ import annotations

import heapq

import numpy as np

from fedmule.mobility.traces.contacts import FloatArray, IntArray, compiled


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
    """The nodes on the shortest way between a position on piece a and one on piece b: A* by the straight distance."""
    best = np.full(len(nodes), np.inf)
    came_from = np.full(len(nodes), -1)
    queue = [(0.0, 0.0, -1)]  # distance so far and to the goal, distance so far, node
    queue.pop()
    for node in a:
        best[node] = np.hypot(nodes[node, 0] - start[0], nodes[node, 1] - start[1])
        to_go = np.hypot(nodes[node, 0] - goal[0], nodes[node, 1] - goal[1])
        heapq.heappush(queue, (best[node] + to_go, best[node], node))
    arrive_m, last = np.inf, -1
    while len(queue):
        total, so_far, node = heapq.heappop(queue)
        if total >= arrive_m:
            break
        if so_far > best[node]:
            continue
        if node == b[0] or node == b[1]:  # from here straight along the goal's piece
            arrive_m, last = total, node
        for k in range(first[node], first[node + 1]):
            following, longer = neighbour[k], so_far + length_m[k]
            if longer < best[following]:
                best[following], came_from[following] = longer, node
                to_go = np.hypot(nodes[following, 0] - goal[0], nodes[following, 1] - goal[1])
                heapq.heappush(queue, (longer + to_go, longer, following))
    count, node = 0, last
    while node >= 0:
        count, node = count + 1, came_from[node]
    way = np.empty(count, dtype=np.int64)
    node = last
    while node >= 0:
        count -= 1
        way[count] = node
        node = came_from[node]
    return way
