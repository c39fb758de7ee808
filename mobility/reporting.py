"""Positions of the clients as the vehicle knows them: by the reports that have arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedmule.mobility.models.movement import BoolArray, FloatArray, IntArray, somewhere
from fedmule.mobility.schedule import Schedule
from fedmule.mobility.trajectory import Trajectories

# Uniform numbers have 53 bits, so no error exceeds sqrt(2·53·ln 2) standard deviations.
LARGEST_ERROR = 8.58
ROUNDING_S = 1e-6


class Known(Protocol):
    """What the vehicle knows at the time of the last `advance`, which must not go back."""

    def advance(self, t: float, clients: IntArray | None = None) -> None:
        """Receive the reports of these clients, by default all, that have arrived by time t."""
        ...

    def restart(self, t: float) -> None:
        """Forget all reports: positions have been redrawn, and are known at once."""
        ...

    def positions(self, clients: IntArray, true: FloatArray) -> FloatArray:
        """Reported positions [m,2] of some clients, whose true ones [m,2] stand in where there is no report yet."""
        ...

    def velocity(self, client: int) -> FloatArray | None:
        """Velocity [2] of a client by its last two reports, m/s; None if there are not two by the schedule."""
        ...

    def number(self, client: int) -> int:
        """Number of the last report received from a client."""
        ...

    def sent_s(self, client: int) -> float:
        """When a client sent the last report received from it."""
        ...

    @property
    def now_s(self) -> float:
        """The time of the last `advance`."""
        ...

    def all_sent_s(self, clients: IntArray) -> FloatArray:
        """When each of these clients [m] sent the last report received from it."""
        ...


class KnownStill:
    """Reports of clients that stand still: only their errors change, so they are computed when they are asked for."""

    def __init__(self, trajectories: Trajectories, schedule: Schedule) -> None:
        self._trajectories = trajectories
        self._schedule = schedule
        self._t = 0.0
        self._number = np.zeros(len(trajectories), dtype=np.int64)  # of the last report, as far as is known
        self._first = self._number.copy()  # since positions were redrawn

    def advance(self, t: float, clients: IntArray | None = None) -> None:
        """Receive the reports that have arrived by time t."""
        self._t = t

    def restart(self, t: float) -> None:
        """Forget all reports: positions have been redrawn, and are known at once."""
        self._first = self._newest(np.arange(len(self._trajectories)))

    def positions(self, clients: IntArray, true: FloatArray) -> FloatArray:
        """Reported positions [m,2] of some clients."""
        return true + self._schedule.errors(clients, self._newest(clients))

    def velocity(self, client: int) -> FloatArray | None:
        """Velocity [2] of a client by its last two reports: that of their errors."""
        who, last = np.array([client]), self._newest(np.array([client]))
        first = self._first[who]
        if last[0] == first[0]:
            return None
        before, step = last.copy(), 0
        while step == 0 or (before[0] > first[0] and self._missing(who, before)):
            before, step = before - 1, step + 1
        seconds = step * self._schedule.period_s
        if before[0] == 0 and abs(seconds - self.sent_s(client)) > ROUNDING_S:
            return None  # report 0 was out of schedule
        change = self._schedule.errors(who, last) - self._schedule.errors(who, before)
        return np.asarray(change[0] / seconds)

    def number(self, client: int) -> int:
        """Number of the last report received from a client."""
        return int(self._newest(np.array([client]))[0])

    def sent_s(self, client: int) -> float:
        """When a client sent the last report received from it."""
        return float(self.all_sent_s(np.array([client]))[0])

    @property
    def now_s(self) -> float:
        """The time of the last `advance`."""
        return self._t

    def all_sent_s(self, clients: IntArray) -> FloatArray:
        """When each of these clients [m] sent the last report received from it."""
        return self._schedule.sent_s(clients, self._newest(clients))

    def _newest(self, clients: IntArray) -> IntArray:
        self._number[clients] = self._schedule.newest_received(clients, self._t, self._number[clients])
        return self._number[clients]

    def _missing(self, who: IntArray, number: IntArray) -> bool:
        arrive_s, lost = self._schedule.fates(who, number)
        return bool(lost[0] or arrive_s[0] > self._t)


@dataclass
class Reports:
    """Reports of several clients."""

    client: IntArray  # [m]
    number: IntArray  # [m]
    sent_s: FloatArray  # [m]
    arrive_s: FloatArray  # [m]
    xy: FloatArray  # [m,2] as reported, with its error

    def pick(self, rows: IntArray | BoolArray) -> Reports:
        """Some of them."""
        return Reports(self.client[rows], self.number[rows], self.sent_s[rows], self.arrive_s[rows], self.xy[rows])

    def put(self, others: Reports) -> None:
        """Replace those of the clients, of which this is a table, by others."""
        rows = others.client
        self.number[rows], self.sent_s[rows] = others.number, others.sent_s
        self.arrive_s[rows], self.xy[rows] = others.arrive_s, others.xy

    @staticmethod
    def join(parts: list[Reports]) -> Reports:
        """Concatenate reports."""
        fields = zip(*((p.client, p.number, p.sent_s, p.arrive_s, p.xy) for p in parts), strict=True)
        return Reports(*(np.concatenate(field) for field in fields))


class KnownMoving:
    """Reports of clients that move: each tells where its client was when it was sent.

    A position is looked up only if its report is the last one received by now, or still on its way.
    """

    def __init__(self, trajectories: Trajectories, schedule: Schedule, keep_two: bool) -> None:
        n = len(trajectories)
        self._trajectories = trajectories
        self._schedule = schedule
        self._wanted = 2 if keep_two else 1  # reports of each client that matter
        self._t = 0.0
        self._due_s = 0.0  # nothing is sent, arrives or comes before
        everyone, zero = np.arange(n), np.zeros(n, dtype=np.int64)
        self._sent = zero.copy()  # number of the last report sent
        start = trajectories.positions(0.0)
        self._heard = somewhere(start)  # [n] whether any report of the client has been received
        known = start + schedule.errors(everyone, zero)
        self._last = Reports(everyone, zero.copy(), np.zeros(n), np.zeros(n), known)
        never = np.full(n, -np.inf)
        self._before = Reports(everyone, zero - 1, never, never.copy(), known.copy())
        self._on_the_way = self._last.pick(np.empty(0, dtype=np.int64))
        stays = trajectories.movement.stays()
        order = np.argsort(stays.comes_s, kind="stable") if stays else np.empty(0, dtype=np.int64)
        self._comer = stays.client[order] if stays else order  # clients in the order in which they come
        self._comes_s = stays.comes_s[order] if stays else np.empty(0)

    def advance(self, t: float, clients: IntArray | None = None) -> None:
        """Receive the reports of these clients, by default all, that have arrived by time t.

        Of clients that are advanced one by one, none may come and go.
        """
        if clients is None:
            if t < self._due_s:
                self._t = t
                return
            self._greet(t)
        new = self._look_up(t, self._last.client if clients is None else clients)
        if new or self._on_the_way.client.size:
            reports = Reports.join([self._on_the_way, *new])
            here = reports.arrive_s <= t
            self._on_the_way = reports.pick(~here)
            self._receive(reports.pick(here))
        self._t = t
        if clients is None:
            coming = np.searchsorted(self._comes_s, t, side="right")
            due_s = [self._schedule.next_sent_s(self._sent).min(initial=np.inf), *self._comes_s[coming : coming + 1]]
            self._due_s = min(*due_s, self._on_the_way.arrive_s.min(initial=np.inf))

    def restart(self, t: float) -> None:
        """Positions are redrawn only where clients stand still."""
        raise NotImplementedError

    def positions(self, clients: IntArray, true: FloatArray) -> FloatArray:
        """Reported positions [m,2] of some clients; the true ones of those that have not reported yet."""
        known, heard = self._last.xy[clients], self._heard[clients]
        return known if heard.all() else np.where(heard[:, None], known, true)

    def velocity(self, client: int) -> FloatArray | None:
        """Velocity [2] of a client by its last two reports, m/s; None if there are not two by the schedule."""
        last, before = self._last, self._before
        if not self._heard[client] or before.number[client] < 0:
            return None
        seconds = float(last.number[client] - before.number[client]) * self._schedule.period_s
        if abs(seconds - (last.sent_s[client] - before.sent_s[client])) > ROUNDING_S:
            return None  # the one before was out of schedule: when the client appeared
        return np.asarray((last.xy[client] - before.xy[client]) / seconds)

    def number(self, client: int) -> int:
        """Number of the last report received from a client."""
        return int(self._last.number[client])

    def sent_s(self, client: int) -> float:
        """When a client sent the last report received from it."""
        return float(self._last.sent_s[client])

    @property
    def now_s(self) -> float:
        """The time of the last `advance`."""
        return self._t

    def all_sent_s(self, clients: IntArray) -> FloatArray:
        """When each of these clients [m] sent the last report received from it."""
        return self._last.sent_s[clients]

    def _greet(self, t: float) -> None:
        """Receive the reports of clients that have come since: at once, from where they came."""
        begin, end = np.searchsorted(self._comes_s, [self._t, t], side="right").tolist()
        if begin == end:
            return
        come = slice(begin, end)
        latest = dict(zip(self._comer[come].tolist(), self._comes_s[come].tolist(), strict=True))
        client, comes_s = np.array(list(latest)), np.array(list(latest.values()))
        # A client jumps to where it comes, so it is there just after that moment.
        xy = self._trajectories.positions_at(client, np.nextafter(comes_s, np.inf))
        number = self._schedule.newest_sent(client, comes_s)
        self._sent[client], self._heard[client] = number, True
        self._last.put(Reports(client, number, comes_s, comes_s, xy + self._schedule.errors(client, number)))
        self._before.number[client] = -1
        self._on_the_way = self._on_the_way.pick(~np.isin(self._on_the_way.client, client))

    def _look_up(self, t: float, clients: IntArray) -> list[Reports]:
        """The reports of clients sent since the last time that matter from now on, those of each client in order."""
        sent = self._schedule.newest_sent(clients, t)
        late = sent > self._sent[clients]
        who, number, received = clients[late], sent[late], np.zeros(int(late.sum()), dtype=np.int64)
        rounds = []
        while who.size:  # from the newest report of each client backwards
            arrive_s, lost = self._schedule.fates(who, number)
            rounds.append((who[~lost], number[~lost], arrive_s[~lost]))
            received += ~lost & (arrive_s <= t)
            more = (received < self._wanted) & (number - 1 > self._sent[who])
            who, number, received = who[more], number[more] - 1, received[more]
        self._sent[clients] = sent
        return [self._reports(*each) for each in reversed(rounds) if each[0].size]

    def _reports(self, client: IntArray, number: IntArray, arrive_s: FloatArray) -> Reports:
        """What clients report; those that are away report nothing."""
        sent_s = self._schedule.sent_s(client, number)
        xy = self._trajectories.positions_at(client, sent_s)
        reports = Reports(client, number, sent_s, arrive_s, xy + self._schedule.errors(client, number))
        present = somewhere(xy)
        return reports if present.all() else reports.pick(present)

    def _receive(self, reports: Reports) -> None:
        """Keep the newest reports of each client; one that was overtaken on its way is old news."""
        reports = reports.pick(np.argsort(reports.number, kind="stable"))
        while reports.client.size:
            _, first = np.unique(reports.client, return_index=True)  # one report of each client at a time
            some = reports.pick(first)
            newer = some.number > self._last.number[some.client]
            self._before.put(self._last.pick(some.client[newer]))
            self._last.put(some.pick(newer))
            self._heard[some.client[newer]] = True
            overtaken = some.pick(~newer)
            self._before.put(overtaken.pick(overtaken.number > self._before.number[overtaken.client]))
            reports = reports.pick(np.delete(np.arange(len(reports.client)), first))
