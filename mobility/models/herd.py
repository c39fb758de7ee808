"""Herds: animals that rest, graze and walk together."""

from __future__ import annotations

import math

import numpy as np

from fedmule.mobility.models.bouncing import Bounds
from fedmule.mobility.models.movement import (
    Draw,
    FloatArray,
    IntArray,
    Movement,
    Routes,
    Waypoints,
    fastest_routes,
    headings,
    normals,
    random_positions,
)
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import position_at

REST, GRAZE, WALK = range(3)
LOST = 4.0  # distance from the centre, in spreads, beyond which an animal behind a wall is lost


class Herd(Movement):
    """Herds whose centre rests, grazes or walks, and whose animals wander about that centre.

    An animal's offset from the centre is an Ornstein–Uhlenbeck process: N(0, `spread_m`²) along each axis at all
    times, with correlation e^(−t/`memory_s`). Every `step_s` the centre switches, with probability `step_s` divided by
    the mean duration of its activity, to either of the other two with equal probability, so it spends its time in
    proportion to the mean durations. When grazing it takes a new direction every step, when walking it keeps one.
    Nobody is faster than `top_speed_mps`; an animal that cannot keep up follows.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        herds: int,
        spread_m: float,
        memory_s: float,
        rest_s: float,
        graze_s: float,
        walk_s: float,
        graze_mps: float,
        walk_mps: float,
        top_speed_mps: float,
        step_s: float,
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._spread_m = spread_m
        self._memory = math.exp(-step_s / memory_s)
        self._mean_s = np.array([rest_s, graze_s, walk_s])
        self._speed_mps = np.array([0.0, graze_mps, walk_mps])
        self._top_mps = top_speed_mps
        self._step_s = step_s
        self._bounds = Bounds(terrain)
        herds = min(herds, count)
        self.squad = np.arange(count) * herds // count  # [n] herd of each client: of equal size, in order
        self._ids = herds + np.arange(count)  # [n] ids of the animals' draws; lower ids are those of the centres
        self._steps = np.zeros(herds, dtype=np.int64)  # steps taken so far; numbers the draws
        self.phase = np.zeros(herds, dtype=np.int64)  # activity of each herd: REST, GRAZE or WALK
        self.centre = np.empty((herds, 2))
        self._heading = np.empty((herds, 2))
        self._last = np.empty((count, 2))  # where each client's known waypoints end

    def start(self) -> FloatArray:
        """Centres uniform over the open ground, activities and offsets in the steady state."""
        herd = np.arange(len(self._steps))
        uniform = self._draw(herd, 0 * herd - 1, 2)
        self.centre = random_positions(self._terrain, self._draw, herd, 0 * herd)
        self.phase = np.searchsorted(np.cumsum(self._mean_s), uniform[:, 0] * self._mean_s.sum(), side="right")
        self._heading = headings(uniform[:, 1])
        offset = self._spread_m * normals(self._draw(self._ids, 0 * self._ids, 2))
        self._last = self._open(self.centre[self.squad] + offset)
        return self._last.copy()

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """Next step of the herds of these clients, with all their animals."""
        herd = np.unique(self.squad[client])
        self._steps[herd] += 1
        old = self.centre.copy()
        self._lead(herd)
        member = np.flatnonzero(np.isin(self.squad, herd))
        step = self._steps[self.squad[member]]
        noise = normals(self._draw(self._ids[member], step, 2))
        walk = self._in_a_step(self._follow(member, old[self.squad[member]], noise), member)
        self._last[member] = walk.end
        began_s = (step - 1) * self._step_s
        return Waypoints(member[walk.walker], began_s[walk.walker] + walk.seconds, walk.xy)

    def _follow(self, member: IntArray, old: FloatArray, noise: FloatArray) -> Routes:
        """Routes of animals for one step, at top speed; `old` [m,2] are the centres before it.

        Offsets o from the centre become ρ o + s √(1 − ρ²) w. Animals bounce off walls; one that is lost behind a wall
        goes round it.
        """
        here, centre, top_mps = self._last[member], self.centre[self.squad[member]], np.full(len(member), self._top_mps)
        wander = math.sqrt(1 - self._memory**2) * self._spread_m * noise
        goal = centre + self._memory * (here - old) + wander
        lost = np.hypot(*(here - centre).T) > LOST * self._spread_m
        lost[lost] = ~self._terrain.clear(here[lost], centre[lost])
        move = goal - here
        metres = np.hypot(*move.T)
        move *= np.minimum(1.0, self._top_mps * self._step_s / np.maximum(metres, 1e-12))[:, None]
        own, found = np.flatnonzero(~lost), np.flatnonzero(lost)
        free = self._bounds.go(here[own], move[own], top_mps[own]).routes
        back = fastest_routes(self._terrain, here[found], centre[found], top_mps[found])
        duration, end = np.empty(len(member)), np.empty((len(member), 2))
        duration[own], duration[found], end[own], end[found] = free.duration, back.duration, free.end, back.end
        return Routes(
            np.concatenate([own[free.walker], found[back.walker]]),
            np.concatenate([free.seconds, back.seconds]),
            np.concatenate([free.xy, back.xy]),
            duration,
            end,
        )

    def _lead(self, herd: IntArray) -> None:
        """Advance the centres by one step."""
        uniform = self._draw(herd, -1 - self._steps[herd], 3)
        phase = self.phase[herd]
        changes = uniform[:, 0] * self._mean_s[phase] < self._step_s
        other = (phase + 1 + (uniform[:, 1] * 2).astype(np.int64)) % 3
        self.phase[herd] = phase = np.where(changes, other, phase)
        turns = changes | (phase == GRAZE)
        heading = np.where(turns[:, None], headings(uniform[:, 2]), self._heading[herd])
        metres = self._speed_mps[phase] * self._step_s
        bounced = self._bounds.go(self.centre[herd], heading * np.maximum(metres, 1e-9)[:, None], np.ones(len(herd)))
        self._heading[herd] = bounced.move / np.maximum(metres, 1e-9)[:, None]
        moves = metres > 0
        self.centre[herd[moves]] = bounced.routes.end[moves]

    def _open(self, xy: FloatArray) -> FloatArray:
        """Positions [m,2] mirrored at the borders, and moved out of walls to the nearest open ground."""
        size = np.array(self._terrain.size_m)
        xy = size - np.abs(size - np.abs(xy) % (2 * size))
        for i in np.flatnonzero(self._terrain.area_of(xy) != 0):
            xy[i] = self._terrain.nearest_open(xy[i])
        return xy

    def _in_a_step(self, walk: Routes, member: IntArray) -> Routes:
        """Walks slowed down to take exactly one step, or cut off at its end."""
        late = walk.duration > self._step_s
        pace = self._step_s / np.where(walk.duration > 0, walk.duration, 1.0)
        spent = np.where(walk.duration[walk.walker] > 0, walk.seconds * pace[walk.walker], self._step_s)
        kept, end = ~late[walk.walker], walk.end.copy()
        parts = [(walk.walker[kept], spent[kept], walk.xy[kept])]
        for i in np.flatnonzero(late):
            rows = np.flatnonzero(walk.walker == i)
            times = np.append(0.0, walk.seconds[rows])
            route = np.concatenate([self._last[member[i]][None], walk.xy[rows]])
            end[i] = self._open(position_at(times, route, np.array([self._step_s])))[0]
            rows = rows[walk.seconds[rows] < self._step_s]
            seconds, xy = np.append(walk.seconds[rows], self._step_s), np.concatenate([walk.xy[rows], end[i][None]])
            parts.append((np.full(len(seconds), i), seconds, xy))
        walker, seconds, xy = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Routes(walker, seconds, xy, np.full(len(end), self._step_s), end)
