"""True positions of the clients, and the positions they reported by satellite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedmule.mobility.models.movement import BoolArray, Draw, FloatArray, IntArray, somewhere
from fedmule.mobility.trajectory import Trajectories

if TYPE_CHECKING:
    from scipy.spatial import cKDTree


class Index:
    """Points near a position, found by a tree if the points stay for many queries and by a scan if they move."""

    def __init__(self, xy: FloatArray, still: bool) -> None:
        self.xy = xy
        self._tree: cKDTree | None = None
        if still:
            from scipy.spatial import cKDTree  # imported late, so that reading a scenario does not load scipy

            self._tree = cKDTree(xy)

    def within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Points within a radius of a position, in ascending order."""
        if self._tree is None:
            gap = self.xy - position
            return np.flatnonzero(gap[:, 0] ** 2 + gap[:, 1] ** 2 <= radius_m**2)
        # The tree's rounding must not decide a point on the circle: ask for a little more, then measure.
        near = np.sort(np.array(self._tree.query_ball_point(position, radius_m * (1 + 1e-9)), dtype=np.int64))
        gap = self.xy[near] - position
        return near[gap[:, 0] ** 2 + gap[:, 1] ** 2 <= radius_m**2]


class Positions:
    """True positions now, and the positions last reported: every `report_period_s`, with a Gaussian error.

    `report_error_m` is the standard deviation along each axis. Times given to `advance` must not decrease.
    """

    def __init__(self, trajectories: Trajectories, draw: Draw, report_period_s: float, report_error_m: float) -> None:
        self.trajectories = trajectories
        self._draw = draw
        self._period_s = report_period_s
        self._error_m = report_error_m
        self._report = 0  # number of the last report
        self._true = self._reported = Index(trajectories.positions(0.0), trajectories.still)

    def __len__(self) -> int:
        return len(self.trajectories)

    @property
    def next_report_s(self) -> float:
        """Time of the next reports."""
        return (self._report + 1) * self._period_s

    def advance(self, t: float) -> None:
        """Advance to time t, with the last report due by then."""
        report = int(t // self._period_s)
        report += (report + 1) * self._period_s <= t  # the division may round down
        if report > self._report:
            self._report = report
            self._reported = self._look_up(min(t, report * self._period_s))
        self._true = self._look_up(t)

    def after_visit(self, visit: int, t: float) -> None:
        """Let the mobility model redraw all positions after a visit; the new ones are reported at once."""
        if self.trajectories.after_visit(visit, t):
            self._true = self._reported = Index(self.trajectories.positions(t), True)

    def there(self, t: float) -> BoolArray | None:
        """Which clients [n] are present at time t; None if all are."""
        return self.trajectories.movement.there(t)

    def true(self, clients: IntArray) -> FloatArray:
        """True positions [m,2] of some clients."""
        return self._true.xy[clients]

    def within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Clients whose true positions lie within a radius of a position."""
        return self._true.within(position, radius_m)

    def known(self, clients: IntArray) -> FloatArray:
        """Reported positions [m,2] of some clients; a client that has just arrived reports at once."""
        reported = self._reported.xy[clients]
        reported = np.where(somewhere(reported)[:, None], reported, self._true.xy[clients])
        return reported + self._errors(clients)

    def known_within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Clients whose reported positions lie within a radius of a position."""
        near = self._reported.within(position, radius_m + LARGEST_ERROR * self._error_m)
        gap = self.known(near) - position
        return near[gap[:, 0] ** 2 + gap[:, 1] ** 2 <= radius_m**2]

    def _look_up(self, t: float) -> Index:
        if self.trajectories.still:
            return self._true
        return Index(self.trajectories.positions(t), still=False)

    def _errors(self, clients: IntArray) -> FloatArray:
        if self._error_m == 0:
            return np.zeros((len(clients), 2))
        uniform = self._draw(clients, np.full(len(clients), self._report), 2)
        radius = self._error_m * np.sqrt(-2 * np.log1p(-uniform[:, 0]))
        angle = 2 * np.pi * uniform[:, 1]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


# Uniform numbers have 53 bits, so no error exceeds sqrt(2·53·ln 2) standard deviations.
LARGEST_ERROR = 8.58
