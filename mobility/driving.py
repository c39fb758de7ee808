"""Ways of the vehicle: across open ground, or by road."""

from __future__ import annotations

import math

import numpy as np

from fedmule.mobility.models.movement import FloatArray, IntArray
from fedmule.mobility.road_network import RoadNetwork
from fedmule.mobility.terrain import Terrain

Route = tuple[FloatArray, float]  # positions [k,2], and the factor on the vehicle's speed
Access = tuple[FloatArray, IntArray, FloatArray]  # positions [m,2] on roads, their segments, seconds to or from there


class Driving:
    """Fastest ways of a vehicle. Where there are roads it is slower off them, by `off_road_factor`.

    It leaves the roads only at the ends, straight where walls allow it, and enters and leaves them where the way is
    fastest as a whole; or it drives across open ground all the way if that is faster.
    """

    def __init__(
        self, terrain: Terrain, speed_mps: float, roads: RoadNetwork | None = None, off_road_factor: float = 1.0
    ) -> None:
        self._terrain = terrain
        self._speed_mps = speed_mps
        self._roads = roads
        self._off_road = 1.0 if roads is None else off_road_factor
        # Tangent of the critical angle, at which it is best to turn into a straight road.
        self._aside = self._off_road / math.sqrt(max(1 - self._off_road**2, 1e-12))

    def way(self, start: FloatArray, aim: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Seconds since departure [k] and positions [k,2] from an open position to the aim, or as near as possible."""
        if self._roads is None:
            return self._timed([(self._terrain.route(start, aim), 1.0)])
        goal = self._terrain.within_reach(start, aim)
        seconds, positions = self._timed(self._by_road(self._roads, start, goal))
        if np.hypot(*(goal - start)) < seconds[-1] * self._speed_mps * self._off_road * self._roads.top:
            direct = self._timed([(self._terrain.route(start, goal), self._off_road)])
            if direct[0][-1] <= seconds[-1]:
                return direct
        return seconds, positions

    def _by_road(self, roads: RoadNetwork, start: FloatArray, goal: FloatArray) -> list[Route]:
        """Fastest way that uses the roads: the routes to them, on them and from them."""
        # Any way by road bounds the time, and so the number of positions to consider.
        part = int(np.argmin(roads.gaps(start) + roads.gaps(goal)))
        usual = [self._usual(roads, position, part) for position in (start, goal)]
        most_s = roads.fastest(usual[0], usual[1], goal)[3]
        begin, end = (
            self._worthwhile(roads, here, there, access, most_s)
            for here, there, access in ((start, goal, usual[0]), (goal, start, usual[1]))
        )
        by_road, _, _, _ = roads.fastest(begin, end, goal)
        on, off = self._terrain.route(start, by_road[0]), self._terrain.route(by_road[-1], goal)
        return [(on, self._off_road), (by_road, 1.0), (off, self._off_road)]

    def _usual(self, roads: RoadNetwork, position: FloatArray, part: int) -> Access:
        """The position of a part of the network that is nearest to a position."""
        near = roads.access(self._terrain, position, part)[None]
        route = self._terrain.route(position, near[0])
        seconds = self._terrain.timed_route(route, self._off_road)[0][-1:]
        return near, roads.nearest(near, part)[1], seconds

    def _worthwhile(
        self, roads: RoadNetwork, here: FloatArray, there: FloatArray, usual: Access, most_s: float
    ) -> Access:
        """Where to enter or leave the roads near one end of a way, as far as it can take less than some seconds."""
        positions, segments = roads.candidates(here, self._aside)
        near_m, rest_m = np.hypot(*(positions - here).T), np.hypot(*(positions - there).T)
        chosen = np.flatnonzero(near_m / self._off_road + rest_m < most_s * roads.top)
        chosen = chosen[self._terrain.clear(np.broadcast_to(here, (len(chosen), 2)), positions[chosen])]
        seconds = self._terrain.seconds(np.broadcast_to(here, (len(chosen), 2)), positions[chosen]) / self._off_road
        return (
            np.concatenate([usual[0], positions[chosen]]),
            np.concatenate([usual[1], segments[chosen]]),
            np.concatenate([usual[2], seconds]),
        )

    def _timed(self, routes: list[Route]) -> tuple[FloatArray, FloatArray]:
        seconds, positions = [np.zeros(1)], [routes[0][0][:1]]
        for route, factor in routes:
            spent, points = self._terrain.timed_route(route, self._speed_mps * factor)
            seconds.append(seconds[-1][-1] + spent[1:])
            positions.append(points[1:])
        return np.concatenate(seconds), np.concatenate(positions)
