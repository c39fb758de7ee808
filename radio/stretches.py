"""Stretches of a link between two moving ends, in compiled loops: where its loss or its rate changes, and to what."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled, inner
from fedmule.mobility.path_lookup import look_up, waypoint_times
from fedmule.mobility.surface_times import Outlines
from fedmule.radio.box_tree import BoxTree, may_meet

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

WITHIN = 1e-9  # share of an edge by which rounding may put a crossing beyond its end; a cut too many does no harm
NONE = np.int64(0)  # with a literal 0 a function would be compiled twice
KEPT = 1 << 14  # cells whose shadowing is kept; a power of two


class View(NamedTuple):
    """What the loss of a link depends on besides its length."""

    screens: Outlines  # obstacles, in the order of the tree; factors: the loss of each, dB
    tree: BoxTree
    zones: Outlines  # jamming zones; factors: their noise relative to the noise outside all zones
    noise_db: FloatArray  # [z] in one zone alone
    waves: FloatArray  # [3,w] wave numbers and phases of the shadowing; [3,0]: none
    shadowing: tuple[float, float, float, float]  # deviation and most in dB, distance and side of its cells in m
    cells: IntArray  # [KEPT,2] cells whose field is known
    field: FloatArray  # [KEPT]


class Rungs(NamedTuple):
    """Ladders of a radio by loss; the steps of ladder q are first[q]:first[q+1]."""

    losses_db: FloatArray  # [q] ascending
    first: IntArray  # [q+1]
    distances_m: FloatArray
    rates_bps: FloatArray


@compiled
def stretches(
    view: View,
    rungs: Rungs,
    a_times: FloatArray,
    a_xy: FloatArray,
    b_times: FloatArray,
    b_xy: FloatArray,
    span_s: tuple[float, float],
    later: tuple[bool, bool],
    extra_db: float,
) -> tuple[float, FloatArray, FloatArray]:
    """Ends [k] and rates [k] of the stretches of the link between two paths over a span of time, after nan.

    Instead of nan: a loss whose ladder is missing; then there are no stretches. Where a path jumps, its later position
    counts at the beginning and at the end of a leg, or the earlier one: `later` has a value for each.
    """
    cuts = waypoint_times(a_times, b_times, span_s[0], span_s[1])
    a_from, a_to = look_up(a_times, a_xy, cuts[:-1], later[0]), look_up(a_times, a_xy, cuts[1:], later[1])
    b_from, b_to = look_up(b_times, b_xy, cuts[:-1], later[0]), look_up(b_times, b_xy, cuts[1:], later[1])
    ends, rates, count = np.empty(16), np.empty(16), 0
    crossed = np.empty(2 * len(rungs.rates_bps) + 1)
    for leg in range(len(cuts) - 1):
        begin_s, end_s = cuts[leg], cuts[leg + 1]
        ax, ay, bx, by = a_from[leg, 0], a_from[leg, 1], b_from[leg, 0], b_from[leg, 1]
        ux, uy, vx, vy = a_to[leg, 0] - ax, a_to[leg, 1] - ay, b_to[leg, 0] - bx, b_to[leg, 1] - by
        gap_x, gap_y, change_x, change_y = bx - ax, by - ay, vx - ux, vy - uy
        quadratic, half_linear = change_x * change_x + change_y * change_y, gap_x * change_x + gap_y * change_y
        shares, pieces = _changes(view, ax, ay, ux, uy, bx, by, vx, vy)
        before = s0 = 0.0
        for piece in range(pieces):
            s1 = shares[piece]
            middle = (s0 + s1) / 2
            loss_db = extra_db + _loss_db(view, ax + ux * middle, ay + uy * middle, bx + vx * middle, by + vy * middle)
            q = _first_at_least(rungs.losses_db, NONE, len(rungs.losses_db), loss_db)
            if q == len(rungs.losses_db) or rungs.losses_db[q] != loss_db:
                return loss_db, ends[:0], rates[:0]
            lowest, highest, found = rungs.first[q], rungs.first[q + 1], NONE
            if quadratic > 0:  # where the distance crosses steps of the ladder
                for k in range(lowest, highest):
                    square = rungs.distances_m[k] * rungs.distances_m[k]
                    root = half_linear * half_linear - quadratic * (gap_x * gap_x + gap_y * gap_y - square)
                    if root >= 0:
                        reach = math.sqrt(root)
                        crossed[found] = (-half_linear - reach) / quadratic
                        crossed[found + 1] = (-half_linear + reach) / quadratic
                        found += 2
            for i in range(_in_order(crossed, found, s0, s1)):
                half = (before + crossed[i]) / 2
                before = crossed[i]
                distance_m = math.hypot(bx + vx * half - (ax + ux * half), by + vy * half - (ay + uy * half))
                k = _first_at_least(rungs.distances_m, lowest, highest, distance_m)
                if count == len(ends):
                    ends, rates = _twice_as_long(ends), _twice_as_long(rates)
                ends[count] = end_s if before == 1.0 else begin_s + before * (end_s - begin_s)
                rates[count] = rungs.rates_bps[k] if k < highest else 0.0
                count += 1
            s0 = s1
    return np.nan, ends[:count], rates[:count]


@compiled
def rates_between(
    view: View, rungs: Rungs, a: FloatArray, b: FloatArray, extra_db: FloatArray
) -> tuple[float, FloatArray]:
    """Rates [m] of the links between positions a [m,2] and b [m,2], after nan or a loss whose ladder is missing."""
    rates = np.zeros(len(b))
    for i in range(len(b)):
        loss_db = extra_db[i] + _loss_db(view, a[i, 0], a[i, 1], b[i, 0], b[i, 1])
        q = _first_at_least(rungs.losses_db, NONE, len(rungs.losses_db), loss_db)
        if q == len(rungs.losses_db) or rungs.losses_db[q] != loss_db:
            return loss_db, rates
        distance_m = math.hypot(b[i, 0] - a[i, 0], b[i, 1] - a[i, 1])
        k = _first_at_least(rungs.distances_m, rungs.first[q], rungs.first[q + 1], distance_m)
        if k < rungs.first[q + 1]:
            rates[i] = rungs.rates_bps[k]
    return np.nan, rates


@inner
def _twice_as_long(values: FloatArray) -> FloatArray:
    longer = np.empty(2 * len(values))
    for i in range(len(values)):
        longer[i] = values[i]
    return longer


@inner
def _in_order(shares: FloatArray, count: int, low: float, high: float) -> int:
    """Keep those of some shares that lie between two others, ascending and each once, then the higher of the two.

    Returns how many there are.
    """
    kept = 0
    for i in range(count):
        share = shares[i]
        if low < share < high:
            k = kept
            while k > 0 and shares[k - 1] > share:
                k -= 1
            if k == 0 or shares[k - 1] != share:
                for j in range(kept, k, -1):
                    shares[j] = shares[j - 1]
                shares[k] = share
                kept += 1
    shares[kept] = high
    return kept + 1


@inner
def _first_at_least(ascending: FloatArray, low: int, high: int, value: float) -> int:
    """The first of the numbers low:high that is at least this one; `high` if none is."""
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def room_for_shadowing() -> tuple[IntArray, FloatArray]:
    """Room to keep the field of cells, none of which is known yet."""
    return np.full((KEPT, 2), np.iinfo(np.int64).min), np.empty(KEPT)


# --- where the loss changes ------------------------------------------------------------------------------------------


@inner
def _changes(
    view: View, ax: float, ay: float, ux: float, uy: float, bx: float, by: float, vx: float, vy: float
) -> tuple[FloatArray, int]:
    """Shares in (0,1] of two legs travelled at once, from a by u and from b by v, at which the loss may change.

    They are ascending, the last one is 1, and their number is returned too.
    """
    a_moves, b_moves = ux != 0 or uy != 0, vx != 0 or vy != 0
    screens, zones, side_m = view.screens, view.zones, view.shadowing[3]
    west, east = min(ax, ax + ux, bx, bx + vx), max(ax, ax + ux, bx, bx + vx)
    south, north = min(ay, ay + uy, by, by + vy), max(ay, ay + uy, by, by + vy)
    room = 1 + 2 * len(zones.edges)
    if view.waves.shape[1]:
        room += 8 + int((abs(ux) + abs(uy) + abs(vx) + abs(vy)) / side_m)
    shares, count, node = np.empty(room + 64), NONE, NONE
    last_node = len(view.tree.skip) if a_moves or b_moves else NONE
    while node < last_node:
        box = view.tree.boxes[node]
        if box[0] > east or box[2] < west or box[1] > north or box[3] < south:
            node = view.tree.skip[node]
            continue
        for p in range(view.tree.held[node, 0], view.tree.held[node, 1]):
            if screens.boxes[p, 0] > east or screens.boxes[p, 2] < west:
                continue
            if screens.boxes[p, 1] > north or screens.boxes[p, 3] < south:
                continue
            while count + 4 * (screens.first[p + 1] - screens.first[p]) + room > len(shares):
                shares = _twice_as_long(shares)
            for e in range(screens.first[p], screens.first[p + 1]):
                cx, cy = screens.edges[e, 0], screens.edges[e, 1]
                wide, high = screens.edges[e, 2] - cx, screens.edges[e, 3] - cy
                shares[count] = _crossing(bx, by, vx, vy, cx, cy, wide, high)
                if a_moves:
                    shares[count + 1] = _crossing(ax, ay, ux, uy, cx, cy, wide, high)
                    # The ends and the corner c are on a line: a quadratic.
                    constant = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
                    linear = ((ax - cx) * vy - (ay - cy) * vx) + (ux * (by - cy) - uy * (bx - cx))
                    quadratic = ux * vy - uy * vx
                    root = math.sqrt(linear * linear - 4 * quadratic * constant)  # nan if negative
                    half = -(linear + math.copysign(root, linear)) / 2
                    shares[count + 2] = half / quadratic  # neither loses digits where the other is large
                    shares[count + 3] = constant / half
                    count += 4
                else:  # the ray from a passes the corner
                    shares[count + 1] = _crossing(bx, by, vx, vy, ax, ay, cx - ax, cy - ay)
                    count += 2
        node += 1
    for e in range(len(zones.edges)):
        cx, cy = zones.edges[e, 0], zones.edges[e, 1]
        wide, high = zones.edges[e, 2] - cx, zones.edges[e, 3] - cy
        for x, y, leg_x, leg_y in ((ax, ay, ux, uy), (bx, by, vx, vy)):
            along = _crossing(cx, cy, wide, high, x, y, leg_x, leg_y)  # share of the edge
            if -WITHIN <= along <= 1 + WITHIN:
                shares[count] = _crossing(x, y, leg_x, leg_y, cx, cy, wide, high)
                count += 1
    if view.waves.shape[1]:  # borders between cells
        for start, length in ((ax, ux), (ay, uy), (bx, vx), (by, vy)):
            here, there = start / side_m, (start + length) / side_m
            if here != there:
                border, last = math.ceil(min(here, there)), math.floor(max(here, there))
                while border <= last:
                    shares[count] = (border - here) / (there - here)
                    border, count = border + 1, count + 1
    return shares, _in_order(shares, count, 0.0, 1.0)


@inner
def _crossing(x: float, y: float, ux: float, uy: float, cx: float, cy: float, wide: float, high: float) -> float:
    """Share s at which (x, y) + s·u meets the line through c along (wide, high); nan if they are parallel."""
    det = ux * high - uy * wide
    return ((cx - x) * high - (cy - y) * wide) / det if det != 0 else np.nan


# --- the loss itself -------------------------------------------------------------------------------------------------


@inner
def _loss_db(view: View, ax: float, ay: float, bx: float, by: float) -> float:
    """Loss of the link between two positions: jamming at the worse end, obstacles in between, shadowing."""
    screens, loss_db = view.screens, 0.0
    if len(view.noise_db):
        loss_db = max(_noise_db(view, ax, ay), _noise_db(view, bx, by))
    node = NONE
    while node < len(view.tree.skip):
        if may_meet(view.tree.boxes[node], ax, ay, bx, by):
            for p in range(view.tree.held[node, 0], view.tree.held[node, 1]):
                if _touches(screens, p, ax, ay, bx, by):
                    loss_db += screens.factors[p]
            node += 1
        else:
            node = view.tree.skip[node]
    if view.waves.shape[1]:
        loss_db += _shadow_db(view, ax, ay, bx, by)
    return loss_db


@inner
def _noise_db(view: View, x: float, y: float) -> float:
    """Rise of the noise at a position; the noise powers of several zones add up."""
    power, zones, last = 1.0, 0, 0
    for z in range(len(view.noise_db)):
        if _touches(view.zones, z, x, y, x, y):
            power += view.zones.factors[z]
            zones, last = zones + 1, z
    if zones < 2:
        return view.noise_db[last] if zones else 0.0
    return 10 * math.log10(power)


@inner
def _touches(outlines: Outlines, p: int, ax: float, ay: float, bx: float, by: float) -> bool:
    """Whether the ray between two positions touches a polygon."""
    box = outlines.boxes[p]
    if max(ax, bx) < box[0] or max(ay, by) < box[1] or min(ax, bx) > box[2] or min(ay, by) > box[3]:
        return False
    inside = False
    for e in range(outlines.first[p], outlines.first[p + 1]):
        cx, cy = outlines.edges[e, 0], outlines.edges[e, 1]
        dx, dy = outlines.edges[e, 2], outlines.edges[e, 3]
        a_side = (dx - cx) * (ay - cy) - (dy - cy) * (ax - cx)
        if (cy > ay) != (dy > ay) and (a_side > 0) == (dy > cy):
            inside = not inside
        if max(ax, bx) < min(cx, dx) or max(ay, by) < min(cy, dy):
            continue
        if min(ax, bx) > max(cx, dx) or min(ay, by) > max(cy, dy):
            continue
        b_side = (dx - cx) * (by - cy) - (dy - cy) * (bx - cx)
        if (a_side > 0 and b_side > 0) or (a_side < 0 and b_side < 0):
            continue
        c_side = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        d_side = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax)
        if not ((c_side > 0 and d_side > 0) or (c_side < 0 and d_side < 0)):
            return True
    return inside


@inner
def _shadow_db(view: View, ax: float, ay: float, bx: float, by: float) -> float:
    """Shadowing as `Shadowing.loss_db` has it."""
    db, most_db, distance_m, side_m = view.shadowing
    i, j, k, m = math.floor(ax / side_m), math.floor(ay / side_m), math.floor(bx / side_m), math.floor(by / side_m)
    apart_m = math.hypot((k + 0.5) * side_m - (i + 0.5) * side_m, (m + 0.5) * side_m - (j + 0.5) * side_m)
    both = (_field(view, i, j) + _field(view, k, m)) / math.sqrt(2 + 2 * math.exp(-apart_m / distance_m))
    return float(min(max(np.rint(2 * db * both) / 2, -most_db), most_db))


@inner
def _field(view: View, i: int, j: int) -> float:
    """The shadowing field in a cell."""
    slot = (i * 73856093 ^ j * 19349663) & (KEPT - 1)
    if view.cells[slot, 0] != i or view.cells[slot, 1] != j:
        x, y, total = (i + 0.5) * view.shadowing[3], (j + 0.5) * view.shadowing[3], 0.0
        for w in range(view.waves.shape[1]):
            total += math.cos(x * view.waves[0, w] + y * view.waves[1, w] + view.waves[2, w])
        view.cells[slot, 0], view.cells[slot, 1] = i, j
        view.field[slot] = math.sqrt(2 / view.waves.shape[1]) * total
    return float(view.field[slot])
