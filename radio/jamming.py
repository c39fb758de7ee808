"""Jamming: areas in which noise drowns out reception."""

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
    """Loss of links with an end in a jamming zone; a ray that merely crosses a zone loses nothing.

    An exchange goes both ways, each packet being acknowledged, so the worse of the two ends counts. Where zones
    overlap, their noise powers add up.
    """

    def __init__(self, zones: Sequence[JammingZone]) -> None:
        self.zones = [zone for zone in zones if zone.noise_db > 0]
        for zone in self.zones:
            shapely.prepare(zone.polygon)

    def loss_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Losses [m] in dB of the links between a ([2] or [m,2]) and b [m,2]."""
        if not self.zones:
            return np.zeros(len(b))
        return np.maximum(self.noise_db(np.atleast_2d(a)), self.noise_db(b))

    def noise_db(self, positions: FloatArray) -> FloatArray:
        """Rise of the noise at positions [m,2], in dB; the border of a zone belongs to it."""
        power = np.ones(len(positions))  # relative to the noise outside all zones
        for zone in self.zones:
            inside = shapely.intersects_xy(zone.polygon, positions[:, 0], positions[:, 1])
            power[inside] += 10 ** (zone.noise_db / 10) - 1
        return 10 * np.log10(power)
