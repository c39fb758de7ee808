"""The ground: a rectangle in metres with obstacles and surfaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.jamming import Jamming, JammingZone
from fedmule.mobility.routing import Router

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Nobody comes closer than this to what stops movement. It keeps every position off the walls, so that rounding
# can never put a driver inside one; gaps narrower than twice this are closed.
CLEARANCE_M = 0.01

PLACE_TRIES = 64  # proposals for one random position before settling for the border of the open ground


@dataclass(frozen=True)
class Obstacle:
    """A polygon that may stop movement and may weaken radio."""

    polygon: shapely.Polygon
    stops_movement: bool = True
    radio_loss_db: float = 0.0  # taken once from every ray that crosses it
    name: str = ""


@dataclass(frozen=True)
class Surface:
    """A polygon on which everyone moves `speed_factor` times as fast; the last one listed lies on top."""

    polygon: shapely.Polygon
    speed_factor: float
    name: str = ""


class Terrain:
    """A rectangle from (0, 0) to `size_m`; says where one can stand, walk and drive, and what a ray loses."""

    def __init__(
        self,
        size_m: tuple[float, float],
        obstacles: Sequence[Obstacle] = (),
        surfaces: Sequence[Surface] = (),
        jamming_zones: Sequence[JammingZone] = (),
    ) -> None:
        self.size_m = size_m
        self.obstacles = tuple(obstacles)
        self.surfaces = tuple(surfaces)
        ground = shapely.box(0.0, 0.0, *size_m)
        walls = shapely.union_all([o.polygon for o in self.obstacles if o.stops_movement])
        open_ground = ground.difference(walls.buffer(CLEARANCE_M, join_style="mitre"))
        # The connected open areas, largest first: one cannot move from one to another.
        self.areas = sorted(_polygons(open_ground), key=lambda area: -area.area)
        for area in self.areas:
            shapely.prepare(area)
        self.router = Router(walls, ground, CLEARANCE_M)
        corners = [shapely.get_coordinates(s.polygon) for s in self.surfaces]
        self._surface_low = np.array([c.min(axis=0) for c in corners]).reshape(-1, 2)
        self._surface_high = np.array([c.max(axis=0) for c in corners]).reshape(-1, 2)
        self._surface_edges = shapely.union_all([s.polygon.boundary for s in self.surfaces])
        shapely.prepare(self._surface_edges)
        self._jamming = Jamming(jamming_zones)
        screens = [o for o in self.obstacles if o.radio_loss_db > 0]
        self._screens = [np.asarray(shapely.get_coordinates(o.polygon)) for o in screens]
        self._screen_loss_db = np.array([o.radio_loss_db for o in screens])
        self._screen_tree = shapely.STRtree([o.polygon for o in screens])

    # --- where one can stand -------------------------------------------------------------------------------

    def area_of(self, xy: FloatArray) -> IntArray:
        """The open area each position [m,2] lies in; -1 for a position inside an obstacle or off the terrain."""
        found = np.full(len(xy), -1, dtype=np.int64)
        for index, area in enumerate(self.areas):
            left = np.flatnonzero(found < 0)
            if not left.size:
                break
            found[left[shapely.intersects_xy(area, xy[left, 0], xy[left, 1])]] = index
        return found

    def nearest_open(self, xy: FloatArray, area: int = 0) -> FloatArray:
        """The position in the open area nearest to xy [2]."""
        line = shapely.shortest_line(self.areas[area], shapely.Point(*xy))
        return shapely.get_coordinates(line)[0]

    def nearest_area(self, xy: FloatArray) -> int:
        """The open area nearest to xy [2]."""
        return int(np.argmin(shapely.distance(shapely.Point(*xy), self.areas)))

    def open_positions(self, count: int, propose: Callable[[IntArray, int], FloatArray]) -> FloatArray:
        """Positions [count,2] in the largest open area: the first open ones of `propose(rows, attempt)` [len(rows),2]."""
        positions = np.empty((count, 2))
        left = np.arange(count)
        for attempt in range(PLACE_TRIES):
            positions[left] = propose(left, attempt)
            left = left[self.area_of(positions[left]) != 0]
            if not left.size:
                return positions
        for i in left:  # hardly any open ground there: settle for its border
            positions[i] = self.nearest_open(positions[i])
        return positions

    # --- where one can go ----------------------------------------------------------------------------------

    def clear(self, start: FloatArray, end: FloatArray) -> BoolArray:
        """Whether the straight ways between positions [m,2] and [m,2] are free of what stops movement."""
        return self.router.clear(start, end)

    def route(self, start: FloatArray, goal: FloatArray) -> FloatArray:
        """The shortest way [k,2] from an open position to the goal, or to the position nearest it that can be reached."""
        if self.router.clear(start[None], goal[None])[0] and self._inside(goal):
            return np.stack([start, goal])
        goal, area = self.within_reach(start, goal), self.nearest_area(start)
        if self.area_of(start[None])[0] >= 0:
            return self.router.route(start, goal)
        # Stopped within the clearance of a wall: step back first.
        return np.concatenate([start[None], self.router.route(self.nearest_open(start, area), goal)])

    def within_reach(self, start: FloatArray, goal: FloatArray) -> FloatArray:
        """The goal [2], or the position nearest to it that can be reached from an open position [2]."""
        area = self.nearest_area(start)
        if self.nearest_area(goal) != area or not self._inside(goal) or self.area_of(goal[None])[0] < 0:
            return self.nearest_open(goal, area)
        return goal

    def off_surfaces(self, low: FloatArray, high: FloatArray) -> BoolArray:
        """Which of the boxes between corners [m,2] and [m,2] surely touch no surface."""
        apart = (high[:, None] < self._surface_low) | (low[:, None] > self._surface_high)
        return np.asarray(np.all(np.any(apart, axis=2), axis=1))

    def timed_route(self, route: FloatArray, speed_mps: float) -> tuple[FloatArray, FloatArray]:
        """Seconds since departure [k] and positions [k,2] along a route, slower or faster on the surfaces."""
        if self.surfaces:
            route, factors = self._split_at_surfaces(route)
        else:
            factors = np.ones(len(route) - 1)
        lengths = np.hypot(*np.diff(route, axis=0).T)
        return np.concatenate([[0.0], np.cumsum(lengths / (speed_mps * factors))]), route

    def _inside(self, xy: FloatArray) -> bool:
        return bool(0 <= xy[0] <= self.size_m[0] and 0 <= xy[1] <= self.size_m[1])

    def _split_at_surfaces(self, route: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The route with a point wherever the surface changes, and the speed factor of each of its legs."""
        if self.off_surfaces(route.min(axis=0)[None], route.max(axis=0)[None])[0]:
            return route, np.ones(len(route) - 1)
        lines = shapely.linestrings(np.stack([route[:-1], route[1:]], axis=1))
        if not shapely.intersects(self._surface_edges, lines).any():
            return route, np.array([self._speed_factor(middle) for middle in (route[:-1] + route[1:]) / 2])
        points, factors = [route[0]], []
        for a, b in pairwise(route):
            line = shapely.LineString([a, b])
            cuts = [0.0, 1.0]
            for surface in self.surfaces:
                meets = shapely.get_coordinates(surface.polygon.boundary.intersection(line))
                if len(meets):
                    cuts.extend(np.hypot(*(meets - a).T) / max(line.length, 1e-12))
            shares = np.unique(np.clip(cuts, 0.0, 1.0))
            for s0, s1 in pairwise(shares):
                middle = a + (b - a) * (s0 + s1) / 2
                points.append(b if s1 == 1.0 else a + (b - a) * s1)
                factors.append(self._speed_factor(middle))
        return np.array(points), np.array(factors)

    def _speed_factor(self, xy: FloatArray) -> float:
        for surface in reversed(self.surfaces):
            if shapely.contains_xy(surface.polygon, *xy):
                return surface.speed_factor
        return 1.0

    # --- what a ray loses ----------------------------------------------------------------------------------

    def radio_loss_db(self, start: FloatArray, ends: FloatArray) -> FloatArray:
        """Loss [m] in dB of the rays from start ([2] or [m,2]) to ends [m,2]: obstacles crossed, and jamming."""
        loss = self._jamming.loss_db(start, ends)
        if len(self._screens) and len(ends):
            rays = shapely.linestrings(np.stack([np.broadcast_to(start, ends.shape), ends], axis=1))
            ray, screen = self._screen_tree.query(rays, predicate="intersects")
            np.add.at(loss, ray, self._screen_loss_db[screen])
        return loss

    def loss_changes(self, eye: FloatArray, start: FloatArray, end: FloatArray) -> FloatArray:
        """Shares of the way start→end, in (0,1), where what stands between it and a fixed eye may change.

        The view changes only where the ray from the eye passes a corner of an obstacle or the walker crosses
        one of its edges or a jamming zone's; the loss is constant in between.
        """
        shares = [self._jamming.changes(start, end)]
        way = end - start
        for screen in self._screens_near(eye, start, end):
            corners = self._screens[screen]
            shares.append(_crossing_shares(start, way, eye, corners - eye))
            shares.append(_crossing_shares(start, way, corners[:-1], np.diff(corners, axis=0)))
        return _inside_shares(shares)

    def loss_changes_between(self, a: FloatArray, a_end: FloatArray, b: FloatArray, b_end: FloatArray) -> FloatArray:
        """Shares of the ways a→a_end and b→b_end, gone at the same time, where what stands between both may change."""
        if not (a_end - a).any():
            return self.loss_changes(a, b, b_end)
        shares = [self._jamming.changes(a, a_end), self._jamming.changes(b, b_end)]
        for screen in self._screens_near(a, a_end, b, b_end):
            corners = self._screens[screen]
            shares.append(_aligned_shares(a - corners, a_end - a, b - corners, b_end - b))
            for start, way in ((a, a_end - a), (b, b_end - b)):
                shares.append(_crossing_shares(start, way, corners[:-1], np.diff(corners, axis=0)))
        return _inside_shares(shares)

    def _screens_near(self, *positions: FloatArray) -> IntArray:
        """What may weaken a ray within the box round these positions [2]."""
        if not len(self._screens):
            return np.empty(0, dtype=np.int64)
        return np.asarray(self._screen_tree.query(shapely.linestrings(np.stack(positions))))


def _inside_shares(shares: list[FloatArray]) -> FloatArray:
    found = np.concatenate(shares)
    return np.unique(found[(found > 0) & (found < 1)])


def _aligned_shares(a: FloatArray, a_way: FloatArray, b: FloatArray, b_way: FloatArray) -> FloatArray:
    """Shares s where a + s·a_way and b + s·b_way lie on a line with 0, for a and b [m,2]: roots of quadratics."""
    constant = _cross(a, b)
    linear = _cross(a, b_way) + _cross(a_way, b)
    quadratic = np.full(len(a), float(_cross(a_way, b_way)))
    with np.errstate(divide="ignore", invalid="ignore"):
        half = -(linear + np.copysign(np.sqrt(linear**2 - 4 * quadratic * constant), linear)) / 2
        roots = np.concatenate([half / quadratic, constant / half])  # neither loses digits where the other is large
    return roots[np.isfinite(roots)]


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])

    def _screens_near(self, *positions: FloatArray) -> IntArray:
        """What may weaken a ray within the box round these positions [2]."""
        if not len(self._screens):
            return np.empty(0, dtype=np.int64)
        return np.asarray(self._screen_tree.query(shapely.linestrings(np.stack(positions))))


def _crossing_shares(start: FloatArray, way: FloatArray, origins: FloatArray, directions: FloatArray) -> FloatArray:
    """Shares s where start + s·way meets the lines origins + u·directions; parallel lines give none."""
    cross = way[0] * directions[:, 1] - way[1] * directions[:, 0]
    offset = origins - start
    ahead = offset[..., 0] * directions[:, 1] - offset[..., 1] * directions[:, 0]
    usable = cross != 0
    return ahead[usable] / cross[usable]


def _polygons(geometry: shapely.Geometry) -> list[shapely.Polygon]:
    return [part for part in shapely.get_parts(geometry) if isinstance(part, shapely.Polygon) and not part.is_empty]
