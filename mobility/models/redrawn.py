"""The paper's graph: random positions, redrawn every few visits, with enough neighbours for every client."""

from __future__ import annotations

import numpy as np
import shapely

from fedmule.mobility.models.movement import (
    Draw,
    FloatArray,
    IntArray,
    Movement,
    MovementError,
    positions_near,
    random_positions,
)
from fedmule.mobility.terrain import Terrain

REDRAWS = 20  # random layouts to try before repairing one
REPAIRS = 500  # rounds of moving clients that lack neighbours


class NoLayout(MovementError):
    """No connected layout with enough neighbours for every client was found."""


class Redrawn(Movement):
    """Random connected positions, where each client has at least `neighbours` others within `neighbour_range_m`.

    All positions are redrawn every `every_visits` visits. Layouts are drawn uniformly until one satisfies this; if
    none of the first few does, clients that lack neighbours are moved next to others until all have enough.
    """

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        every_visits: int,
        neighbours: int,
        neighbour_range_m: float,
    ) -> None:
        self._terrain = terrain
        self._count = count
        self._draw = draw
        self._every_visits = every_visits
        self._neighbours = min(neighbours, count - 1)
        self._range_m = neighbour_range_m

    def start(self) -> FloatArray:
        """The first layout."""
        return self._layout(0)

    def after_visit(self, visit: int) -> FloatArray | None:
        """A new layout every `every_visits` visits."""
        return self._layout(visit // self._every_visits) if visit % self._every_visits == 0 else None

    def _layout(self, number: int) -> FloatArray:
        ids = np.arange(self._count)
        counters = np.full(self._count, number * (REDRAWS + REPAIRS))
        positions = np.empty((self._count, 2))
        for attempt in range(REDRAWS):
            positions = random_positions(self._terrain, self._draw, ids, counters + attempt)
            lacking = self._lacking(positions)
            if not lacking.size:
                return positions
        for attempt in range(REDRAWS, REDRAWS + REPAIRS):
            host = self._draw(lacking, -1 - counters[lacking] - attempt, 1)[:, 0] * self._count
            host_positions = positions[host.astype(np.int64)]
            ids = self._count + lacking  # separate draws, distinct from the host's
            positions[lacking] = positions_near(
                self._terrain, self._draw, ids, counters[lacking] + attempt, host_positions, self._range_m
            )
            lacking = self._lacking(positions)
            if not lacking.size:
                return positions
        raise NoLayout(
            f"found no positions for {self._count} clients with {self._neighbours} neighbours within "
            f"{self._range_m:g} m each, all connected: raise neighbour_range_m or lower neighbours"
        )

    def _lacking(self, positions: FloatArray) -> IntArray:
        """Clients with too few neighbours, or cut off from the largest connected group."""
        points = np.asarray(shapely.points(positions))
        a, b = shapely.STRtree(points).query(points, predicate="dwithin", distance=self._range_m)
        degree = np.bincount(a, minlength=self._count) - 1  # every client finds itself
        group = np.arange(self._count)
        while True:  # the smallest index of a group spreads through it
            smaller = group.copy()
            np.minimum.at(smaller, a, group[b])
            if np.array_equal(smaller, group):
                break
            group = smaller
        largest = np.argmax(np.bincount(group))
        return np.flatnonzero((degree < self._neighbours) | (group != largest))
