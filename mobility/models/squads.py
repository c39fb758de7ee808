"""Squads: groups that move together with a leader."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import (
    Draw,
    FloatArray,
    IntArray,
    Movement,
    Waypoints,
    between,
    fastest_routes,
    positions_near,
    random_positions,
)
from fedmule.mobility.terrain import Terrain


class Squads(Movement):
    """Squads that follow a leader to random positions, pause there and repeat; members stay within `spread_m` of it.

    All members of a squad leave and arrive together, each on its own fastest route, at the pace of the one with the
    longest, so nobody exceeds the squad's speed and the squad stays together.

    At `regroup_at_s` a fraction of the clients is ordered to change squad; leaders stay. When the pause after the
    current leg of its old squad ends, such a client walks to the end of its new squad's leg, and moves with that squad
    from there on. A squad does not leave before all who join it have arrived.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        squads: int,
        spread_m: float,
        speed_mps: tuple[float, float],
        pause_s: tuple[float, float],
        regroup_at_s: float | None,
        regroup_share: float,
    ) -> None:
        self._terrain = terrain
        self._draw = draw
        self._spread_m = spread_m
        self._speed_mps = speed_mps
        self._pause_s = pause_s
        squads = min(squads, count)
        self.squad = np.arange(count) * squads // count  # [n] squad of each client at the start: equal sizes, in order
        self._with = self.squad.copy()  # [n] squad each client moves with at the end of its known waypoints
        self._members = _members(self._with)
        self._leader = np.array([member[0] for member in self._members])  # [squads]
        self._legs = np.zeros(squads, dtype=np.int64)
        self._until = np.zeros(squads)  # when the known waypoints of each squad's members end, s
        self._last = np.empty((count, 2))  # where each client's known waypoints end
        self._ids = squads + np.arange(count)  # [n] ids of the clients' draws; lower ids are those of the leaders
        self.regroup_at_s = regroup_at_s
        self._regroup_at_s = np.inf if regroup_at_s is None else regroup_at_s
        self.regrouped = self._changes(0.0 if regroup_at_s is None else regroup_share)
        self._to_regroup = self.regrouped[0].size > 0

    def start(self) -> FloatArray:
        """The members of each squad around their leader, which is at a random position."""
        self._last = self._formation(np.arange(len(self._legs)), np.arange(len(self.squad)))
        return self._last.copy()

    def squad_at(self, t: float) -> IntArray:
        """Squad [n] of each client at time t: from `regroup_at_s` on the new one, wherever the client is."""
        squad = self.squad.copy()
        if t >= self._regroup_at_s:
            client, new = self.regrouped
            squad[client] = new
        return squad

    def top_speed_mps(self) -> float:
        """Top speed on the fastest surface."""
        return self._speed_mps[1] * self._terrain.highest_factor

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """Next leg of the squads of these clients, with all their members."""
        parts: list[Waypoints] = []
        if self._to_regroup and (self._until[self._with[client]] >= self._regroup_at_s).any():
            parts = self._regroup()
        parts.append(self._leg(np.unique(self._with[client])))
        return Waypoints.join(parts)

    def _leg(self, squad: IntArray) -> Waypoints:
        """Next walk and pause of these squads, with all their members."""
        leave = self._until[squad]
        self._legs[squad] += 1
        member = np.concatenate([self._members[s] for s in squad])
        row = np.searchsorted(squad, self._with[member])  # member -> row of its squad
        uniform = self._draw(squad, -self._legs[squad], 2)  # negative counters: distinct from those of the positions
        speed = between(self._speed_mps, uniform[:, 0])
        walk = fastest_routes(self._terrain, self._last[member], self._formation(squad, member), speed[row])
        duration = np.maximum.reduceat(walk.duration, np.searchsorted(row, np.arange(len(squad))))
        pace = duration[row] / np.maximum(walk.duration, 1e-9)  # how much more slowly than the squad each may walk
        seconds = np.minimum(walk.seconds * pace[walk.walker], duration[row[walk.walker]])
        rest = leave + duration + between(self._pause_s, uniform[:, 1])
        self._last[member] = walk.end
        self._until[squad] = rest
        return Waypoints.join(
            [
                Waypoints(member[walk.walker], leave[row[walk.walker]] + seconds, walk.xy),
                Waypoints(member, rest[row], walk.end),
            ]
        )

    def _regroup(self) -> list[Waypoints]:
        """Legs of every squad up to the first that ends at or after `regroup_at_s`, then changes and waiting."""
        parts = []
        while (behind := np.flatnonzero(self._until < self._regroup_at_s)).size:
            parts.append(self._leg(behind))
        client, new = self.regrouped
        leave = self._until[self.squad[client]]
        self._with[client] = new
        self._members = _members(self._with)
        self._ids[client] += len(self.squad)  # separate draws, distinct from those with the old squad
        goal = self._near(client, self._last[self._leader[new]])
        speed = between(self._speed_mps, self._draw(self._ids[client], np.full(len(client), -2), 1)[:, 0])
        walk = fastest_routes(self._terrain, self._last[client], goal, speed)
        np.maximum.at(self._until, new, leave + walk.duration)
        self._last[client] = walk.end
        self._to_regroup = False
        everyone = np.arange(len(self.squad))
        parts.append(Waypoints(client[walk.walker], leave[walk.walker] + walk.seconds, walk.xy))
        parts.append(Waypoints(everyone, self._until[self._with], self._last.copy()))
        return parts

    def _changes(self, share: float) -> tuple[IntArray, IntArray]:
        """Clients [m] that change squad, never leaders, and their new squads [m], never the old ones."""
        count, squads = len(self.squad), len(self._legs)
        follower = np.setdiff1d(np.arange(count), self._leader) if squads > 1 else np.empty(0, dtype=np.int64)
        order, which = self._draw(count + self._ids[follower], np.full(len(follower), -1), 2).T
        chosen = np.sort(np.argsort(order, kind="stable")[: round(share * count)])
        client = follower[chosen]
        further = 1 + (which[chosen] * (squads - 1)).astype(np.int64)  # 1 … squads - 1
        return client, (self.squad[client] + further) % squads

    def _formation(self, squad: IntArray, member: IntArray) -> FloatArray:
        """Positions [m,2] of the members around their leaders' next random positions."""
        centre = random_positions(self._terrain, self._draw, squad, self._legs[squad])
        row = np.searchsorted(squad, self._with[member])
        positions = self._near(member, centre[row])
        leads = member == self._leader[self._with[member]]
        positions[leads] = centre[row[leads]]
        return positions

    def _near(self, member: IntArray, centre: FloatArray) -> FloatArray:
        """Positions [m,2] of the members within `spread_m` of the centres [m,2], drawn for their squads' legs."""
        leg = self._legs[self._with[member]]
        return positions_near(self._terrain, self._draw, self._ids[member], leg, centre, self._spread_m)


def _members(squad: IntArray) -> list[IntArray]:
    """Clients of each squad, in order, given the squad [n] of each client."""
    return np.split(np.argsort(squad, kind="stable"), np.cumsum(np.bincount(squad))[:-1])
