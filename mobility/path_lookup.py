"""Positions on paths, and when two of them come near each other, in compiled loops."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled, inner

FloatArray = NDArray[np.float64]


@compiled
def look_up(times: FloatArray, positions: FloatArray, t: FloatArray, right: bool) -> FloatArray:
    """Return the positions [m,2] of a path at times [m]: at a jump the later one if `right`, else the earlier one."""
    found = np.empty((len(t), 2))
    last = len(times) - 1
    for i in range(len(t)):
        passed, end = 0, last + 1  # waypoints before t, or at it
        while passed < end:
            middle = (passed + end) // 2
            if times[middle] < t[i] or (right and times[middle] == t[i]):
                passed = middle + 1
            else:
                end = middle
        leg = min(max(passed - 1, 0), last)
        following = min(leg + 1, last)
        span = times[following] - times[leg]
        fraction = (t[i] - times[leg]) / span if 0 < span < np.inf else 0.0  # an endless leg stands still
        fraction = min(max(fraction, 0.0), 1.0)
        for k in range(2):
            found[i, k] = positions[leg, k] + fraction * (positions[following, k] - positions[leg, k])
    return found


@inner
def waypoint_times(a: FloatArray, b: FloatArray, start_s: float, end_s: float) -> FloatArray:
    """Return the times of two paths within a span, ascending and each once, and the ends of the span."""
    found, count, i, j = np.empty(len(a) + len(b) + 2), 1, 0, 0
    found[0] = start_s
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] <= b[j]):
            t = a[i]
            i += 1
        else:
            t = b[j]
            j += 1
        if found[count - 1] < t < end_s:
            found[count] = t
            count += 1
    found[count] = end_s
    return found[: count + 1]


@compiled
def first_near(
    t_a: FloatArray, a: FloatArray, t_b: FloatArray, b: FloatArray, distance_m: float, start_s: float, end_s: float
) -> float:
    """Return the first time in a span at which two paths are within a distance; nan if they never are."""
    times, later = waypoint_times(t_a, t_b, start_s, end_s), start_s <= end_s
    if not later:
        return np.nan
    from_a, from_b = look_up(t_a, a, times, later), look_up(t_b, b, times, later)
    to_a, to_b = look_up(t_a, a, times, not later), look_up(t_b, b, times, not later)
    square = distance_m * distance_m
    for i in range(len(times)):
        gap_x, gap_y = from_a[i, 0] - from_b[i, 0], from_a[i, 1] - from_b[i, 1]
        apart = gap_x * gap_x + gap_y * gap_y
        if apart <= square:
            return float(times[i])
        if i + 1 == len(times) or times[i + 1] == times[i]:
            break
        change_x, change_y = to_a[i + 1, 0] - to_b[i + 1, 0] - gap_x, to_a[i + 1, 1] - to_b[i + 1, 1] - gap_y
        quadratic, half_linear = change_x * change_x + change_y * change_y, gap_x * change_x + gap_y * change_y
        root = half_linear * half_linear - quadratic * (apart - square)
        if quadratic > 0 and root >= 0:
            enter = (-half_linear - math.sqrt(root)) / quadratic
            if 0.0 <= enter <= 1.0:
                return float(times[i] + enter * (times[i + 1] - times[i]))
    return np.nan
