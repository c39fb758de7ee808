"""True positions of the clients, and the positions they reported by satellite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedmule.mobility.models.movement import BoolArray, Draw, FloatArray, IntArray, somewhere
from fedmule.mobility.trajectory import Trajectories, Way

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

    def __init__(
        self,
        trajectories: Trajectories,
        draw: Draw,
        report_period_s: float,
        report_error_m: float,
        keep_two: bool = False,
    ) -> None:
        self.trajectories = trajectories
        self._draw = draw
        self._period_s = report_period_s
        self._error_m = report_error_m
        self._keep_two = keep_two  # keep the last report but one, for `known_velocity`
        self._before: Index | None = None  # that report
        self._report = 0  # number of the last report
        self._true = self._reported = Index(trajectories.positions(0.0), trajectories.still)

    def __len__(self) -> int:
        return len(self.trajectories)

    @property
    def last_report_s(self) -> float:
        """Time of the last reports."""
        return self._report * self._period_s

    @property
    def next_report_s(self) -> float:
        """Time of the next reports."""
        return (self._report + 1) * self._period_s

    def advance(self, t: float) -> None:
        """Advance to time t, with the last report due by then."""
        report = int(t // self._period_s)
        report += (report + 1) * self._period_s <= t  # the division may round down
        if report > self._report:
            if self._keep_two:
                missed = report - 1 > self._report
                self._before = self._look_up((report - 1) * self._period_s) if missed else self._reported
            self._report = report
            self._reported = self._look_up(min(t, report * self._period_s))
        self._true = self._look_up(t)

    def after_visit(self, visit: int, t: float) -> bool:
        """Let the mobility model redraw all positions after a visit, reported at once; returns whether it did."""
        if not self.trajectories.after_visit(visit, t):
            return False
        self._true = self._reported = Index(self.trajectories.positions(t), True)
        self._before = None
        return True

    def there(self, t: float) -> BoolArray | None:
        """Which clients [n] are present at time t; None if all are."""
        return self.trajectories.movement.there(t)

    def true(self, clients: IntArray) -> FloatArray:
        """True positions [m,2] of some clients."""
        return self._true.xy[clients]

    def within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Clients whose true positions lie within a radius of a position."""
        return self._true.within(position, radius_m)

    def passed(self, way: Way, start: float, end: float, radius_m: float) -> IntArray:
        """Clients that come within a radius of a vehicle on its way between two times, ascending; perhaps a few more.

        `start` must not be before the time of the last `advance`.
        """
        piece = way.between(start, end).positions
        low, high = piece.min(axis=0), piece.max(axis=0)
        if self.trajectories.still:
            middle = (low + high) / 2
            return self._true.within(middle, float(np.hypot(*(high - middle))) + radius_m)
        lows, highs = self.trajectories.boxes(end)
        return np.flatnonzero(((lows <= high + radius_m) & (highs >= low - radius_m)).all(axis=1))

    def known(self, clients: IntArray) -> FloatArray:
        """Reported positions [m,2] of some clients; a client that has just arrived reports at once."""
        reported = self._reported.xy[clients]
        reported = np.where(somewhere(reported)[:, None], reported, self._true.xy[clients])
        return reported + self._errors(clients, self._report)

    def known_velocity(self, client: int) -> FloatArray | None:
        """Velocity [2] of a client by its last two reports, m/s; None if there are not two."""
        both = [] if self._before is None else [self._before.xy[[client]], self._reported.xy[[client]]]
        if not (both and somewhere(np.concatenate(both)).all()):
            return None
        numbers = (self._report - 1, self._report)
        old, new = (xy + self._errors(np.array([client]), k) for xy, k in zip(both, numbers, strict=True))
        return np.asarray((new - old)[0] / self._period_s)

    def known_within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Clients whose reported positions lie within a radius of a position."""
        near = self._reported.within(position, radius_m + LARGEST_ERROR * self._error_m)
        gap = self.known(near) - position
        return near[gap[:, 0] ** 2 + gap[:, 1] ** 2 <= radius_m**2]

    def _look_up(self, t: float) -> Index:
        if self.trajectories.still:
            return self._true
        return Index(self.trajectories.positions(t), still=False)

    def _errors(self, clients: IntArray, report: int) -> FloatArray:
        if self._error_m == 0:
            return np.zeros((len(clients), 2))
        uniform = self._draw(clients, np.full(len(clients), report), 2)
        radius = self._error_m * np.sqrt(-2 * np.log1p(-uniform[:, 0]))
        angle = 2 * np.pi * uniform[:, 1]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


# Uniform numbers have 53 bits, so no error exceeds sqrt(2·53·ln 2) standard deviations.
LARGEST_ERROR = 8.58
