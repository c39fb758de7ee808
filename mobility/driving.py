"""Routes of the vehicle: across open ground, or by road as far as roads go."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import FloatArray
from fedmule.mobility.road_network import RoadNetwork
from fedmule.mobility.terrain import Terrain


class Driving:
    """Routes of a vehicle. Where there are roads it leaves them only at the ends, at `off_road_factor` of its speed.

    It enters the roads at their position nearest to it and leaves them at their position nearest to its goal, unless
    the direct route means no more off-road driving than that.
    """

    def __init__(
        self, terrain: Terrain, speed_mps: float, roads: RoadNetwork | None = None, off_road_factor: float = 1.0
    ) -> None:
        self._terrain = terrain
        self._speed_mps = speed_mps
        self._roads = roads
        self._off_road_mps = speed_mps if roads is None else speed_mps * off_road_factor

    def way(self, start: FloatArray, aim: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Seconds since departure [k] and positions [k,2] from an open position to the aim, or as near as possible."""
        if self._roads is None:
            return self._terrain.timed_route(self._terrain.route(start, aim), self._off_road_mps)
        goal = self._terrain.within_reach(start, aim)
        on, by_road, off = self._by_road(self._roads, start, goal)
        off_road_m = _length(on) + _length(off)
        if np.hypot(*(goal - start)) <= off_road_m:  # otherwise no direct route can be short enough
            direct = self._terrain.route(start, goal)
            if _length(direct) <= off_road_m:
                return self._terrain.timed_route(direct, self._off_road_mps)
        return self._joined([(on, self._off_road_mps), (by_road, self._speed_mps), (off, self._off_road_mps)])

    def _by_road(
        self, roads: RoadNetwork, start: FloatArray, goal: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Routes to, on and from the road, on the part of the network with the smallest total distance to both ends."""
        part = int(np.argmin(roads.gaps(start) + roads.gaps(goal)))
        enter, leave = (roads.access(self._terrain, position, part) for position in (start, goal))
        by_road = roads.routes(enter[None], leave[None], part)[0]
        return self._terrain.route(start, enter), by_road, self._terrain.route(leave, goal)

    def _joined(self, routes: list[tuple[FloatArray, float]]) -> tuple[FloatArray, FloatArray]:
        seconds, positions = [np.zeros(1)], [routes[0][0][:1]]
        for route, speed_mps in routes:
            spent, points = self._terrain.timed_route(route, speed_mps)
            seconds.append(seconds[-1][-1] + spent[1:])
            positions.append(points[1:])
        return np.concatenate(seconds), np.concatenate(positions)


def _length(route: FloatArray) -> float:
    return float(np.hypot(*np.diff(route, axis=0).T).sum())
