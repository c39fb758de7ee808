"""The ground: a rectangle in metres with obstacles and surfaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.projection import Origin
from fedmule.mobility.routing import Router

if TYPE_CHECKING:
    from fedmule.mobility.fastest import FastestRouter
    from fedmule.mobility.surface_times import Outlines

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Distance that everybody keeps from walls (obstacles that stop movement), so that rounding can never put a driver
# inside one; gaps narrower than twice this are closed.
CLEARANCE_M = 0.01

POSITION_TRIES = 64  # proposals for one random position before settling for the border of the open ground


@dataclass(frozen=True)
class Obstacle:
    """A polygon that may stop movement and may attenuate radio."""

    polygon: shapely.Polygon
    stops_movement: bool = True
    radio_loss_db: float = 0.0  # loss of a ray that crosses it, once however long the crossing
    name: str = ""


@dataclass(frozen=True)
class Surface:
    """A polygon on which everybody moves `speed_factor` times as fast; the last one listed is on top."""

    polygon: shapely.Polygon
    speed_factor: float
    name: str = ""


class Terrain:
    """A rectangle from (0, 0) to `size_m`: where clients and vehicles can be, and the routes between positions."""

    def __init__(
        self,
        size_m: tuple[float, float],
        obstacles: Sequence[Obstacle] = (),
        surfaces: Sequence[Surface] = (),
        origin: Origin | None = None,
    ) -> None:
        self.size_m = size_m
        self.origin = origin  # longitude and latitude of (0, 0), where they are known
        self.obstacles = tuple(obstacles)
        self.surfaces = tuple(surfaces)
        ground = shapely.box(0.0, 0.0, *size_m)
        self.router = Router([o.polygon for o in self.obstacles if o.stops_movement], ground, CLEARANCE_M)
        open_ground = ground.difference(self.router.inflated)
        # The connected open areas, largest first; no route leads from one to another.
        self.areas = sorted(_polygons(open_ground), key=lambda area: -area.area)
        for area in self.areas:
            shapely.prepare(area)
        boxes = shapely.bounds([s.polygon for s in self.surfaces]).reshape(-1, 2, 2)
        self._surface_low, self._surface_high = boxes[:, 0], boxes[:, 1]

    # --- positions -----------------------------------------------------------------------------------------

    def area_of(self, xy: FloatArray) -> IntArray:
        """Open area [m] that each position [m,2] lies in; -1 for a position inside a wall or off the terrain."""
        found = np.full(len(xy), -1, dtype=np.int64)
        for index, area in enumerate(self.areas):
            left = np.flatnonzero(found < 0)
            if not left.size:
                break
            found[left[shapely.intersects_xy(area, xy[left, 0], xy[left, 1])]] = index
        return found

    def nearest_open(self, xy: FloatArray, area: int = 0) -> FloatArray:
        """Position [2] of an open area that is nearest to xy [2]."""
        line = shapely.shortest_line(self.areas[area], shapely.Point(*xy))
        return np.asarray(shapely.get_coordinates(line)[0])

    def nearest_area(self, xy: FloatArray) -> int:
        """Open area that is nearest to xy [2]."""
        return int(np.argmin(shapely.distance(shapely.Point(*xy), self.areas)))

    def open_positions(self, count: int, propose: Callable[[IntArray, int], FloatArray]) -> FloatArray:
        """Positions [count,2] in the largest open area, by rejection.

        `propose(rows, attempt)` returns positions [len(rows),2]; the first open one for each row is taken.
        """
        positions = np.empty((count, 2))
        left = np.arange(count)
        for attempt in range(POSITION_TRIES):
            positions[left] = propose(left, attempt)
            left = left[self.area_of(positions[left]) != 0]
            if not left.size:
                return positions
        for i in left:  # hardly any open ground there: settle for its border
            positions[i] = self.nearest_open(positions[i])
        return positions

    # --- routes --------------------------------------------------------------------------------------------

    def clear(self, start: FloatArray, end: FloatArray) -> BoolArray:
        """Whether each straight line from start [m,2] to end [m,2] keeps off the walls."""
        return self.router.clear(start, end)

    def route(self, start: FloatArray, goal: FloatArray) -> FloatArray:
        """Fastest route [k,2] from an open position to the goal, or to the reachable position nearest to it."""
        if self.router.clear(start[None], goal[None])[0] and self._inside(goal):
            return self._ways.route(start, goal) if self.surfaces else np.stack([start, goal])
        goal, area = self.within_reach(start, goal), self.nearest_area(start)
        if self.area_of(start[None])[0] >= 0:
            return self._ways.route(start, goal)
        # It stopped within the clearance of a wall: step back first.
        return np.concatenate([start[None], self._ways.route(self.nearest_open(start, area), goal)])

    def within_reach(self, start: FloatArray, goal: FloatArray) -> FloatArray:
        """The goal [2] itself, or the position nearest to it that is reachable from an open position [2]."""
        area = self.nearest_area(start)
        if self.nearest_area(goal) != area or not self._inside(goal) or self.area_of(goal[None])[0] < 0:
            return self.nearest_open(goal, area)
        return goal

    def off_surfaces(self, low: FloatArray, high: FloatArray) -> BoolArray:
        """Which of the boxes with corners low [m,2] and high [m,2] are certain to touch no surface."""
        apart = (high[:, None] < self._surface_low) | (low[:, None] > self._surface_high)
        return np.asarray(np.all(np.any(apart, axis=2), axis=1))

    def timed_route(self, route: FloatArray, speed_mps: float) -> tuple[FloatArray, FloatArray]:
        """Seconds since departure [k] and positions [k,2] along a route, at the speed that each surface allows."""
        factors: float | FloatArray = 1.0
        if self.surfaces:
            from fedmule.mobility.surface_times import split

            route, factors, _ = split(self._outlines, np.ascontiguousarray(route))
        lengths = np.hypot(*np.diff(route, axis=0).T)
        return np.concatenate([[0.0], np.cumsum(lengths / (speed_mps * factors))]), route

    def slowness(self, xy: FloatArray) -> FloatArray:
        """Seconds per metre [m] at positions [m,2], at 1 m/s on plain ground."""
        found = np.ones(len(xy))
        for surface in self.surfaces:
            found[shapely.contains_xy(surface.polygon, xy[:, 0], xy[:, 1])] = 1 / surface.speed_factor
        return found

    @cached_property
    def highest_factor(self) -> float:
        """The highest factor on the speed anywhere: 1 on plain ground."""
        return max(1.0, *(surface.speed_factor for surface in self.surfaces)) if self.surfaces else 1.0

    def seconds(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Seconds [m] of straight legs from start [m,2] to end [m,2], at 1 m/s on plain ground."""
        if not self.surfaces:
            return np.asarray(np.hypot(*(end - start).T))
        from fedmule.mobility.surface_times import seconds_between

        return np.asarray(seconds_between(self._outlines, np.ascontiguousarray(start), np.ascontiguousarray(end)))

    # Compiled, so only where they are needed.
    @cached_property
    def _outlines(self) -> Outlines:
        from fedmule.mobility.surface_times import outlines

        return outlines([s.polygon for s in self.surfaces], [s.speed_factor for s in self.surfaces])

    @cached_property
    def _ways(self) -> Router | FastestRouter:
        if not self.surfaces:
            return self.router
        from fedmule.mobility.fastest import FastestRouter

        polygons, ground = [s.polygon for s in self.surfaces], shapely.box(0.0, 0.0, *self.size_m)
        return FastestRouter(self.router, self._outlines, polygons, ground)

    def _inside(self, xy: FloatArray) -> bool:
        return bool(0 <= xy[0] <= self.size_m[0] and 0 <= xy[1] <= self.size_m[1])


def _polygons(geometry: shapely.Geometry) -> list[shapely.Polygon]:
    return [part for part in shapely.get_parts(geometry) if isinstance(part, shapely.Polygon) and not part.is_empty]
