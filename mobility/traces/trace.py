"""Movement traces in memory: waypoints with straight legs in between."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LONGEST_NUMBER = 100  # most digits of a name that counts as a number: Python converts only a few thousand


class TraceError(ValueError):
    """A trace cannot be used; the message names the file and, where there is one, the line."""


@dataclass(frozen=True)
class Trace:
    """Waypoints of n nodes, in metres and seconds; a node's last position is held to the end of the trace.

    A waypoint without a position (nan) marks its node as absent until its next waypoint. A node is also absent before
    its first waypoint. Two waypoints at the same time are a jump.
    """

    names: list[str]  # [n] integers in numerical order, other names sorted alphabetically
    first: IntArray  # [n+1] the waypoints of node i are first[i]:first[i+1], in order of time
    t: FloatArray  # [k] s
    x: FloatArray  # [k] m
    y: FloatArray  # [k] m
    unfinished: bool = False  # whether the file is truncated

    def __len__(self) -> int:
        return len(self.names)

    @property
    def node(self) -> IntArray:
        """Node [k] that each waypoint belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @property
    def begin_s(self) -> float:
        """Time of the first waypoint."""
        return float(self.t.min())

    @property
    def end_s(self) -> float:
        """Time of the last waypoint."""
        return float(self.t.max())

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Smallest x and y, largest x and y."""
        low_x, low_y, high_x, high_y = (float(f(v)) for f in (np.nanmin, np.nanmax) for v in (self.x, self.y))
        return low_x, low_y, high_x, high_y

    @property
    def comes_and_goes(self) -> bool:
        """Whether any node is absent at some time."""
        return bool(np.isnan(self.x).any() or (self.t[self.first[:-1]] > self.begin_s).any())

    @cached_property
    def legs(self) -> Legs:
        """The straight legs between waypoints."""
        return _legs(self)


@dataclass(frozen=True)
class Legs:
    """Straight legs of a trace, rests included; an absent node has none."""

    node: IntArray  # [m]
    start_s: FloatArray  # [m]
    end_s: FloatArray  # [m]
    x: FloatArray  # [m] where a leg starts
    y: FloatArray  # [m]
    to_x: FloatArray  # [m]
    to_y: FloatArray  # [m]

    @property
    def seconds(self) -> FloatArray:
        """Durations [m]."""
        return self.end_s - self.start_s

    @property
    def speed_mps(self) -> FloatArray:
        """Speeds [m]; 0 for legs that take no time."""
        metres, seconds = np.hypot(self.to_x - self.x, self.to_y - self.y), self.seconds
        return np.where(seconds > 0, metres / np.where(seconds > 0, seconds, 1.0), 0.0)


class Rows:
    """Waypoints in the order of a file, which may be any; those of the same node and time keep their order."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._node, self._t, self._x, self._y = array("q"), array("d"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self._t)

    def add(self, node: str, t: float, x: float, y: float) -> None:
        """Add a waypoint."""
        self._node.append(self._code.setdefault(node, len(self._code)))
        self._t.append(t)
        self._x.append(x)
        self._y.append(y)

    def gone(self, node: str, t: float) -> None:
        """Mark a node as absent after t."""
        self.add(node, t, np.nan, np.nan)

    def trace(self, end_s: float = -np.inf) -> Trace:
        """Build the trace; if it ends before `end_s`, all nodes hold their positions until then."""
        t, x, y = (np.frombuffer(column, dtype=np.float64) for column in (self._t, self._x, self._y))
        return trace_of(list(self._code), np.frombuffer(self._node, dtype=np.int64), t, x, y, end_s)


def trace_of(
    names: list[str], node: IntArray, t: FloatArray, x: FloatArray, y: FloatArray, end_s: float = -np.inf
) -> Trace:
    """Build a trace from waypoints in any order; `node` [k] indexes `names`."""
    ordered, order = sorted_names(names)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    node = rank[node]
    held = len(t) > 0 and end_s > t.max()
    if held:
        node, t = np.append(node, np.arange(len(names))), np.append(t, np.full(len(names), end_s))
        x, y = np.append(x, np.full(len(names), np.nan)), np.append(y, np.full(len(names), np.nan))
    rows = np.lexsort((t, node))
    node, t, x, y = node[rows], t[rows], x[rows], y[rows]
    first = np.searchsorted(node, np.arange(len(names) + 1))
    if held:
        last = first[1:] - 1
        x[last], y[last] = x[last - 1], y[last - 1]
    return Trace(ordered, first, t, x, y)


def sorted_names(names: list[str]) -> tuple[list[str], list[int]]:
    """Names sorted by value if all are integers, otherwise alphabetically; and the indices that sort them so."""
    if all(name.isdecimal() and len(name) <= LONGEST_NUMBER for name in names):
        order = sorted(range(len(names)), key=lambda i: (int(names[i]), names[i]))
    else:
        order = sorted(range(len(names)), key=names.__getitem__)
    return [names[i] for i in order], order


def _legs(trace: Trace) -> Legs:
    """Legs from every waypoint with a position to the next one, or at rest until the node leaves or the trace ends."""
    node, t, x, y = trace.node, trace.t, trace.x, trace.y
    is_last = np.zeros(len(t), dtype=bool)
    is_last[trace.first[1:] - 1] = True
    here = ~np.isnan(x)
    following = np.minimum(np.arange(len(t)) + 1, len(t) - 1)
    stays = is_last | ~here[following]
    end = np.where(is_last, trace.end_s if len(t) else 0.0, t[following])
    to_x, to_y = np.where(stays, x, x[following]), np.where(stays, y, y[following])
    # A leg without duration is a jump and is dropped, unless its node is present for that moment only.
    is_first = np.zeros(len(t), dtype=bool)
    is_first[trace.first[:-1]] = True
    comes = here & (is_first | ~here[np.maximum(np.arange(len(t)) - 1, 0)])
    came_s = t[np.maximum.accumulate(np.where(comes, np.arange(len(t)), 0))]
    kept = here & ((end > t) | (stays & (came_s == end)))
    return Legs(node[kept], t[kept], end[kept], x[kept], y[kept], to_x[kept], to_y[kept])


def positions_at(trace: Trace, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coordinates x and y [n,m] of all nodes at times [m]; nan where a node is absent."""
    x, y = np.empty((len(trace), len(times))), np.empty((len(trace), len(times)))
    for i in range(len(trace)):
        rows = slice(trace.first[i], trace.first[i + 1])
        t, xs, ys = trace.t[rows], trace.x[rows], trace.y[rows]
        last = np.searchsorted(t, times, side="right") - 1
        last -= (last > 0) & np.isnan(xs[last]) & (t[last] == times)  # a node is present up to the moment it leaves
        following = np.minimum(last + 1, len(t) - 1)
        following = np.where(np.isnan(xs[following]), last, following)
        span = t[following] - t[last]
        fraction = np.where(span > 0, (times - t[last]) / np.where(span > 0, span, 1.0), 0.0)
        x[i] = np.where(last < 0, np.nan, xs[last] + fraction * (xs[following] - xs[last]))
        y[i] = np.where(last < 0, np.nan, ys[last] + fraction * (ys[following] - ys[last]))
    return x, y


def samples(trace: Trace, step_s: float) -> Iterator[tuple[float, FloatArray, FloatArray]]:
    """Times from beginning to end, `step_s` apart, with x and y [n] of all nodes; nan where a node is absent."""
    count = int((trace.end_s - trace.begin_s) / step_s * (1 + 1e-12)) + 1
    for start in range(0, count, 64):  # in batches, so that memory stays small
        times = trace.begin_s + step_s * np.arange(start, min(count, start + 64), dtype=np.float64)
        x, y = positions_at(trace, times)
        for k, t in enumerate(times.tolist()):
            yield t, x[:, k], y[:, k]
