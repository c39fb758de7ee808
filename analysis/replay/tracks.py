"""Compact waypoints for a page: integer ticks of time, 16-bit positions, thinned only if there are too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedmule.analysis.replay.arrays import Arrays, deflated, packed

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

NOWHERE = 65535  # as x: absent from this waypoint on
STEPS = 65534  # of position across the map's longer side
MOST_BYTES = 6_400_000  # of all waypoints, deflated; 8.5 MB in the page
PASSES = 4  # of thinning; each drops at most every other waypoint


@dataclass(frozen=True)
class Frame:
    """Units of ticks and steps: time = tick · tick_s, position = corner + step · step_m."""

    tick_s: float
    corner_m: tuple[float, float]
    step_m: float

    def ticks(self, times_s: FloatArray) -> NDArray[np.uint32]:
        """Times in ticks."""
        return np.round(np.asarray(times_s) / self.tick_s).astype(np.uint32)

    def steps(self, positions_m: FloatArray, axis: int) -> NDArray[np.uint16]:
        """One coordinate of positions in steps; nan becomes NOWHERE."""
        steps = np.round((positions_m - self.corner_m[axis]) / self.step_m)
        return np.where(np.isfinite(positions_m), np.clip(steps, 0, STEPS), NOWHERE).astype(np.uint16)


@dataclass(frozen=True)
class Tracks:
    """Waypoints of all nodes, node by node, each in order of time."""

    node: NDArray[np.int64]  # ascending
    t: FloatArray
    x: FloatArray  # nan: absent
    y: FloatArray

    def only(self, kept: BoolArray) -> Tracks:
        """The waypoints kept."""
        return Tracks(self.node[kept], self.t[kept], self.x[kept], self.y[kept])


def frame_of(track: pd.DataFrame, size_m: tuple[float, float], end_s: float) -> Frame:
    """A frame that covers the terrain, all positions and the time until the end."""
    low = [min(0.0, float(np.nanmin(track[c], initial=0.0))) for c in ("x_m", "y_m")]
    high = [max(s, float(np.nanmax(track[c], initial=s))) for c, s in zip(("x_m", "y_m"), size_m, strict=True)]
    width = max(high[0] - low[0], high[1] - low[1])
    return Frame(max(0.001, end_s / 2**22), (low[0], low[1]), width / STEPS)


def tracks_of(track: pd.DataFrame, vehicles: list[int], clients: int) -> Tracks:
    """Waypoints of a run's track: vehicles, given in ascending order, become nodes 0, 1, …; clients follow."""
    ids = track["id"].to_numpy(dtype=np.int64)
    node = np.where(track["node"] == "vehicle", np.searchsorted(vehicles, ids), len(vehicles) + ids)
    known = node < len(vehicles) + clients
    order = np.lexsort((np.arange(len(node)), track["sim_time_s"].to_numpy(), node))  # stable for equal times
    order = order[known[order]]
    columns = [track[c].to_numpy(dtype=float)[order] for c in ("sim_time_s", "x_m", "y_m")]
    return Tracks(node[order], *columns)


def add_tracks(arrays: Arrays, tracks: Tracks, frame: Frame, nodes: int) -> float:
    """Add all waypoints to a page; return the largest error of a position in metres."""
    tolerance = frame.step_m / 2
    kept = thinned(tracks, tolerance)
    columns = _columns(kept, frame)
    while (size := _size(columns)) > MOST_BYTES and len(kept.t) > 2 * nodes:
        wanted = len(kept.t) * MOST_BYTES / size
        while len(kept.t) > max(wanted, 2 * nodes):
            tolerance *= 2
            kept = thinned(tracks, tolerance)
        columns = _columns(kept, frame)
    arrays.add("track_count", np.bincount(kept.node, minlength=nodes).astype(np.uint32))
    for name, column in columns.items():
        arrays.add(name, column, differences=True)
    return tolerance + frame.step_m / 2


def _columns(tracks: Tracks, frame: Frame) -> dict[str, NDArray[Any]]:
    return {
        "track_tick": frame.ticks(tracks.t),
        "track_x": frame.steps(tracks.x, 0),
        "track_y": frame.steps(tracks.y, 1),
    }


def _size(columns: dict[str, NDArray[Any]]) -> int:
    return sum(len(deflated(packed(column, True))) for column in columns.values())


def thinned(tracks: Tracks, tolerance_m: float) -> Tracks:
    """Drop waypoints that lie, at their time, within the tolerance of the straight line between those kept."""
    for _ in range(PASSES):
        if len(tracks.t) < 3:
            break
        tracks = tracks.only(~_redundant(tracks, tolerance_m / PASSES))
    return tracks


def _redundant(tracks: Tracks, tolerance_m: float) -> BoolArray:
    """Which waypoints can be dropped in one pass: no two neighbours, no ends, jumps, arrivals or departures."""
    before, at, after = slice(None, -2), slice(1, -1), slice(2, None)
    t, node = tracks.t, tracks.node
    span = t[after] - t[before]
    share = np.where(span > 0, (t[at] - t[before]) / np.where(span > 0, span, 1.0), 0.0)
    off = [c[before] + share * (c[after] - c[before]) - c[at] for c in (tracks.x, tracks.y)]
    redundant = np.zeros(len(t), dtype=bool)
    redundant[at] = (
        (np.hypot(*off) <= tolerance_m)  # false for nan
        & (node[before] == node[after])
        & (t[before] < t[at])
        & (t[at] < t[after])
    )
    index = np.arange(len(t))
    begins = redundant & ~np.concatenate([[False], redundant[:-1]])
    second: BoolArray = (index - np.maximum.accumulate(np.where(begins, index, 0))) % 2 == 0
    return redundant & second
