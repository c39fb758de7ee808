"""When clients report their positions by satellite, when the reports arrive, and which are lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmule.mobility.models.movement import BoolArray, Draw, FloatArray, IntArray, Stays

AT_ONCE = 1_000_000  # reports whose fates are counted at a time


@dataclass(frozen=True)
class Reporting:
    """How clients report their positions."""

    period_s: float
    error_m: float  # standard deviation of a reported position along each axis
    stagger: bool  # each client at moments of its own; False: all at once
    delay_s: tuple[float, float]  # shortest and longest time from a report to its arrival
    loss: float  # share of the reports that never arrive


class Schedule:
    """The reports of each client: number 0 at time 0, then 1, 2, … a period apart.

    The first of them follows within a period. Every figure is a function of (client, number) alone. Report 0 arrives at
    once and is never lost, so that the vehicle knows where everyone is when the run begins.
    """

    def __init__(self, clients: int, reporting: Reporting, draw: Draw) -> None:
        self.period_s = reporting.period_s
        self._reporting = reporting
        self._draw = draw
        everyone = np.arange(clients)
        # How much earlier than all at once each client reports, as a share of the period.
        self._lead = draw(everyone, np.zeros_like(everyone), 3)[:, 2] if reporting.stagger else np.zeros(clients)
        self.at_once = reporting.loss == 0 and reporting.delay_s == (0.0, 0.0)  # a report is known when it is sent

    def sent_s(self, client: IntArray, number: IntArray) -> FloatArray:
        """When these reports [m] are sent."""
        return np.maximum((number - self._lead[client]) * self.period_s, 0.0)

    def newest_sent(self, client: IntArray, t: FloatArray | float) -> IntArray:
        """Numbers [m] of the last reports that these clients have sent by a time, or each by its own [m]."""
        lead = self._lead[client]
        number = np.maximum(np.floor(t / self.period_s + lead), 0.0)
        number += (number + 1 - lead) * self.period_s <= t  # the division may round down, or up
        number -= (number > 0) & ((number - lead) * self.period_s > t)
        return number.astype(np.int64)

    def next_sent_s(self, number: IntArray) -> FloatArray:
        """When each client [n] sends the report after the one with this number [n]."""
        return np.asarray((number + 1 - self._lead) * self.period_s)

    def fates(self, client: IntArray, number: IntArray) -> tuple[FloatArray, BoolArray]:
        """When these reports [m] arrive, and which of them are lost."""
        sent_s, (shortest, longest) = self.sent_s(client, number), self._reporting.delay_s
        if self.at_once:
            return sent_s, np.zeros(len(client), dtype=bool)
        uniform, later = self._draw(client, number, 4), number > 0
        delay_s = shortest + (longest - shortest) * uniform[:, 2]
        return sent_s + np.where(later, delay_s, 0.0), later & (uniform[:, 3] < self._reporting.loss)

    def errors(self, client: IntArray, number: IntArray) -> FloatArray:
        """Errors [m,2] of the positions in these reports: Gaussian along each axis."""
        if self._reporting.error_m == 0:
            return np.zeros((len(client), 2))
        uniform = self._draw(client, number, 2)
        radius = self._reporting.error_m * np.sqrt(-2 * np.log1p(-uniform[:, 0]))
        angle = 2 * np.pi * uniform[:, 1]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

    def newest_received(self, client: IntArray, t: float, above: IntArray) -> IntArray:
        """Numbers [m] of the last reports that have arrived by time t; `above` [m] where no later one has."""
        number = np.maximum(self.newest_sent(client, t), above)
        open_ = np.flatnonzero(number > above)
        while open_.size and not self.at_once:
            arrive_s, lost = self.fates(client[open_], number[open_])
            open_ = open_[lost | (arrive_s > t)]
            number[open_] -= 1
            open_ = open_[number[open_] > above[open_]]
        return number

    def next_arrival_s(self, client: int, number: int, now: float) -> float:
        """When the next report of a client arrives that is newer than this one; after `now`."""
        first, soonest, step = number + 1, np.inf, 1 if self.at_once else 8
        while True:
            numbers = np.arange(first, first + step)
            who = np.full(step, client)
            arrive_s, lost = self.fates(who, numbers)
            soonest = min(soonest, float(arrive_s[~lost & (arrive_s > now)].min(initial=np.inf)))
            first, step = first + step, min(2 * step, 4096)
            earliest = self.sent_s(np.array([client]), np.array([first]))[0] + self._reporting.delay_s[0]
            if soonest <= earliest:  # no later report can overtake it
                return soonest

    def count(self, stays: Stays, t: float) -> tuple[int, int]:
        """Count the reports sent by time t, and those of them that are lost.

        A client reports when it appears, and then by its schedule while it stays.
        """
        begun = stays.comes_s <= t
        client, goes_s = stays.client[begun], stays.goes_s[begun]
        first = self.newest_sent(client, stays.comes_s[begun])
        last = self.newest_sent(client, np.minimum(goes_s, t))
        last = np.maximum(last - (self.sent_s(client, last) >= goes_s), first)  # it has left at that moment
        sent = int((last - first).sum())
        lost = 0
        if self._reporting.loss > 0:
            ends = np.cumsum(last - first, dtype=np.int64)
            for begin in range(0, sent, AT_ONCE):
                nth = np.arange(begin, min(begin + AT_ONCE, sent))
                stay = np.searchsorted(ends, nth, side="right")
                lost += int(self.fates(client[stay], last[stay] - (ends[stay] - 1 - nth))[1].sum())
        return len(client) + sent, lost
