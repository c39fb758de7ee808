"""Loss of a link beyond free propagation: obstacles that the ray crosses, and jamming at its ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.terrain import Obstacle
from fedmule.radio.jamming import Jamming, JammingZone

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Obstruction:
    """Obstacles, each of which takes its `radio_loss_db` once from every ray that crosses it, and jamming zones."""

    def __init__(self, obstacles: Sequence[Obstacle] = (), jamming_zones: Sequence[JammingZone] = ()) -> None:
        lossy = [obstacle for obstacle in obstacles if obstacle.radio_loss_db > 0]
        self._corners = [np.asarray(shapely.get_coordinates(obstacle.polygon)) for obstacle in lossy]
        self._loss_db = np.array([obstacle.radio_loss_db for obstacle in lossy])
        self._tree = shapely.STRtree([obstacle.polygon for obstacle in lossy])
        self._jamming = Jamming(jamming_zones)

    def loss_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Losses [m] in dB of the links between a ([2] or [m,2]) and b [m,2]."""
        loss = self._jamming.loss_db(a, b)
        if len(self._corners) and len(b):
            rays = shapely.linestrings(np.stack([np.broadcast_to(a, b.shape), b], axis=1))
            ray, obstacle = self._tree.query(rays, predicate="intersects")
            np.add.at(loss, ray, self._loss_db[obstacle])
        return loss

    def changes(self, a: FloatArray, a_end: FloatArray, b: FloatArray, b_end: FloatArray) -> FloatArray:
        """Fractions in (0,1) of the legs a→a_end and b→b_end, travelled simultaneously, at which the loss may change.

        In between it is constant.
        """
        if not (a_end - a).any():
            return self._changes_from(a, b, b_end)
        fractions = [self._jamming.changes(a, a_end), self._jamming.changes(b, b_end)]
        for obstacle in self._near(a, a_end, b, b_end):
            corners = self._corners[obstacle]
            fractions.append(_collinear(a - corners, a_end - a, b - corners, b_end - b))
            for start, leg in ((a, a_end - a), (b, b_end - b)):
                fractions.append(_crossings(start, leg, corners[:-1], np.diff(corners, axis=0)))
        return _inner(fractions)

    def _changes_from(self, fixed: FloatArray, start: FloatArray, end: FloatArray) -> FloatArray:
        """`changes` where one end is fixed.

        The view changes only where the ray from the fixed end passes a corner of an obstacle, or where the moving end
        crosses an edge of an obstacle or of a jamming zone.
        """
        fractions = [self._jamming.changes(start, end)]
        leg = end - start
        for obstacle in self._near(fixed, start, end):
            corners = self._corners[obstacle]
            fractions.append(_crossings(start, leg, fixed, corners - fixed))
            fractions.append(_crossings(start, leg, corners[:-1], np.diff(corners, axis=0)))
        return _inner(fractions)

    def _near(self, *positions: FloatArray) -> IntArray:
        """Obstacles that touch the bounding box of these positions [2]."""
        if not len(self._corners):
            return np.empty(0, dtype=np.int64)
        return np.asarray(self._tree.query(shapely.linestrings(np.stack(positions))))


def _inner(fractions: list[FloatArray]) -> FloatArray:
    found = np.concatenate(fractions)
    return np.unique(found[(found > 0) & (found < 1)])


def _collinear(a: FloatArray, a_leg: FloatArray, b: FloatArray, b_leg: FloatArray) -> FloatArray:
    """Fractions s at which a + s·a_leg, b + s·b_leg and 0 lie on a line, for a and b [m,2]: roots of quadratics."""
    constant = _cross(a, b)
    linear = _cross(a, b_leg) + _cross(a_leg, b)
    quadratic = np.full(len(a), float(_cross(a_leg, b_leg)))
    with np.errstate(divide="ignore", invalid="ignore"):
        half = -(linear + np.copysign(np.sqrt(linear**2 - 4 * quadratic * constant), linear)) / 2
        roots = np.concatenate([half / quadratic, constant / half])  # neither loses digits where the other is large
    return np.asarray(roots[np.isfinite(roots)])


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _crossings(start: FloatArray, leg: FloatArray, origins: FloatArray, directions: FloatArray) -> FloatArray:
    """Fractions s at which start + s·leg meets the lines origins + u·directions; parallel lines give none."""
    denominator = leg[0] * directions[:, 1] - leg[1] * directions[:, 0]
    offset = origins - start
    numerator = offset[..., 0] * directions[:, 1] - offset[..., 1] * directions[:, 0]
    usable = denominator != 0
    return np.asarray(numerator[usable] / denominator[usable])
