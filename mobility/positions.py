"""True positions of the clients, and the positions that the vehicle knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedmule.mobility.models.movement import BoolArray, Draw, FloatArray, IntArray, Stays
from fedmule.mobility.reporting import LARGEST_ERROR, Known, KnownMoving, KnownStill
from fedmule.mobility.schedule import Reporting, Schedule
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
    """True positions now, and those that the vehicle knows by the clients' reports.

    Times given to `advance` must not decrease. With `keep_two` the last report but one is kept, for `known_velocity`.
    """

    def __init__(self, trajectories: Trajectories, draw: Draw, reporting: Reporting, keep_two: bool = False) -> None:
        self.trajectories = trajectories
        self._schedule = Schedule(len(trajectories), reporting, draw)
        self._margin_m = LARGEST_ERROR * reporting.error_m
        self._true = Index(trajectories.positions(0.0), trajectories.still)
        self._known: Known
        if trajectories.still:
            self._known = KnownStill(trajectories, self._schedule)
        else:
            self._known = KnownMoving(trajectories, self._schedule, keep_two)

    def __len__(self) -> int:
        return len(self.trajectories)

    def advance(self, t: float) -> None:
        """Advance to time t, with the reports that have arrived by then."""
        self._known.advance(t)
        if not self.trajectories.still:
            self._true = Index(self.trajectories.positions(t), still=False)

    def after_visit(self, visit: int, t: float) -> bool:
        """Let the mobility model redraw all positions after a visit, reported at once; returns whether it did."""
        if not self.trajectories.after_visit(visit, t):
            return False
        self._true = Index(self.trajectories.positions(t), True)
        self._known.restart(t)
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
        """Reported positions [m,2] of some clients."""
        return self._known.positions(clients, self._true.xy[clients])

    def known_within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Clients whose reported positions lie within a radius of a position."""
        everyone = np.arange(len(self))
        near = self._true.within(position, radius_m + self._margin_m) if self.trajectories.still else everyone
        gap = self.known(near) - position
        return near[gap[:, 0] ** 2 + gap[:, 1] ** 2 <= radius_m**2]

    def known_velocity(self, client: int) -> FloatArray | None:
        """Velocity [2] of a client by its last two reports, m/s; None if there are not two by the schedule."""
        return self._known.velocity(client)

    def last_report_s(self, client: int) -> float:
        """When a client sent the last report that has arrived."""
        return self._known.sent_s(client)

    def next_report_s(self, client: int, now: float) -> float:
        """When the next report of a client arrives after `now`, the time of the last `advance`."""
        return self._schedule.next_arrival_s(client, self._known.number(client), now)

    def count_reports(self, t: float) -> tuple[int, int]:
        """Number of reports that clients have sent by time t, and how many of them are lost."""
        n = len(self)
        always = Stays(np.arange(n), np.zeros(n), np.full(n, np.inf))
        return self._schedule.count(self.trajectories.movement.stays() or always, t)

    # --- for the checkpoint --------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        """Objects that change as clients move, by name."""
        return {"movement": self.trajectories.movement, "trajectories": self.trajectories, "known": self._known}

    def restore(self, true: FloatArray) -> None:
        """Restore true positions [n,2], once the objects of `state` have been restored."""
        self.trajectories.forget_paths()
        self._true = Index(true, self.trajectories.still)

    def constants(self) -> list[object]:
        """Objects that a checkpoint does not copy."""
        movement = self.trajectories.movement
        return [self, self.trajectories, movement, self._schedule, *movement.constants()]
