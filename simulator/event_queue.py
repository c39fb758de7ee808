"""SimPy's environment, which can also say when events are due, and be created again at a later time."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappush

import simpy
from simpy.events import NORMAL


class Environment(simpy.Environment):
    """SimPy's environment with events at exact times, and a function that is called after every event."""

    def __init__(self, start_s: float = 0) -> None:
        super().__init__(start_s)
        self.after_event: Callable[[], None] | None = None

    def step(self) -> None:
        """Process the next event."""
        super().step()
        if self.after_event is not None:
            self.after_event()

    def timeout_at(self, at_s: float) -> simpy.Event:
        """Return an event that occurs at exactly this time: now plus a delay may differ from it by rounding."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        heappush(self._queue, (at_s, NORMAL, next(self._eid), event))
        return event

    def due(self, event: simpy.Event | None) -> tuple[float | None, float]:
        """Return when a scheduled event occurs, and its number: of those that occur at once the lowest is first.

        None and infinity if it is not scheduled.
        """
        found = ((at_s, float(number)) for at_s, _, number, other in self._queue if other is event)
        return next(found, (None, math.inf))
