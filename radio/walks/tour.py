"""Tours: a short closed route through the reported positions of all clients."""

from __future__ import annotations

from collections import deque
from itertools import permutations

import numpy as np

from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.policy import FloatArray, Here, IntArray, Policy

EXACT = 8  # up to this many positions, every order is tried
LONGEST_PIECE = 3  # most positions that are moved together
NEAR = 9  # nearest positions, itself included, that a position may be joined to
LEAST_GAIN = 1e-9  # relative to the legs replaced; less is rounding


class Tour(Policy):
    """Follow a short tour of all clients, beginning with the one nearest to the vehicle.

    A pass follows the tour planned at its beginning from the positions reported then. A client that arrives during a
    pass waits for the next one; a client that leaves, or has the final token, is skipped. The tour is kept while
    clients are the same and still.
    """

    def __init__(self, graph: ContactGraph) -> None:
        super().__init__(graph)
        self._left: list[int] = []  # of this pass, the next one last
        self._order = np.empty(0, dtype=np.int64)  # the tour

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """Choose the next client of the tour that can be reached."""
        waiting = here.still_waiting(self.graph.reachable)
        while True:
            if not self._left:
                self._left = self._pass(here)[::-1].tolist()
            client = self._left.pop()
            if (waiting == client).any():
                return int(client)

    def _pass(self, here: Here) -> IntArray:
        """Clients of a pass, in order."""
        everyone = self.graph.reachable
        if not (self.graph.still and np.array_equal(np.sort(self._order), everyone)):
            self._order = everyone[short_tour(self.graph.known(everyone))]
        first = int(np.flatnonzero(self._order == self.nearest(everyone, here.xy))[0])
        first += bool(self._order[first] == here.client)  # the vehicle has just been there
        return np.roll(self._order, -first)


def short_tour(xy: FloatArray) -> IntArray:
    """Order [n] of positions [n,2] whose closed tour is short, and the shortest for up to EXACT positions.

    Found by nearest neighbours, and improved by 2-opt and Or-opt among positions that are near each other.
    """
    return _shortest(xy) if len(xy) <= EXACT else _improved(xy, _nearest_neighbours(xy))


def tour_length(xy: FloatArray) -> float:
    """Length of the closed tour through positions [n,2] in their order."""
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
    """Improve an order until no position can be joined better to those near it."""
    from scipy.spatial import cKDTree  # imported late, so that reading a scenario does not load scipy

    near = np.asarray(cKDTree(xy).query(xy, min(NEAR, len(xy)))[1], dtype=np.int64)
    waiting, waits = deque(order.tolist()), np.ones(len(xy), dtype=bool)
    while waiting:
        position = waiting.popleft()
        waits[position] = False
        onward = np.roll(order, -int(np.flatnonzero(order == position)[0]))
        for cycle in (onward, np.append(onward[:1], onward[:0:-1])):  # from the position on, in either direction
            found = _reverse(xy, cycle, near) or _move(xy, cycle, near)
            if found is not None:
                order, ends = found
                waiting.extend(end for end in np.unique(ends).tolist() if not waits[end])
                waits[ends] = True
                break
    return order


Better = tuple[IntArray, IntArray] | None  # a better order, and the positions whose legs have changed


def _reverse(xy: FloatArray, cycle: IntArray, near: IntArray) -> Better:
    """2-opt: reverse the cycle after its first position up to the best of those near it."""
    at = _ranks(cycle)[near[cycle[0]]]
    at = at[(at >= 2) & (at <= len(cycle) - 2)]
    ends = np.stack([np.full(len(at), cycle[0]), np.full(len(at), cycle[1]), cycle[at], cycle[at + 1]], axis=1)
    a, b, c, d = xy[ends].swapaxes(0, 1)
    old = _distance(a, b) + _distance(c, d)
    gain = old - _distance(a, c) - _distance(b, d)
    if not (gain > LEAST_GAIN * old).any():
        return None
    best = int(np.argmax(gain))
    cut = int(at[best]) + 1
    return np.concatenate([cycle[:1], cycle[1:cut][::-1], cycle[cut:]]), ends[best]


def _move(xy: FloatArray, cycle: IntArray, near: IntArray) -> Better:
    """Or-opt: move a piece from the beginning of the cycle to the best leg near its ends, in either direction."""
    where, best, found = _ranks(cycle), 0.0, None
    for size in range(1, LONGEST_PIECE + 1):
        first, last, after, before = (int(cycle[k]) for k in (0, size - 1, size, -1))
        at = where[near[[first, last]]].ravel()
        at = np.unique(np.concatenate([at, at - 1]))
        at = at[(at >= size) & (at <= len(cycle) - 2)]
        if not at.size:
            continue
        c, d = xy[cycle[at]], xy[cycle[at + 1]]
        old = _distance(xy[before], xy[first]) + _distance(xy[last], xy[after]) + _distance(c, d)
        for turned, (begin, end) in enumerate(((first, last), (last, first))):
            gain = old - _distance(xy[before], xy[after]) - _distance(c, xy[begin]) - _distance(d, xy[end])
            k = int(np.argmax(gain))
            if gain[k] > max(best, LEAST_GAIN * old[k]):
                piece, cut = cycle[:size][:: -1 if turned else 1], int(at[k]) + 1
                ends = np.array([first, last, after, before, cycle[cut - 1], cycle[cut]])
                best, found = float(gain[k]), (np.concatenate([cycle[size:cut], piece, cycle[cut:]]), ends)
    return found


def _ranks(cycle: IntArray) -> IntArray:
    """Rank of each position in a cycle."""
    where = np.empty(len(cycle), dtype=np.int64)
    where[cycle] = np.arange(len(cycle))
    return where


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    gap = a - b
    return np.asarray(np.hypot(gap[..., 0], gap[..., 1]))
