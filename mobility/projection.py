"""Longitude and latitude on a plane, as metres east and north of an origin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

METRES_PER_DEGREE = 6_371_008.8 * math.pi / 180  # along a meridian of the mean Earth

Origin = tuple[float, float]  # longitude and latitude, degrees
Value = TypeVar("Value", float, NDArray[np.float64])


def crosses_date_line(west: float, east: float) -> bool:
    """Whether positions between two longitudes must lie on both sides of 180°, where the plane has a seam."""
    return east - west > 180


@dataclass(frozen=True)
class Projection:
    """Equirectangular projection that is true to scale at the origin: good for areas some tens of kilometres across."""

    origin: Origin

    @cached_property
    def scales(self) -> tuple[float, float]:
        """Metres per degree of longitude and of latitude."""
        return METRES_PER_DEGREE * math.cos(math.radians(self.origin[1])), METRES_PER_DEGREE

    def to_metres(self, lon: Value, lat: Value) -> tuple[Value, Value]:
        """Metres east and north of the origin."""
        east, north = self.scales
        return (lon - self.origin[0]) * east, (lat - self.origin[1]) * north

    def to_degrees(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Longitude and latitude."""
        east, north = self.scales
        return self.origin[0] + x / east, self.origin[1] + y / north
