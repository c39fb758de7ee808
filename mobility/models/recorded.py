"""Recorded movement: clients follow a trace, and are out of reach while it does not contain them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedmule.mobility.models.movement import (
    NOWHERE_X_M,
    BoolArray,
    Draw,
    FloatArray,
    IntArray,
    Movement,
    Stays,
    Waypoints,
)
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.traces.formats import read_trace
from fedmule.mobility.traces.trace import Trace, TraceError

AT_ONCE = 16  # waypoints handed out at a time


class Recorded(Movement):
    """The first `count` nodes of a trace. The run begins when the trace does, and last positions are held.

    `shift_m` is added to all positions; `origin` is the longitude and latitude of (0, 0) where the file has degrees, by
    default the terrain's.
    """

    still = False

    def __init__(
        self,
        terrain: Terrain,
        count: int,
        draw: Draw,
        path: str,
        shift_m: tuple[float, float],
        origin: tuple[float, float] | None,
    ) -> None:
        trace = read_trace(path, origin or terrain.origin)
        if len(trace) < count:
            raise TraceError(f"{path}: has {len(trace)} nodes, fewer than the {count} clients")
        low_x, low_y, high_x, high_y = (
            bound + shift for bound, shift in zip(trace.bounds, shift_m * 2, strict=True)
        )  # fmt: skip
        if min(low_x, low_y) < 0 or high_x > terrain.size_m[0] or high_y > terrain.size_m[1]:
            raise TraceError(
                f"{path}: leaves the terrain of {terrain.size_m[0]:g} × {terrain.size_m[1]:g} m: it goes from "
                f"({low_x:.1f}, {low_y:.1f}) to ({high_x:.1f}, {high_y:.1f}); see terrain.size_m, "
                "terrain.origin and shift_m"
            )
        away = NOWHERE_X_M * (1 + np.arange(count))  # far from each other as well
        paths = [_path(trace, i, away[i], shift_m) for i in range(count)]
        self._first = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
        self._t, self._xy = np.concatenate(paths)[:, 0], np.concatenate(paths)[:, 1:]
        self._next = self._first[:-1] + [np.searchsorted(path[:, 0], 0.0, side="right") for path in paths]
        self._stays = _stays(trace, count)
        first = [int(np.argmax(~np.isnan(trace.x[a:b]))) + a for a, b in pairwise(trace.first[: count + 1])]
        self._first_xy = np.stack([trace.x[first], trace.y[first]], axis=1) + shift_m

    def start(self) -> FloatArray:
        """Positions [n,2] at the beginning of the trace."""
        return np.asarray(self._xy[self._next - 1])

    def constants(self) -> list[object]:
        """The trace."""
        return [self._first, self._t, self._xy, self._stays, self._first_xy]

    def first_positions(self) -> FloatArray:
        """Positions [n,2] at which nodes first appear in the trace."""
        return self._first_xy

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """The next waypoints of the trace; a node without any stays where it is."""
        left = np.minimum(self._first[client + 1] - self._next[client], AT_ONCE)
        rest = client[left == 0]  # the trace has no more of them: they stay
        who = np.repeat(client, left)
        rows = np.arange(len(who)) - np.repeat(np.cumsum(left) - left, left) + self._next[who]
        self._next[client] += left
        return Waypoints.join(
            [
                Waypoints(who, self._t[rows], self._xy[rows]),
                Waypoints(rest, np.full(len(rest), np.inf), xy[left == 0]),
            ]
        )

    def there(self, t: float) -> BoolArray:
        """Which clients [n] the trace contains at time t."""
        mask = np.zeros(len(self._next), dtype=bool)
        mask[self._stays.client[(self._stays.comes_s <= t) & (t < self._stays.goes_s)]] = True
        return mask

    def stays(self) -> Stays:
        """When the trace contains which client."""
        return self._stays

    def next_arrival_s(self, t: float) -> float:
        """Time after t at which the next node appears; inf if none does."""
        comes_s = self._stays.comes_s
        return float(comes_s[comes_s > t].min(initial=np.inf))


def _path(trace: Trace, node: int, away_m: float, shift_m: tuple[float, float]) -> FloatArray:
    """Rows t, x, y of a node from time 0 on, with a jump away when it leaves and back when it arrives."""
    rows = slice(trace.first[node], trace.first[node + 1])
    path = np.stack([trace.t[rows] - trace.begin_s, trace.x[rows] + shift_m[0], trace.y[rows] + shift_m[1]], axis=1)
    gone = np.isnan(path[:, 1])
    path[gone, 1:] = away_m, 0.0
    goes = np.flatnonzero(gone[1:]) + 1
    comes = np.flatnonzero(~gone & np.append(True, gone[:-1]))
    before_going = np.column_stack([path[goes, 0], path[goes - 1, 1:]])
    before_coming = np.column_stack([path[comes, 0], np.full(len(comes), away_m), np.zeros(len(comes))])
    path = np.insert(path, np.append(goes, comes), np.concatenate([before_going, before_coming]), axis=0)
    return path if path[0, 0] == 0 else np.insert(path, 0, (0.0, away_m, 0.0), axis=0)


def _stays(trace: Trace, count: int) -> Stays:
    """The times between which nodes are present."""
    stays: list[tuple[int, float, float]] = []
    for node in range(count):
        rows = slice(trace.first[node], trace.first[node + 1])
        t, gone = trace.t[rows] - trace.begin_s, np.isnan(trace.x[rows])
        comes = t[~gone & np.append(True, gone[:-1])]
        goes = t[gone & np.append(False, ~gone[:-1])]
        stays += [(node, *stay) for stay in zip(comes, np.append(goes, np.inf), strict=False)]
    node_of, comes_s, goes_s = (np.array(column) for column in zip(*stays, strict=True))
    return Stays(node_of.astype(np.int64), comes_s, goes_s)
