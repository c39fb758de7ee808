"""Positions on a path, in a compiled loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled

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
