"""Fastest paths on a road network, compiled."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from fedmule.mobility.compiler import compiled
from fedmule.mobility.traces.trace import FloatArray, IntArray


class Network(NamedTuple):
    """Nodes and straight segments; seconds are those at 1 m/s on plain ground."""

    nodes: FloatArray  # [n,2]
    segments: IntArray  # [e,2] nodes of each
    slowness: FloatArray  # [e] s/m
    first: IntArray  # [n+1] the neighbours of node i are first[i]:first[i+1] of the two below
    neighbour: IntArray
    seconds: FloatArray
    top: float  # the largest speed on plain ground or on a surface, at least 1


class Ends(NamedTuple):
    """Positions on the network at which a path may begin, or end."""

    xy: FloatArray  # [k,2]
    segment: IntArray  # [k]
    seconds: FloatArray  # [k] spent before, or after


@compiled
def fastest(network: Network, begin: Ends, end: Ends, aim: FloatArray) -> tuple[IntArray, int, int, float]:
    """Nodes of the fastest path, by A*; which of the beginnings and ends it has; and its seconds, with those of both.

    The heuristic is the straight distance to the aim, which lies beyond all ends. Seconds are inf if there is no path.
    """
    nodes = network.nodes
    best, leave_s = np.full(len(nodes), np.inf), np.full(len(nodes), np.inf)
    begin_of, end_of = np.full(len(nodes), -1), np.full(len(nodes), -1)
    came_from = np.full(len(nodes), -1)
    queue = [(0.0, 0.0, 0)]  # estimated total, seconds so far, node; numba infers the types from an entry
    queue.pop()
    for j in range(len(end.segment)):
        for side in range(2):
            node = network.segments[end.segment[j], side]
            metres = np.hypot(nodes[node, 0] - end.xy[j, 0], nodes[node, 1] - end.xy[j, 1])
            seconds = end.seconds[j] + network.slowness[end.segment[j]] * metres
            if seconds < leave_s[node]:
                leave_s[node], end_of[node] = seconds, j
    for i in range(len(begin.segment)):
        for side in range(2):
            node = network.segments[begin.segment[i], side]
            metres = np.hypot(nodes[node, 0] - begin.xy[i, 0], nodes[node, 1] - begin.xy[i, 1])
            seconds = begin.seconds[i] + network.slowness[begin.segment[i]] * metres
            if seconds < best[node]:
                best[node], begin_of[node] = seconds, i
                rest = np.hypot(nodes[node, 0] - aim[0], nodes[node, 1] - aim[1]) / network.top
                heapq.heappush(queue, (seconds + rest, seconds, node))
    arrive_s, last, first_end, last_end = np.inf, -1, -1, -1
    for i in range(len(begin.segment)):  # along one segment
        for j in range(len(end.segment)):
            if begin.segment[i] == end.segment[j]:
                metres = np.hypot(begin.xy[i, 0] - end.xy[j, 0], begin.xy[i, 1] - end.xy[j, 1])
                seconds = begin.seconds[i] + network.slowness[begin.segment[i]] * metres + end.seconds[j]
                if seconds < arrive_s:
                    arrive_s, first_end, last_end = seconds, i, j
    while len(queue):
        total, so_far, node = heapq.heappop(queue)
        if total >= arrive_s:
            break
        if so_far > best[node]:
            continue
        if so_far + leave_s[node] < arrive_s:
            arrive_s, last, last_end = so_far + leave_s[node], node, end_of[node]
        for k in range(network.first[node], network.first[node + 1]):
            following, later = network.neighbour[k], so_far + network.seconds[k]
            if later < best[following]:
                best[following], came_from[following] = later, node
                rest = np.hypot(nodes[following, 0] - aim[0], nodes[following, 1] - aim[1]) / network.top
                heapq.heappush(queue, (later + rest, later, following))
    count, node = 0, last
    while node >= 0:
        count, first_end, node = count + 1, begin_of[node], came_from[node]
    path = np.empty(count, dtype=np.int64)
    node = last
    while node >= 0:
        count -= 1
        path[count] = node
        node = came_from[node]
    return path, first_end, last_end, arrive_s


@compiled
def candidates(
    network: Network, here: FloatArray, there: FloatArray, off_road: float, most_s: float
) -> tuple[FloatArray, IntArray]:
    """Positions [k,2] at which to enter or leave the roads near one end of a way, and their segments [k].

    They are the nearest one on each segment, and the two at the critical angle, at which it is best to turn into a
    straight road; without those that lead to a way of `most_s` seconds or more at a speed of `off_road` off the roads.
    """
    aside = off_road / np.sqrt(max(1 - off_road * off_road, 1e-12))
    found, segment, count = np.empty((3 * len(network.segments), 2)), np.empty(3 * len(network.segments), np.int64), 0
    for e in range(len(network.segments)):
        a, b = network.segments[e, 0], network.segments[e, 1]
        ax, ay, bx, by = network.nodes[a, 0], network.nodes[a, 1], network.nodes[b, 0], network.nodes[b, 1]
        length = np.hypot(bx - ax, by - ay)
        ux, uy = (bx - ax) / length, (by - ay) / length
        along, off = (here[0] - ax) * ux + (here[1] - ay) * uy, abs((here[1] - ay) * ux - (here[0] - ax) * uy)
        before = -1.0
        for side in range(-1, 2):
            place = min(max(along + side * aside * off, 0.0), length)
            x, y = ax + place * ux, ay + place * uy
            near_m, rest_m = np.hypot(x - here[0], y - here[1]), np.hypot(x - there[0], y - there[1])
            if place > before and near_m / off_road + rest_m < most_s * network.top:
                found[count, 0], found[count, 1], segment[count] = x, y, e
                count += 1
            before = place
    return found[:count], segment[:count]
