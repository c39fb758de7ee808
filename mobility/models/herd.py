"""Herds: animals that rest, graze and walk together."""

from __future__ import annotations

import math

import numpy as np

from fedmule.mobility.models.bouncing import Bounds
from fedmule.mobility.models.movement import (
    BoolArray,
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
from fedmule.mobility.trajectory import Way, position_at

REST, GRAZE, WALK = range(3)
LEG_S = (math.inf, 600.0, 60.0)  # longest leg of each activity; a grazing herd takes a new direction after it
FAR = 3.5  # distance from the centre, in spreads, beyond which an animal has strayed and returns


class Herd(Movement):
    """Herds that rest, graze or walk, each for exponential times, and whose animals do so too.

    While its herd rests an animal lies still. While it grazes an animal feeds at a spot for a time of mean `stop_s`,
    steps to another one, and so on, as the herd's centre moves on slowly in a direction that changes every ten
    minutes. A walking herd keeps its direction. With every step, or minute of walking, an animal's offset o from the
    centre becomes ρ o + s √(1 − ρ²) w: N(0, `spread_m`²) along each axis at all times, and ρ is such that steps are
    `stride_m` long on average, the centre's own movement apart. One that has strayed, behind an obstacle perhaps,
    returns on the shortest route at `top_speed_mps`.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        herds: int,
        spread_m: float,
        rest_s: float,
        graze_s: float,
        walk_s: float,
        graze_mps: float,
        walk_mps: float,
        stop_s: float,
        stride_m: float,
        top_speed_mps: float,
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._spread_m = spread_m
        # The mean length of a step with deviation σ along each axis is σ √(π/2).
        self._memory = math.sqrt(max(0.0, 1 - 2 / math.pi * (stride_m / spread_m) ** 2))
        self._mean_s = np.array([rest_s, graze_s, walk_s])
        self._speed_mps = np.array([0.0, graze_mps, walk_mps])
        self._stop_s = stop_s
        self._top_mps = top_speed_mps
        self._bounds = Bounds(terrain)
        herds = min(herds, count)
        self.squad = np.arange(count) * herds // count  # [n] herd of each client: of equal size, in order
        self._ids = herds + np.arange(count)  # [n] ids of the animals' draws; lower ids are those of the herds
        self._draws = np.zeros(count, dtype=np.int64)  # draws of each animal so far
        self._legs = np.zeros(herds, dtype=np.int64)  # legs of each herd so far; numbers its draws
        self.phase = np.zeros(herds, dtype=np.int64)  # activity of each herd: REST, GRAZE or WALK
        self._phase_until = np.zeros(herds)  # when it ends, s
        self._until = np.zeros(herds)  # when the known waypoints of a herd's animals end, s
        self.centre = np.empty((herds, 2))
        self._heading = np.empty((herds, 2))
        self._last = np.empty((count, 2))  # where each client's known waypoints end
        self._offset = np.empty((count, 2))  # from the centre, as it was when the animal last moved

    def start(self) -> FloatArray:
        """Centres uniform over the open ground, activities and offsets in the steady state."""
        herd = np.arange(len(self._legs))
        uniform = self._draw(herd, 0 * herd - 1, 3)
        self.centre = random_positions(self._terrain, self._draw, herd, 0 * herd)
        self.phase = np.searchsorted(np.cumsum(self._mean_s), uniform[:, 0] * self._mean_s.sum(), side="right")
        self._phase_until = -self._mean_s[self.phase] * np.log1p(-uniform[:, 1])
        self._heading = headings(uniform[:, 2])
        offset = self._spread_m * normals(self._draw(self._ids, 0 * self._ids, 2))
        self._last = self._open(self.centre[self.squad] + offset)
        self._offset = self._last - self.centre[self.squad]
        return self._last.copy()

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """Next leg of the herds of these clients, with all their animals."""
        return Waypoints.join([part for herd in np.unique(self.squad[client]) for part in self._leg(int(herd))])

    def _leg(self, herd: int) -> list[Waypoints]:
        """Waypoints of a herd's animals until its activity or its direction changes."""
        centre = self._lead(herd)
        begin, end = float(centre.times[0]), float(self._until[herd])
        member = np.flatnonzero(self.squad == herd)
        move = (self._rest, self._graze, self._walk)[self.phase[herd]]
        parts = move(member, centre, begin, end)
        return [*parts, Waypoints(member, np.full(len(member), end), self._last[member])]

    def _lead(self, herd: int) -> Way:
        """The way of a herd's centre until its activity or its direction changes."""
        self._legs[herd] += 1
        which, long, turn = self._draw(np.array([herd]), -1 - self._legs[[herd]], 3)[0]
        begin, phase = self._until[herd], int(self.phase[herd])
        changes = begin >= self._phase_until[herd]
        if changes:
            self.phase[herd] = phase = (phase + 1 + int(2 * which)) % 3
            self._phase_until[herd] = begin - self._mean_s[phase] * math.log1p(-long)
        if changes or phase == GRAZE:
            self._heading[herd] = headings(np.array([turn]))[0]
        self._until[herd] = end = min(self._phase_until[herd], begin + LEG_S[phase])
        metres, here = self._speed_mps[phase] * (end - begin), self.centre[herd].copy()
        if metres == 0:
            return Way.standing(here, begin)
        gone = self._bounds.go(here[None], (metres * self._heading[herd])[None], np.ones(1))
        self._heading[herd], self.centre[herd] = gone.move[0] / metres, gone.routes.end[0]
        share = gone.routes.seconds / max(gone.routes.duration[0], 1e-9)
        return Way(begin + (end - begin) * np.append(0.0, share), np.concatenate([here[None], gone.routes.xy]))

    def _rest(self, member: IntArray, centre: Way, begin: float, end: float) -> list[Waypoints]:
        """Lie still, once everybody is there."""
        member = member[self._strayed(member)]
        if not member.size:
            return []
        goal, seconds = np.broadcast_to(centre.positions[-1], (len(member), 2)), np.full(len(member), end - begin)
        walk = self._go(member, goal, self._uniform(member), self._memory, self._top_mps, seconds)
        return [Waypoints(member[walk.walker], begin + walk.seconds, walk.xy)]

    def _graze(self, member: IntArray, centre: Way, begin: float, end: float) -> list[Waypoints]:
        """Feed at a spot, step to another one, and so on, each animal in its own time."""
        parts, now = [], np.full(len(member), begin)
        while member.size:
            uniform = self._uniform(member)
            now = now - self._stop_s * np.log1p(-uniform[:, 2])
            steps = now < end
            member, now, uniform = member[steps], now[steps], uniform[steps]
            parts.append(Waypoints(member, now, self._last[member]))
            speed_mps = min(self._speed_mps[WALK], self._top_mps)
            walk = self._go(member, centre.at_times(now), uniform, self._memory, speed_mps, end - now)
            parts.append(Waypoints(member[walk.walker], now[walk.walker] + walk.seconds, walk.xy))
            now = now + walk.duration
        return parts

    def _walk(self, member: IntArray, centre: Way, begin: float, end: float) -> list[Waypoints]:
        """Walk along with the centre, so as to arrive with it."""
        seconds = np.full(len(member), end - begin)
        memory = self._memory ** (min(end - begin, LEG_S[WALK]) / LEG_S[WALK])
        goal = np.broadcast_to(centre.positions[-1], (len(member), 2))
        walk = self._go(member, goal, self._uniform(member), memory, self._top_mps, seconds)
        pace = np.where(walk.duration > 0, seconds / np.where(walk.duration > 0, walk.duration, 1.0), 1.0)
        return [Waypoints(member[walk.walker], begin + walk.seconds * pace[walk.walker], walk.xy)]

    def _strayed(self, member: IntArray) -> BoolArray:
        return np.asarray(np.hypot(*self._offset[member].T) > FAR * self._spread_m)

    def _uniform(self, member: IntArray) -> FloatArray:
        """The next uniform numbers [m,3] of some animals."""
        self._draws[member] += 1
        return self._draw(self._ids[member], self._draws[member], 3)

    def _go(
        self,
        member: IntArray,
        centre: FloatArray,
        uniform: FloatArray,
        memory: float,
        speed_mps: float,
        seconds: FloatArray,
    ) -> Routes:
        """Move animals to their next offsets from the centres [m,2], cut off after so many seconds [m].

        They bounce off walls; those that have strayed take the fastest route, as fast as they can.
        """
        here, noise = self._last[member], self._spread_m * normals(uniform[:, :2])
        goal = centre + memory * self._offset[member] + math.sqrt(1 - memory**2) * noise
        strayed = self._strayed(member)
        if strayed.any():
            walk = self._return(here, goal, centre + noise, strayed, speed_mps)
        else:
            walk = self._bounds.go(here, goal - here, np.full(len(member), speed_mps)).routes
        walk = self._cut(walk, here, seconds)
        self._last[member] = walk.end
        self._offset[member] = walk.end - centre
        return walk

    def _return(
        self, here: FloatArray, goal: FloatArray, home: FloatArray, strayed: BoolArray, speed_mps: float
    ) -> Routes:
        """Move some animals to their goals [m,2] and those that have strayed [m] to the herd [m,2]."""
        own, lost = np.flatnonzero(~strayed), np.flatnonzero(strayed)
        free = self._bounds.go(here[own], (goal - here)[own], np.full(len(own), speed_mps)).routes
        back = fastest_routes(self._terrain, here[lost], self._open(home[lost]), np.full(len(lost), self._top_mps))
        duration, end = np.empty(len(here)), np.empty((len(here), 2))
        duration[own], duration[lost], end[own], end[lost] = free.duration, back.duration, free.end, back.end
        return Routes(
            np.concatenate([own[free.walker], lost[back.walker]]),
            np.concatenate([free.seconds, back.seconds]),
            np.concatenate([free.xy, back.xy]),
            duration,
            end,
        )

    def _cut(self, walk: Routes, here: FloatArray, seconds: FloatArray) -> Routes:
        """Walks from `here` [m,2], those that take longer than so many seconds [m] cut off there."""
        late = walk.duration > seconds
        if not late.any():
            return walk
        kept, end = ~late[walk.walker], walk.end.copy()
        parts = [(walk.walker[kept], walk.seconds[kept], walk.xy[kept])]
        for i in np.flatnonzero(late):
            rows = np.flatnonzero(walk.walker == i)
            times, route = np.append(0.0, walk.seconds[rows]), np.concatenate([here[[i]], walk.xy[rows]])
            end[i] = self._open(position_at(times, route, seconds[[i]]))[0]
            rows = rows[walk.seconds[rows] < seconds[i]]
            xy = np.concatenate([walk.xy[rows], end[[i]]])
            parts.append((np.full(len(xy), i), np.append(walk.seconds[rows], seconds[i]), xy))
        walker, spent, xy = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Routes(walker, spent, xy, np.minimum(walk.duration, seconds), end)

    def _open(self, xy: FloatArray) -> FloatArray:
        """Positions [m,2] mirrored at the borders, and moved out of walls to the nearest open ground."""
        size = np.array(self._terrain.size_m)
        xy = size - np.abs(size - np.abs(xy) % (2 * size))
        for i in np.flatnonzero(self._terrain.area_of(xy) != 0):
            xy[i] = self._terrain.nearest_open(xy[i])
        return xy
