"""The policy that goes round: a short tour through the positions clients reported."""

from __future__ import annotations

from collections import deque
from itertools import permutations

import numpy as np

from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.policy import FloatArray, Here, IntArray, Policy

EXACT = 8  # up to so many positions every order is tried
LONGEST_PIECE = 3  # positions that are moved together
NEAR = 9  # positions near a position, itself included, that it may be joined to
LEAST_GAIN = 1e-9  # of the legs replaced: less is rounding


class Tour(Policy):
    """Goes round a short tour of all clients, from the one nearest to the vehicle on.

    A pass follows the tour planned at its beginning, from the positions reported then. Who comes during it waits for the
    next; who goes is passed over. While clients stand still and are the same, so does the tour.
    """

    def __init__(self, graph: ContactGraph) -> None:
        super().__init__(graph)
        self._left: list[int] = []  # of this pass, the next one last
        self._order = np.empty(0, dtype=np.int64)  # the tour

    def next(self, here: Here, draws: np.random.Generator) -> int:
        while True:
            if not self._left:
                self._left = self._pass(here)[::-1].tolist()
            client = self._left.pop()
            if self.graph.members[client]:
                return int(client)

    def _pass(self, here: Here) -> IntArray:
        """The clients of a pass in their order."""
        everyone = self.graph.reachable
        if not (self.graph.still and np.array_equal(np.sort(self._order), everyone)):
            self._order = everyone[short_tour(self.graph.known(everyone))]
        first = int(np.flatnonzero(self._order == self.nearest(everyone, here.xy))[0])
        first += bool(self._order[first] == here.client)  # it has just been there
        return np.roll(self._order, -first)


def short_tour(xy: FloatArray) -> IntArray:
    """An order [n] of positions [n,2] whose closed tour is short; the shortest for up to EXACT positions.

    From the nearest neighbour to the next, then by 2-opt and Or-opt among positions that lie near each other.
    """
    return _shortest(xy) if len(xy) <= EXACT else _improved(xy, _nearest_neighbours(xy))


def tour_length(xy: FloatArray) -> float:
    """The length of the closed tour through positions [n,2] in their order."""
    return float(_distance(np.roll(xy, -1, axis=0), xy).sum())


def _shortest(xy: FloatArray) -> IntArray:
    if len(xy) < 4:  # all tours are the same
        return np.arange(len(xy))
    orders = np.array([(0, *rest) for rest in permutations(range(1, len(xy)))])
    lengths = _distance(xy[np.roll(orders, -1, axis=1)], xy[orders]).sum(axis=1)
    return np.asarray(orders[np.argmin(lengths)])


def _nearest_neighbours(xy: FloatArray) -> IntArray:
    order, left = [0], np.arange(1, len(xy))
    while left.size:
        following = int(np.argmin(_distance(xy[left], xy[order[-1]])))
        order.append(int(left[following]))
        left = np.delete(left, following)
    return np.array(order)


def _improved(xy: FloatArray, order: IntArray) -> IntArray:
    """Look at every position until none can be joined better to those near it."""
    from scipy.spatial import cKDTree  # here, so that reading a scenario does not load scipy

    near = np.asarray(cKDTree(xy).query(xy, min(NEAR, len(xy)))[1], dtype=np.int64)
    waiting, waits = deque(order.tolist()), np.ones(len(xy), dtype=bool)
    while waiting:
        position = waiting.popleft()
        waits[position] = False
        onward = np.roll(order, -int(np.flatnonzero(order == position)[0]))
        for way in (onward, np.append(onward[:1], onward[:0:-1])):  # from the position on, either way round
            found = _reverse(xy, way, near) or _move(xy, way, near)
            if found is not None:
                order, ends = found
                waiting.extend(end for end in np.unique(ends).tolist() if not waits[end])
                waits[ends] = True
                break
    return order


Better = tuple[IntArray, IntArray] | None  # another order, and the positions whose legs have changed


def _reverse(xy: FloatArray, way: IntArray, near: IntArray) -> Better:
    """2-opt: reverse the way after its first position up to the best of those near."""
    at = _positions(way)[near[way[0]]]
    at = at[(at >= 2) & (at <= len(way) - 2)]
    ends = np.stack([np.full(len(at), way[0]), np.full(len(at), way[1]), way[at], way[at + 1]], axis=1)
    a, b, c, d = xy[ends].swapaxes(0, 1)
    old = _distance(a, b) + _distance(c, d)
    gain = old - _distance(a, c) - _distance(b, d)
    if not (gain > LEAST_GAIN * old).any():
        return None
    best = int(np.argmax(gain))
    cut = int(at[best]) + 1
    return np.concatenate([way[:1], way[1:cut][::-1], way[cut:]]), ends[best]


def _move(xy: FloatArray, way: IntArray, near: IntArray) -> Better:
    """Or-opt: move a piece at the beginning of the way to the best leg near its ends, either way round."""
    where, best, found = _positions(way), 0.0, None
    for size in range(1, LONGEST_PIECE + 1):
        first, last, after, before = (int(way[k]) for k in (0, size - 1, size, -1))
        at = where[near[[first, last]]].ravel()
        at = np.unique(np.concatenate([at, at - 1]))
        at = at[(at >= size) & (at <= len(way) - 2)]
        if not at.size:
            continue
        c, d = xy[way[at]], xy[way[at + 1]]
        old = _distance(xy[before], xy[first]) + _distance(xy[last], xy[after]) + _distance(c, d)
        for turned, (begin, end) in enumerate(((first, last), (last, first))):
            gain = old - _distance(xy[before], xy[after]) - _distance(c, xy[begin]) - _distance(d, xy[end])
            k = int(np.argmax(gain))
            if gain[k] > max(best, LEAST_GAIN * old[k]):
                piece, cut = way[:size][:: -1 if turned else 1], int(at[k]) + 1
                ends = np.array([first, last, after, before, way[cut - 1], way[cut]])
                best, found = float(gain[k]), (np.concatenate([way[size:cut], piece, way[cut:]]), ends)
    return found


def _positions(way: IntArray) -> IntArray:
    """At which step of the way each position comes."""
    where = np.empty(len(way), dtype=np.int64)
    where[way] = np.arange(len(way))
    return where


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    gap = a - b
    return np.asarray(np.hypot(gap[..., 0], gap[..., 1]))
