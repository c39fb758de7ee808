"""Roads: clients that take the fastest path by road to random positions on it."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import Draw, FloatArray, IntArray, Routes, timed_routes
from fedmule.mobility.models.waypoint import Waypoint
from fedmule.mobility.road_network import RoadNetwork
from fedmule.mobility.terrain import Terrain


class Roads(Waypoint):
    """Random waypoint on a road network: goals are uniform over the length of its longest connected part."""

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        roads: RoadNetwork,
        speed_mps: tuple[float, float],
        pause_s: tuple[float, float],
    ) -> None:
        super().__init__(terrain, count, draw, speed_mps, pause_s)
        self._roads = roads

    def _random(self, ids: IntArray, counters: IntArray) -> FloatArray:
        return self._roads.random_positions(self._draw(ids, counters, 1)[:, 0])

    def _routes(self, start: FloatArray, goal: FloatArray, speed_mps: FloatArray) -> Routes:
        return timed_routes(self._terrain, self._roads.routes(start, goal), np.asarray(speed_mps))
