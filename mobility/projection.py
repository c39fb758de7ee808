"""Longitude and latitude on a plane, as metres from an origin."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fedmule.mobility.traces.trace import Trace

METRES_PER_DEGREE = 6_371_008.8 * math.pi / 180  # along a meridian of the mean Earth

Origin = tuple[float, float]


def scales(lat0: float) -> Origin:
    """Metres per degree of longitude and of latitude near a latitude."""
    return METRES_PER_DEGREE * math.cos(math.radians(lat0)), METRES_PER_DEGREE


def in_metres(trace: Trace, origin: Origin | None) -> Trace:
    """A trace whose x and y are degrees, in metres from the origin or else from its south-west corner."""
    lon0, lat0 = origin or (float(np.nanmin(trace.x)), float(np.nanmin(trace.y)))
    east, north = scales(lat0)
    return replace(trace, x=(trace.x - lon0) * east, y=(trace.y - lat0) * north)
