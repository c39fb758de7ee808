"""Manhattan: a grid of streets; at every crossing straight on, left or right."""

from __future__ import annotations

import numpy as np
import shapely

from fedmule.mobility.models.movement import (
    BoolArray,
    Draw,
    FloatArray,
    IntArray,
    Movement,
    MovementError,
    Waypoints,
    between,
    fastest_routes,
    speed_under_way,
)
from fedmule.mobility.road_network import streets
from fedmule.mobility.terrain import Terrain

STEPS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # east, north, west, south
MOST_ROUNDS = 5000  # of the iteration for the steady state


class Manhattan(Movement):
    """Clients that walk from crossing to crossing, at a new speed for each side of a block.

    A client turns with probability `turn`, left or right with equal probability, and back only in a dead end. Sides of
    blocks that a wall stands across are closed; of the rest, the longest connected part is used. Clients start in the
    steady state.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        block_m: tuple[float, float],
        turn: float,
        speed_mps: tuple[float, float],
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._speed_mps = speed_mps
        x, y = (streets(size, block) for size, block in zip(terrain.size_m, block_m, strict=True))
        self.crossings: FloatArray = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
        # Side of a block in one direction: 4·crossing + direction; `end` [4c] is the crossing it leads to.
        column, row = np.divmod(np.arange(len(self.crossings)), len(y))
        to_column, to_row = column[:, None] + STEPS[:, 0], row[:, None] + STEPS[:, 1]
        within = (to_column >= 0) & (to_column < len(x)) & (to_row >= 0) & (to_row < len(y))
        self.end: IntArray = np.where(within, to_column * len(y) + to_row, -1).ravel()
        self.open = self._open_sides()
        self.turns = self._turns(turn)
        self._side = np.zeros(count, dtype=np.int64)  # the side each client is on
        self._steps = np.zeros(count, dtype=np.int64)  # sides begun so far; numbers the draws

    def start(self) -> FloatArray:
        """Uniform positions on sides chosen in proportion to how often they are walked and how long they take."""
        client = np.arange(len(self._side))
        uniform = self._draw(client, np.full(len(client), -1), 2)
        until = np.cumsum(self.steady() * self._length_m())
        self._side = np.searchsorted(until, uniform[:, 0] * until[-1], side="right")
        start, end = self.crossings[self._side // 4], self.crossings[self.end[self._side]]
        return start + uniform[:, 1:] * (end - start)

    def top_speed_mps(self) -> float:
        """Top speed on the fastest surface."""
        return self._speed_mps[1] * self._terrain.highest_factor

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """The next side of a block."""
        step = self._steps[client]
        self._steps[client] += 1
        uniform = self._draw(client, step, 2)
        first = step == 0  # still on the side where it started
        side = self._side[client]
        until = np.cumsum(self.turns[side], axis=1)
        choice = (uniform[:, :1] * until[:, -1:] >= until).sum(axis=1)
        following = 4 * self.end[side] + (side + choice) % 4
        self._side[client] = side = np.where(first, side, following)
        under_way, fresh = speed_under_way(self._speed_mps, uniform[:, 1]), between(self._speed_mps, uniform[:, 1])
        walk = fastest_routes(self._terrain, xy, self.crossings[self.end[side]], np.where(first, under_way, fresh))
        return Waypoints(client[walk.walker], t[walk.walker] + walk.seconds, walk.xy)

    def steady(self) -> FloatArray:
        """Frequency with which each side [4c] is walked in the long run: π = π P, by iteration from equal shares."""
        side = np.flatnonzero(self.open)
        ahead = 4 * self.end[side][:, None] + (side[:, None] + np.arange(4)) % 4
        share = np.zeros(len(self.open))
        share[side] = 1 / len(side)
        for _ in range(MOST_ROUNDS):
            moved = np.bincount(
                ahead.ravel(), (share[side][:, None] * self.turns[side]).ravel(), minlength=len(share)
            )  # fmt: skip
            change = np.abs(moved - share).max() * len(side)
            share = (share + moved) / 2  # half of them wait, so that an alternating chain converges too
            if change < 1e-9:
                break
        return share

    def _length_m(self) -> FloatArray:
        sides = self.crossings[self.end] - np.repeat(self.crossings, 4, axis=0)
        return np.where(self.open, np.hypot(*sides.T), 0.0)

    def _open_sides(self) -> BoolArray:
        """Which sides [4c] can be walked: clear of walls, and in the longest connected part."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        side = np.flatnonzero(self.end >= 0)
        start, end = side // 4, self.end[side]
        lines = shapely.linestrings(np.stack([self.crossings[start], self.crossings[end]], axis=1))
        free = shapely.covers(self._terrain.areas[0], lines)
        side, start, end = side[free], start[free], end[free]
        if not side.size:
            raise MovementError("leaves no side of a block clear of obstacles that stop movement", ".block_m")
        count = len(self.crossings)
        joined = coo_array((np.ones(len(side)), (start, end)), shape=(count, count))
        part = np.asarray(connected_components(joined, directed=False)[1])[start]
        length = np.bincount(part, np.hypot(*(self.crossings[end] - self.crossings[start]).T))
        is_open = np.zeros(len(self.end), dtype=bool)
        is_open[side[part == np.argmax(length)]] = True
        return is_open

    def _turns(self, turn: float) -> FloatArray:
        """Probabilities [4c,4] of going straight on, left, back or right at the end of each side."""
        side = np.arange(len(self.end))
        can = self.open[4 * self.end[:, None] + (side[:, None] + np.arange(4)) % 4]
        wish = can * np.array([1 - turn, turn / 2, 0.0, turn / 2])
        forced = can * np.array([0.0, 1.0, 0.0, 1.0])  # where the only choice is to turn although `turn` is 0
        wish = np.where(wish.sum(axis=1, keepdims=True) > 0, wish, forced)
        total = wish.sum(axis=1, keepdims=True)
        return np.where(total > 0, wish / np.where(total > 0, total, 1.0), np.array([0.0, 0.0, 1.0, 0.0]))
