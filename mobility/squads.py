"""Squads: groups that move together with a leader."""

from __future__ import annotations

import numpy as np

from mobility.movement import (
    Draw,
    FloatArray,
    IntArray,
    Movement,
    Waypoints,
    between,
    places_near,
    random_places,
    ways,
)
from mobility.terrain import Terrain


class Squads(Movement):
    """The leader goes to random places and pauses; the others go to places within `spread_m` of the leader's.

    All of a squad leave and arrive together, each on its own shortest way, at the pace of the one who has the
    longest, so nobody exceeds the squad's speed and the squad stays together.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        squads: int = 5,
        spread_m: float = 20.0,
        speed_mps: tuple[float, float] = (0.5, 1.5),
        pause_s: tuple[float, float] = (60.0, 300.0),
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._spread_m = spread_m
        self._speed_mps = speed_mps
        self._pause_s = pause_s
        squads = min(squads, count)
        self.squad = np.arange(count) * squads // count  # [n] the squad of each client: equal, in order
        self._first = np.searchsorted(self.squad, np.arange(squads + 1))  # members of s: first[s]..first[s+1]
        self._legs = np.zeros(squads, dtype=np.int64)
        self._last = np.empty((count, 2))  # where each client's known waypoints end

    def start(self) -> FloatArray:
        self._last = self._formation(np.arange(len(self._legs)), np.arange(len(self.squad)))
        return self._last.copy()

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        squad, asked = np.unique(self.squad[client], return_index=True)  # a squad is extended as a whole
        leave = t[asked]
        self._legs[squad] += 1
        member = np.concatenate([np.arange(self._first[s], self._first[s + 1]) for s in squad])
        row = np.searchsorted(squad, self.squad[member])  # member -> row of its squad
        uniform = self._draw(squad, -self._legs[squad], 2)  # negative counters: apart from those of the places
        speed = between(self._speed_mps, uniform[:, 0])
        walk = ways(self._terrain, self._last[member], self._formation(squad, member), speed[row])
        duration = np.maximum.reduceat(walk.duration, np.searchsorted(row, np.arange(len(squad))))
        pace = duration[row] / np.maximum(walk.duration, 1e-9)  # how much slower than the squad's speed each may go
        seconds = np.minimum(walk.seconds * pace[walk.walker], duration[row[walk.walker]])
        rest = leave + duration + between(self._pause_s, uniform[:, 1])
        self._last[member] = walk.end
        return Waypoints.join(
            [
                Waypoints(member[walk.walker], leave[row[walk.walker]] + seconds, walk.xy),
                Waypoints(member, rest[row], walk.end),
            ]
        )

    def _formation(self, squad: IntArray, member: IntArray) -> FloatArray:
        """Places [m,2] of the members round their leaders' next random places; the leader is the first member."""
        centre = random_places(self._terrain, self._draw, squad, self._legs[squad])
        row = np.searchsorted(squad, self.squad[member])
        leg = self._legs[self.squad[member]]
        ids = len(self._legs) + member  # ids below are the leaders' own draws
        places = places_near(self._terrain, self._draw, ids, leg, centre[row], self._spread_m)
        leads = member == self._first[self.squad[member]]
        places[leads] = centre[row[leads]]
        return places
