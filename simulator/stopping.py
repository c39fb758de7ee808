"""When a run is over: its limits, and the events after which it cannot continue."""

from __future__ import annotations

from fedmule.simulator.runs.columns import StopReason
from fedmule.simulator.scenario import Stop


class Stopping:
    """How much of a run's budget is used up, and why the run stopped."""

    def __init__(self, limits: Stop, clients: int) -> None:
        self.limits = limits
        self.stopped_by: StopReason | None = None
        self._patience = 20 + 2 * clients  # contacts without a byte, or clients not reached, that are too many in a row
        self._visits = 0
        self._bytes = 0  # uncharged ones too, so that training alone ends when its reference does
        self._silent_contacts = 0  # since the last byte was on the air
        self._not_reached = 0  # clients, since the last contact
        self.diverged = False

    def contact(self, sent_bytes: int, in_passing: bool) -> None:
        """Count a visit, or a contact in passing, and what was sent in it."""
        self._visits += not in_passing
        self._bytes += sent_bytes
        self._silent_contacts = 0 if sent_bytes else self._silent_contacts + 1
        self._not_reached = 0

    def meeting(self, sent_bytes: int) -> None:
        """Count what two vehicles sent each other."""
        self._bytes += sent_bytes

    def not_reached(self) -> None:
        """Count a client that a vehicle gave up."""
        self._not_reached += 1

    def progress(self, now: float) -> float:
        """The share of the run's budget that is used up, by whichever limit is nearest."""
        limits = self.limits
        used = [(self._visits, limits.visits), (now, limits.sim_time_s), (self._bytes, limits.total_bytes)]
        return min(1.0, max((spent / limit for spent, limit in used if limit is not None), default=0.0))

    def over(self, now: float, accuracy: float) -> bool:
        """Whether the run is over; notes why."""
        if self.stopped_by is None:
            self.stopped_by = self._reason(now, accuracy)
        return self.stopped_by is not None

    def interrupt(self) -> None:
        """End the run after the present visit."""
        self.stopped_by = self.stopped_by or "interrupted"

    def nobody_comes(self) -> None:
        """End the run: no client is there, and none will ever come."""
        self.stopped_by = "nobody_reached"

    def resume(self) -> None:
        """Continue after an interruption."""
        self.stopped_by = None

    def _reason(self, now: float, accuracy: float) -> StopReason | None:
        limits = self.limits
        if limits.visits is not None and self._visits >= limits.visits:
            return "visits"
        if limits.sim_time_s is not None and now >= limits.sim_time_s:
            return "sim_time_s"
        if limits.total_bytes is not None and self._bytes >= limits.total_bytes:
            return "total_bytes"
        if limits.total_bytes is not None and self._silent_contacts > self._patience:
            return "nothing_sent"
        if limits.accuracy is not None and accuracy >= limits.accuracy:
            return "accuracy"
        if self.diverged:
            return "diverged"
        return "nobody_reached" if self._not_reached > self._patience else None
