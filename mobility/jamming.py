"""Jamming: positions where noise drowns what one receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class JammingZone:
    """A polygon in which the noise is `noise_db` stronger than elsewhere."""

    polygon: shapely.Polygon
    noise_db: float
    name: str = ""


class Jamming:
    """What links lose to the zones their ends stand in; a ray that only crosses a zone loses nothing.

    An exchange goes both ways, each packet answered, so the worse of the two ends counts. Where zones overlap
    their noise powers add up.
    """

    def __init__(self, zones: Sequence[JammingZone]) -> None:
        self._zones = [zone for zone in zones if zone.noise_db > 0]
        for zone in self._zones:
            shapely.prepare(zone.polygon)

    def loss_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Losses [m] of the links between a ([2] or [m,2]) and b [m,2]."""
        if not self._zones:
            return np.zeros(len(b))
        return np.maximum(self._noise_db(np.atleast_2d(a)), self._noise_db(b))

    def changes(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Shares of the way start→end where it crosses the border of a zone."""
        shares = [np.empty(0)]
        length = max(float(np.hypot(*(end - start))), 1e-12)
        for zone in self._zones:
            meets = shapely.get_coordinates(zone.polygon.boundary.intersection(shapely.LineString([start, end])))
            shares.append(np.hypot(*(meets - start).T) / length)
        return np.concatenate(shares)

    def _noise_db(self, positions: FloatArray) -> FloatArray:
        """By how much the noise is raised at positions [m,2]; the border of a zone belongs to it."""
        power = np.ones(len(positions))  # as many times what it is elsewhere
        for zone in self._zones:
            inside = shapely.intersects_xy(zone.polygon, positions[:, 0], positions[:, 1])
            power[inside] += 10 ** (zone.noise_db / 10) - 1
        return 10 * np.log10(power)
