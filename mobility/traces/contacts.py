"""Exact contacts: when any two nodes of a trace are within a distance, from the roots of quadratics.

Time is cut into slices. In each slice a leg is entered in all grid cells that its bounding box, widened by half the
range, touches, so two legs that come within range share a cell. A contact interval is reported in the slice in which
it starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedmule.mobility.compiler import compiled
from fedmule.mobility.traces.trace import FloatArray, IntArray, Legs, Trace

TOUCH_M = 1e-9  # tolerance beyond the range, so that rounding does not decide whether a touch counts
SAME_S = 1e-9  # contacts of a pair with a gap no longer than this are one
START, END, X, Y, TO_X, TO_Y = range(6)  # columns of a table of legs
CLEARLY = 1 + 1e-6  # times a limit: beyond this rounding plays no part
ENTRY_COST = 3.0  # cost of entering a leg in the grid relative to testing a pair; sets the length of slices


@dataclass(frozen=True)
class Contacts:
    """Intervals [m] during which pairs of nodes, a < b, are within range, sorted by a, b and start."""

    a: IntArray
    b: IntArray
    start_s: FloatArray
    end_s: FloatArray

    def __len__(self) -> int:
        return len(self.a)


def find_contacts(
    trace: Trace,
    range_m: float,
    until_s: float = math.inf,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Contacts:
    """All contacts with distance ≤ range_m; those open at the end of the trace or at `until_s` end there.

    `progress` is called with the fraction of the time that is done.
    """
    legs = _until(trace.legs, until_s)
    if not len(legs.node):
        empty = np.empty(0, dtype=np.int64)
        return Contacts(empty, empty, np.empty(0), np.empty(0))
    order = np.argsort(legs.start_s, kind="stable")
    # Relative to the corner: coordinates far from 0 would lose digits.
    corner_x, corner_y = min(legs.x.min(), legs.to_x.min()), min(legs.y.min(), legs.to_y.min())
    columns = [
        legs.start_s,
        legs.end_s,
        legs.x - corner_x,
        legs.y - corner_y,
        legs.to_x - corner_x,
        legs.to_y - corner_y,
    ]
    node, table = legs.node[order], np.stack(columns, axis=1)[order]
    start, end = table[:, START].copy(), table[:, END].copy()
    begin_s, end_s = float(start[0]), float(end.max())
    slice_s, cell_m = _sizes(legs, range_m, begin_s, end_s)
    slices = max(1, math.ceil((end_s - begin_s) / slice_s))
    active, count, following = np.empty(0, dtype=np.int64), 0, 0
    found = _Found()
    for k in range(slices):
        low = begin_s + k * slice_s
        high = np.inf if k + 1 == slices else begin_s + (k + 1) * slice_s
        later = int(np.searchsorted(start, high, side="left"))
        active = np.concatenate([active[end[active] >= low], np.arange(following, later)])
        following = later
        while True:
            count = _search(active, node, table, range_m, cell_m, low, high, *found.room())
            if found.take(count):
                break
        progress((k + 1) / slices)
    return merged(*found.all(), len(trace))


class _Found:
    """Contact intervals found so far, with room for more."""

    def __init__(self) -> None:
        self._pairs = np.empty((1 << 16, 2), dtype=np.int64)
        self._times = np.empty((1 << 16, 2))
        self.count = 0

    def room(self) -> tuple[IntArray, FloatArray]:
        """Free rows to write pairs and times into."""
        return self._pairs[self.count :], self._times[self.count :]

    def take(self, count: int) -> bool:
        """Keep `count` rows of the room; False if it was too small, in which case it is larger now."""
        if self.count + count <= len(self._pairs):
            self.count += count
            return True
        more = max(self.count + count, 2 * len(self._pairs)) - len(self._pairs)
        self._pairs = np.concatenate([self._pairs, np.empty((more, 2), dtype=np.int64)])
        self._times = np.concatenate([self._times, np.empty((more, 2))])
        return False

    def all(self) -> tuple[IntArray, FloatArray]:
        """Pairs and times found."""
        return self._pairs[: self.count], self._times[: self.count]


def _until(legs: Legs, until_s: float) -> Legs:
    """Legs, cut off at a time."""
    if not len(legs.node) or legs.end_s.max() <= until_s:
        return legs
    kept = legs.start_s <= until_s
    start, end, x, y = legs.start_s[kept], legs.end_s[kept], legs.x[kept], legs.y[kept]
    to_x, to_y = legs.to_x[kept], legs.to_y[kept]
    cut = end > until_s
    fraction = (until_s - start[cut]) / (end[cut] - start[cut])
    to_x[cut], to_y[cut] = x[cut] + fraction * (to_x[cut] - x[cut]), y[cut] + fraction * (to_y[cut] - y[cut])
    return Legs(legs.node[kept], start, np.minimum(end, until_s), x, y, to_x, to_y)


def _sizes(legs: Legs, range_m: float, begin_s: float, end_s: float) -> tuple[float, float]:
    """Length of a slice and side of a cell that minimise the work; they have no effect on the contacts found.

    With density ρ, range R and distance w = v·slice, the work is proportional to (c + ρ(R + w)²) / w, which is least
    for w² = c/ρ + R².
    """
    span_s = end_s - begin_s
    seconds = legs.seconds
    present_s = float(seconds.sum())
    if span_s <= 0 or present_s <= 0:
        return 1.0, max(range_m, 1.0)
    speed = float((legs.speed_mps * seconds).sum()) / present_s
    width = max(float(np.ptp(np.append(legs.x, legs.to_x))), range_m, 1e-3)
    height = max(float(np.ptp(np.append(legs.y, legs.to_y))), range_m, 1e-3)
    density = present_s / span_s / (width * height)
    travel_m = math.sqrt(ENTRY_COST / density + range_m**2)
    leg_s = present_s / len(seconds)
    slice_s = min(travel_m / speed if speed > 0 else span_s, 2 * leg_s, span_s)
    slice_s = max(slice_s, span_s / 100_000)
    return slice_s, max(range_m + speed * slice_s, 1e-3)


@compiled
def _search(
    active: IntArray,
    node: IntArray,
    legs: FloatArray,
    range_m: float,
    cell_m: float,
    low: float,
    high: float,
    pairs: IntArray,
    times: FloatArray,
) -> int:
    """Write the contact intervals that start in [low, high); return how many there are, which may be more than fit."""
    m = len(active)
    box = np.empty((m, 4))  # widened bounding box of a leg within the slice: low x and y, high x and y
    cells = np.empty((m, 4), dtype=np.int64)
    margin = 0.5 * range_m + 1e-6
    entries = 0
    for i in range(m):
        start, end, x, y, to_x, to_y = _leg(legs, active[i])
        seconds = end - start
        from_fraction, to_fraction = 0.0, 1.0
        if seconds > 0:
            from_fraction = max(0.0, (low - start) / seconds)
            to_fraction = min(1.0, (high - start) / seconds)
        x1, x2 = x + from_fraction * (to_x - x), x + to_fraction * (to_x - x)
        y1, y2 = y + from_fraction * (to_y - y), y + to_fraction * (to_y - y)
        box[i, 0], box[i, 1] = min(x1, x2) - margin, min(y1, y2) - margin
        box[i, 2], box[i, 3] = max(x1, x2) + margin, max(y1, y2) + margin
        for j in range(4):
            cells[i, j] = math.floor(box[i, j] / cell_m)
        entries += (cells[i, 2] - cells[i, 0] + 1) * (cells[i, 3] - cells[i, 1] + 1)
    buckets = 64
    while buckets < 2 * entries:
        buckets *= 2
    mask = buckets - 1
    first = np.zeros(buckets + 1, dtype=np.int64)
    for i in range(m):
        for cy in range(cells[i, 1], cells[i, 3] + 1):
            for cx in range(cells[i, 0], cells[i, 2] + 1):
                first[(_bucket(cx, cy) & mask) + 1] += 1
    for k in range(buckets):
        first[k + 1] += first[k]
    member = np.empty(entries, dtype=np.int64)
    cell = np.empty((entries, 2), dtype=np.int64)
    filled = first[:-1].copy()
    for i in range(m):
        for cy in range(cells[i, 1], cells[i, 3] + 1):
            for cx in range(cells[i, 0], cells[i, 2] + 1):
                k = _bucket(cx, cy) & mask
                member[filled[k]] = i
                cell[filled[k], 0], cell[filled[k], 1] = cx, cy
                filled[k] += 1
    count = 0
    for k in range(buckets):
        for p in range(first[k], first[k + 1]):
            i = member[p]
            for q in range(first[k], p):
                j = member[q]
                if cell[p, 0] != cell[q, 0] or cell[p, 1] != cell[q, 1]:
                    continue  # different cells in the same bucket
                if (
                    box[i, 0] > box[j, 2]
                    or box[j, 0] > box[i, 2]
                    or box[i, 1] > box[j, 3]
                    or box[j, 1] > box[i, 3]
                    # They may share several cells: only the first one counts.
                    or max(cells[i, 0], cells[j, 0]) != cell[p, 0]
                    or max(cells[i, 1], cells[j, 1]) != cell[p, 1]
                ):
                    continue
                a, b = active[i], active[j]
                if node[a] == node[b]:
                    continue
                if node[a] > node[b]:
                    a, b = b, a
                since, until = _within(legs, a, b, range_m)
                if low <= since < high:  # false for nan
                    if count < len(pairs):
                        pairs[count, 0], pairs[count, 1] = node[a], node[b]
                        times[count, 0], times[count, 1] = since, until
                    count += 1
    return count


@compiled
def _bucket(cx: int, cy: int) -> int:
    return cx * 73856093 ^ cy * 19349663


@compiled
def _leg(legs: FloatArray, k: int) -> tuple[float, float, float, float, float, float]:
    return legs[k, START], legs[k, END], legs[k, X], legs[k, Y], legs[k, TO_X], legs[k, TO_Y]


@compiled
def _within(legs: FloatArray, a: int, b: int, range_m: float) -> tuple[float, float]:
    """Times between which legs a and b are within range; (nan, nan) if never.

    |g + v·τ| ≤ R, where g is the gap when the later leg begins and v the relative velocity: they are nearest at
    τ* = −g·v/v², h = |g × v|/|v| apart, and within R for ±√(R² − h²)/|v| about τ*.
    """
    low, high = max(legs[a, START], legs[b, START]), min(legs[a, END], legs[b, END])
    if low > high:
        return np.nan, np.nan
    ax, ay, avx, avy = _state(legs, a, low)
    bx, by, bvx, bvy = _state(legs, b, low)
    gx, gy, vx, vy = bx - ax, by - ay, bvx - avx, bvy - avy
    span = high - low
    reach = range_m + TOUCH_M
    starts_near = _near(gx, gy, reach)
    if (
        _near(vx * span, vy * span, CLEARLY * TOUCH_M) and math.hypot(vx, vy) * span < TOUCH_M
    ):  # at rest, or side by side
        return (low, high) if starts_near else (np.nan, np.nan)
    ends_near = _near(gx + vx * span, gy + vy * span, reach)
    if starts_near and ends_near:
        return low, high
    cross, square = gx * vy - gy * vx, vx * vx + vy * vy
    if not starts_near and not ends_near and cross * cross > CLEARLY * reach * reach * square:
        return np.nan, np.nan  # they pass at a distance
    speed = math.hypot(vx, vy)
    nearest = -(gx * vx + gy * vy) / square
    apart = abs(cross) / speed
    half = math.sqrt(max(0.0, (range_m - apart) * (range_m + apart))) / speed
    if starts_near:
        return low, low + min(max(nearest + half, 0.0), span)
    if ends_near:
        return low + min(max(nearest - half, 0.0), span), high
    if apart > reach or nearest < 0.0 or nearest > span:
        return np.nan, np.nan
    return low + max(nearest - half, 0.0), low + min(nearest + half, span)


@compiled
def _near(x: float, y: float, reach: float) -> bool:
    """Whether hypot(x, y) ≤ reach; the root, which is slow, is taken only where rounding could decide."""
    square, limit = x * x + y * y, reach * reach
    if square * CLEARLY < limit:
        return True
    return square <= limit * CLEARLY and math.hypot(x, y) <= reach


@compiled
def _state(legs: FloatArray, k: int, t: float) -> tuple[float, float, float, float]:
    """Position and velocity on a leg at time t."""
    start, end, x, y, to_x, to_y = _leg(legs, k)
    seconds = end - start
    if seconds <= 0:
        return x, y, 0.0, 0.0
    vx, vy = (to_x - x) / seconds, (to_y - y) / seconds
    if t >= end:
        return to_x, to_y, vx, vy
    return x + vx * (t - start), y + vy * (t - start), vx, vy


def merged(pairs: IntArray, times: FloatArray, n: int) -> Contacts:
    """Contacts, from intervals (times [m,2]) of pairs [m,2] of n nodes, which may overlap or adjoin."""
    order = np.lexsort((times[:, 0], pairs[:, 0] * n + pairs[:, 1]))
    pairs, times = pairs[order], times[order]
    count = _merge(pairs, times)
    return Contacts(pairs[:count, 0].copy(), pairs[:count, 1].copy(), times[:count, 0].copy(), times[:count, 1].copy())


@compiled
def _merge(pairs: IntArray, times: FloatArray) -> int:
    """Merge intervals in place; return how many contacts remain at the front."""
    count = 0
    for i in range(len(pairs)):
        same = count > 0 and pairs[count - 1, 0] == pairs[i, 0] and pairs[count - 1, 1] == pairs[i, 1]
        if same and times[i, 0] <= times[count - 1, 1] + SAME_S:
            times[count - 1, 1] = max(times[count - 1, 1], times[i, 1])
        else:
            pairs[count], times[count] = pairs[i], times[i]
            count += 1
    return count
