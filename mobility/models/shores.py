"""Influence of shores on the current, compiled."""

from __future__ import annotations

import math

import numpy as np

from fedmule.mobility.compiler import compiled
from fedmule.mobility.traces.trace import FloatArray, IntArray


@compiled
def ramps(xy: FloatArray, edges: FloatArray, until: IntArray, wide_m: float) -> tuple[FloatArray, FloatArray]:
    """Product Π s²(3 − 2s) [m] over all shores, with s = distance / wide_m up to 1, and its gradient [m,2]."""
    ramp, slope = np.ones(len(xy)), np.zeros((len(xy), 2))
    for i in range(len(xy)):
        first = 0
        for last in until:
            least, gap_x, gap_y = np.inf, 0.0, 0.0
            for k in range(first, last):
                x, y = edges[k, 0, 0], edges[k, 0, 1]
                edge_x, edge_y = edges[k, 1, 0] - x, edges[k, 1, 1] - y
                fraction = ((xy[i, 0] - x) * edge_x + (xy[i, 1] - y) * edge_y) / (edge_x * edge_x + edge_y * edge_y)
                fraction = min(max(fraction, 0.0), 1.0)
                x, y = xy[i, 0] - x - fraction * edge_x, xy[i, 1] - y - fraction * edge_y
                if x * x + y * y < least:
                    least, gap_x, gap_y = x * x + y * y, x, y
            first = last
            distance = math.sqrt(least)
            if distance >= wide_m:
                continue
            s = distance / wide_m
            one, steep = s * s * (3 - 2 * s), 6 * (1 - s) / wide_m**2  # dR/dd = steep · d
            slope[i, 0] = slope[i, 0] * one + ramp[i] * steep * gap_x
            slope[i, 1] = slope[i, 1] * one + ramp[i] * steep * gap_y
            ramp[i] *= one
    return ramp, slope
