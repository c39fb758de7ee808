"""Straight moves that bounce off walls and borders, like light off a mirror."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely

from fedmule.mobility.models.movement import FloatArray, IntArray, Routes, timed_routes
from fedmule.mobility.terrain import Terrain

TOUCH_M = 1e-7  # tolerance, so that rounding lets nobody slip past a corner; far below the clearance off walls
MOST_BOUNCES = 64  # in one move; a walker caught in a narrow corner stops there


@dataclass(frozen=True)
class Bounced:
    """Outcome of moves."""

    routes: Routes
    move: FloatArray  # [m,2] the moves, in the directions they have after all bounces


class Bounds:
    """Edges of the largest open area. Bounces preserve lengths and angles, so a uniform crowd stays uniform."""

    def __init__(self, terrain: Terrain) -> None:
        self._terrain = terrain
        area = shapely.orient_polygons(terrain.areas[0])  # the open side is on the left of every edge
        rings = [shapely.get_coordinates(ring) for ring in (area.exterior, *area.interiors)]
        self._from = np.concatenate([ring[:-1] for ring in rings])
        edges = np.concatenate([np.diff(ring, axis=0) for ring in rings])
        self._length = np.hypot(*edges.T)
        self._along = edges / self._length[:, None]
        self._inward = np.stack([-self._along[:, 1], self._along[:, 0]], axis=1)
        lines = shapely.linestrings(np.stack([self._from, self._from + edges], axis=1))
        self._tree = shapely.STRtree(np.asarray(lines))

    def go(self, start: FloatArray, move: FloatArray, speed_mps: FloatArray) -> Bounced:
        """Make moves [m,2] from positions [m,2] of the area at speeds [m]."""
        if len(start) and self._nothing_near(start, start + move):
            end, metres = np.clip(start + move, 0.0, self._terrain.size_m), np.hypot(*move.T)
            return Bounced(Routes(np.arange(len(start)), metres / speed_mps, end, metres / speed_mps, end.copy()), move)
        here, left, move = start.copy(), move.copy(), move.copy()
        passed_m = np.zeros(len(start))
        walkers, metres, points = [], [], []
        going = np.arange(len(start))
        for _ in range(MOST_BOUNCES):
            fraction, edge = self._first_hit(here[going], left[going])
            step = fraction[:, None] * left[going]
            here[going] = np.clip(here[going] + step, 0.0, self._terrain.size_m)
            passed_m[going] += np.hypot(*step.T)
            walkers.append(going)
            metres.append(passed_m[going])
            points.append(here[going])
            left[going] -= step
            hit = edge >= 0
            going, normal = going[hit], self._inward[edge[hit]]
            for vector in (left, move):  # v − 2 (v·n) n
                vector[going] -= 2 * (vector[going] * normal).sum(axis=1)[:, None] * normal
            if not going.size:
                break
        passed_m[going] += np.hypot(*left[going].T)  # time passes for a walker that is caught
        walkers.append(going)
        metres.append(passed_m[going])
        points.append(here[going])
        walker, along_m, xy = np.concatenate(walkers), np.concatenate(metres), np.concatenate(points)
        low, high = start.copy(), start.copy()
        np.minimum.at(low, walker, xy)
        np.maximum.at(high, walker, xy)
        if not self._terrain.off_surfaces(low, high).all():
            routes = [np.concatenate([start[i][None], xy[walker == i]]) for i in range(len(start))]
            return Bounced(timed_routes(self._terrain, routes, speed_mps), move)
        return Bounced(Routes(walker, along_m / speed_mps[walker], xy, passed_m / speed_mps, here), move)

    def _nothing_near(self, start: FloatArray, end: FloatArray) -> bool:
        """Whether one box about all moves from start [m,2] to end [m,2] holds neither an edge nor a surface."""
        low = np.minimum(start.min(axis=0), end.min(axis=0)) - TOUCH_M
        high = np.maximum(start.max(axis=0), end.max(axis=0)) + TOUCH_M
        if self._tree.query(shapely.box(*low, *high)).size:
            return False
        return bool(self._terrain.off_surfaces(low[None], high[None])[0])

    def _first_hit(self, here: FloatArray, move: FloatArray) -> tuple[FloatArray, IntArray]:
        """Fraction [m] of each move at which it hits an edge from inside, and which edge [m]; 1 and -1 if none."""
        fraction, hit = np.ones(len(here)), np.full(len(here), -1, dtype=np.int64)
        low, high = np.minimum(here, here + move) - TOUCH_M, np.maximum(here, here + move) + TOUCH_M
        row, edge = self._tree.query(shapely.box(low[:, 0], low[:, 1], high[:, 0], high[:, 1]))
        towards = -(move[row] * self._inward[edge]).sum(axis=1)
        gap = ((here[row] - self._from[edge]) * self._inward[edge]).sum(axis=1)
        meets = (towards > 0) & (gap >= -TOUCH_M) & (gap <= towards)
        row, edge, at = row[meets], edge[meets], np.maximum(gap[meets] / towards[meets], 0.0)
        along = ((here[row] + at[:, None] * move[row] - self._from[edge]) * self._along[edge]).sum(axis=1)
        on_edge = (along >= -TOUCH_M) & (along <= self._length[edge] + TOUCH_M)
        row, edge, at = row[on_edge], edge[on_edge], at[on_edge]
        order = np.lexsort((edge, at, row))
        first = order[np.unique(row[order], return_index=True)[1]]
        fraction[row[first]], hit[row[first]] = at[first], edge[first]
        return fraction, hit
