"""Ways of the vehicle: across open ground, or by road."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import FloatArray
from fedmule.mobility.road_network import Access, RoadNetwork
from fedmule.mobility.terrain import Terrain


class Driving:
    """Fastest ways of a vehicle. Where there are roads it is slower off them, by `off_road_factor`.

    It leaves the roads only at the ends, and enters and leaves them where the way as a whole is fastest; or it drives
    across open ground all the way if that is faster.
    """

    def __init__(
        self, terrain: Terrain, speed_mps: float, roads: RoadNetwork | None = None, off_road_factor: float = 1.0
    ) -> None:
        self._terrain = terrain
        self._speed_mps = speed_mps
        self.roads = roads
        self._off_road = 1.0 if roads is None else off_road_factor

    def way(self, start: FloatArray, aim: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Seconds since departure [k] and positions [k,2] from an open position to the aim, or as near as possible."""
        if self.roads is None:
            return self._terrain.timed_route(self._terrain.route(start, aim), self._speed_mps)
        goal = self._terrain.within_reach(start, aim)
        seconds, positions = self._by_road(self.roads, start, goal)
        if np.hypot(*(goal - start)) < seconds[-1] * self._speed_mps * self._off_road * self.roads.top:
            direct = self._terrain.timed_route(self._terrain.route(start, goal), self._speed_mps * self._off_road)
            if direct[0][-1] <= seconds[-1]:
                return direct
        return seconds, positions

    def least_seconds(self, start: FloatArray, aims: FloatArray) -> FloatArray:
        """Lower bounds [m] of the seconds from a position [2] to aims [m,2]: straight lines at the highest speed."""
        return np.asarray(np.hypot(*(aims - start).T) / (self._speed_mps * self._terrain.highest_factor))

    def _by_road(self, roads: RoadNetwork, start: FloatArray, goal: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fastest way that uses the roads."""
        part = int(np.argmin(roads.gaps(start) + roads.gaps(goal)))
        enter = Ramps(self._terrain, roads, start, self._off_road, part)
        leave = Ramps(self._terrain, roads, goal, self._off_road, part)
        most_s = roads.fastest(enter.access, leave.access, goal)[3]  # a bound for all others
        enter.add(goal, most_s)
        leave.add(start, most_s)
        known = False
        while not known:  # the seconds of ramps that are not known yet are lower bounds, so the first known way is best
            by_road, i, j, _ = roads.fastest(enter.access, leave.access, goal)
            known = enter.know(i) & leave.know(j)
        on, off = enter.route(i), leave.route(j)[::-1]
        seconds, positions = [np.zeros(1)], [on[:1]]
        for route, factor in ((on, self._off_road), (by_road, 1.0), (off, self._off_road)):
            spent, points = self._terrain.timed_route(route, self._speed_mps * factor)
            seconds.append(seconds[-1][-1] + spent[1:])
            positions.append(points[1:])
        return np.concatenate(seconds), np.concatenate(positions)


class Ramps:
    """Where to enter or leave the roads at one end of a way, and the routes there; first of all the nearest position.

    Routes are found and timed only as needed; until then their seconds are those of the straight line, at top speed.
    """

    def __init__(self, terrain: Terrain, roads: RoadNetwork, here: FloatArray, off_road: float, part: int) -> None:
        self._terrain = terrain
        self._roads = roads
        self._here = here
        self._off_road = off_road
        near, segment = roads.access(terrain, here, part)
        self.access: Access = near, segment, np.zeros(1)
        self._routes: dict[int, FloatArray] = {}
        self.know(0)

    def add(self, there: FloatArray, most_s: float) -> None:
        """Add positions that may be part of a way from here to there, or back, in less than some seconds at 1 m/s."""
        positions, segments = self._roads.candidates(self._here, there, self._off_road, most_s)
        seconds = np.hypot(*(positions - self._here).T) / (self._off_road * self._roads.top)
        near, segment, known = self.access
        self.access = np.concatenate([near, positions]), np.append(segment, segments), np.append(known, seconds)

    def know(self, number: int) -> bool:
        """Find the route of a ramp and its seconds; returns whether they were known before."""
        if number in self._routes:
            return True
        positions, _, seconds = self.access
        route = self._routes[number] = self._terrain.route(self._here, positions[number])
        before = seconds[number]
        seconds[number] = self._terrain.timed_route(route, self._off_road)[0][-1]
        return bool(seconds[number] <= before * (1 + 1e-12))  # straight: what was assumed holds

    def route(self, number: int) -> FloatArray:
        """Route [k,2] from here to the road."""
        return self._routes[number]
