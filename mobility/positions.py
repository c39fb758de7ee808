"""True positions of the clients, and the positions that the vehicle knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedmule.mobility.models.movement import BoolArray, Draw, FloatArray, IntArray, Stays, speed_limit_mps
from fedmule.mobility.reporting import LARGEST_ERROR, Known, KnownMoving, KnownStill
from fedmule.mobility.schedule import Reporting, Schedule
from fedmule.mobility.trajectory import Trajectories, Way
from fedmule.mobility.whereabouts import Whereabouts

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

    Where the speed of clients is limited and their movement is not recorded, the walk of a client is planned, and its
    reports are received, only when it may be near a place that is asked for, or is asked for itself.
    """

    def __init__(self, trajectories: Trajectories, draw: Draw, reporting: Reporting, keep_two: bool = False) -> None:
        self.trajectories = trajectories
        self._schedule = Schedule(len(trajectories), reporting, draw)
        self._margin_m = LARGEST_ERROR * reporting.error_m
        self._true = Index(trajectories.positions(0.0), trajectories.still)
        self._now = 0.0
        self._whereabouts: Whereabouts | None = None  # None: everybody is followed
        top_speed_mps = speed_limit_mps(trajectories.movement)
        if not trajectories.still and trajectories.movement.stays() is None and np.isfinite(top_speed_mps):
            self._whereabouts = Whereabouts(self._true.xy, top_speed_mps, self._margin_m)
        self._known: Known
        if trajectories.still:
            self._known = KnownStill(trajectories, self._schedule)
        else:
            self._known = KnownMoving(trajectories, self._schedule, keep_two)

    def __len__(self) -> int:
        return len(self.trajectories)

    def advance(self, t: float) -> None:
        """Advance to time t, with the reports that have arrived by then."""
        self._now = t
        if self.trajectories.recorded:
            self._whereabouts = None
        if self._whereabouts is None:
            self._known.advance(t)
            if not self.trajectories.still:
                self._true = Index(self.trajectories.positions(t), still=False)

    def _follow(self, clients: IntArray) -> None:
        """Bring these clients, and what is known of them, to the present, unless everybody is."""
        if (whereabouts := self._whereabouts) is None:
            return
        late = np.unique(clients[whereabouts.seen_s[clients] < self._now])
        if late.size:
            self._known.advance(self._now, late)
            self._true.xy[late] = xy = self.trajectories.positions_at(late, np.full(len(late), self._now))
            whereabouts.see(late, xy, self._now, self._known.all_sent_s(late))

    def _near(self, position: FloatArray, radius_m: float, t: float) -> IntArray | None:
        """Clients that may be within a radius of a position by time t, brought to the present; None if that are all."""
        if self._whereabouts is None:
            return None
        self._follow(self._whereabouts.near(position, radius_m, t))
        return self._whereabouts.near(position, radius_m, t)

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
        self._follow(clients)
        return self._true.xy[clients]

    def within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Clients whose true positions lie within a radius of a position."""
        near = self._near(position, radius_m, self._now)
        return (
            self._true.within(position, radius_m)
            if near is None
            else _close(near, self._true.xy[near], position, radius_m)
        )

    def passed(self, way: Way, start: float, end: float, radius_m: float) -> IntArray:
        """Clients that come within a radius of a vehicle on its way between two times, ascending; perhaps a few more.

        `start` must not be before the time of the last `advance`.
        """
        piece = way.between(start, end).positions
        low, high = piece.min(axis=0), piece.max(axis=0)
        if self.trajectories.still:
            middle = (low + high) / 2
            return self._true.within(middle, float(np.hypot(*(high - middle))) + radius_m)
        middle = (low + high) / 2
        near = self._near(middle, float(np.hypot(*(high - middle))) + radius_m, end)
        near = np.arange(len(self)) if near is None else near
        lows, highs = self.trajectories.boxes(end, near)
        return np.asarray(near[((lows <= high + radius_m) & (highs >= low - radius_m)).all(axis=1)])

    def known(self, clients: IntArray) -> FloatArray:
        """Reported positions [m,2] of some clients."""
        self._follow(clients)
        return self._known.positions(clients, self._true.xy[clients])

    def known_within(self, position: FloatArray, radius_m: float) -> IntArray:
        """Clients whose reported positions lie within a radius of a position."""
        if self.trajectories.still:
            near = self._true.within(position, radius_m + self._margin_m)
        elif (may_be := self._near(position, radius_m, self._now)) is not None:
            near = may_be
        else:
            near = np.arange(len(self))
        return _close(near, self.known(near), position, radius_m)

    def known_velocity(self, client: int) -> FloatArray | None:
        """Velocity [2] of a client by its last two reports, m/s; None if there are not two by the schedule."""
        self._follow(np.array([client]))
        return self._known.velocity(client)

    def last_report_s(self, client: int) -> float:
        """When a client sent the last report that has arrived."""
        self._follow(np.array([client]))
        return self._known.sent_s(client)

    def next_report_s(self, client: int, now: float) -> float:
        """When the next report of a client arrives after `now`, the time of the last `advance`."""
        self._follow(np.array([client]))
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
        self._now = self._known.now_s
        if self._whereabouts is not None:
            everyone = np.arange(len(self))
            self._whereabouts.see(everyone, true, self._now, self._known.all_sent_s(everyone))

    def constants(self) -> list[object]:
        """Objects that a checkpoint does not copy."""
        movement = self.trajectories.movement
        return [self, self.trajectories, movement, self._schedule, *movement.constants()]


def _close(clients: IntArray, xy: FloatArray, position: FloatArray, radius_m: float) -> IntArray:
    """Those of these clients [m], at positions [m,2], that are within a radius of a position."""
    gap = xy - position
    return clients[gap[:, 0] ** 2 + gap[:, 1] ** 2 <= radius_m**2]
