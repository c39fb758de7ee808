"""Roads: clients that take the fastest path by road to random positions on it."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import Draw, FloatArray, IntArray, Routes, timed_routes
from fedmule.mobility.models.waypoint import Waypoint
from fedmule.mobility.road_network import RoadNetwork
from fedmule.mobility.terrain import Terrain


class Roads(Waypoint):
    """Random waypoint on a road network: goals are uniform over the length of its longest connected part.

    With `home_m` they are uniform over the length of what lies that near to the client's home, a position on the roads.
    """

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        roads: RoadNetwork,
        speed_mps: tuple[float, float],
        pause_s: tuple[float, float],
        home_m: float | None,
    ) -> None:
        super().__init__(terrain, count, draw, speed_mps, pause_s, home_m)
        self._roads = roads

    def _anywhere(self, ids: IntArray, counters: IntArray) -> FloatArray:
        return self._roads.random_positions(self._draw(ids, counters, 1)[:, 0])

    def _near(self, centre: FloatArray, radius_m: float, ids: IntArray, counters: IntArray) -> FloatArray:
        return self._roads.random_positions_near(centre, radius_m, self._draw(ids, counters, 1)[:, 0])

    def _routes(self, start: FloatArray, goal: FloatArray, speed_mps: FloatArray) -> Routes:
        return timed_routes(self._terrain, self._roads.routes(start, goal), np.asarray(speed_mps))
