"""Contacts as a list has them: who hears whom is given, and all links are of one distance."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.contact_lists import ContactList
from fedmule.radio.encounters import Traveller
from fedmule.radio.link import HAIR_S, Radio, Stretch, rates_bps

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Intervals:
    """When two are in contact, in order of time; intervals last longer than HAIR_S and neither overlap nor adjoin."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def first(self, start_s: float, end_s: float, after_break: bool = False) -> float | None:
        """First time in [start_s, end_s] in an interval; `after_break`: not in the one at the start."""
        k = bisect_right(self.ends, start_s)
        if k < len(self.ends) and self.starts[k] <= start_s:
            if not after_break:
                return start_s
            k += 1
        if k == len(self.ends):
            return None
        # A little inside, as with positions: rounding of the clock must not put it before the contact.
        t = self.starts[k] + HAIR_S
        return t if t <= end_s else None

    def stretches(self, start_s: float, rate_bps: float) -> Iterator[Stretch]:
        """A link that has this rate in the intervals, from `start_s` on."""
        t = start_s
        for k in range(bisect_right(self.ends, start_s), len(self.ends)):
            if self.starts[k] > t:
                yield Stretch(self.starts[k], 0.0)
            t = self.ends[k]
            yield Stretch(t, rate_bps)
        yield Stretch(np.inf, 0.0)


class ByList:
    """Contacts of vehicles and clients that are nodes of a contact list.

    `vehicles` and `clients` are their indices in the list; nodes that are neither do not take part. `extra_loss_db` [n]
    weakens the links of each client.
    """

    def __init__(
        self,
        contact_list: ContactList,
        vehicles: Sequence[int],
        clients: Sequence[int],
        radio: Radio,
        extra_loss_db: FloatArray,
    ) -> None:
        distance_m = np.array([contact_list.distance_m])
        self.rates_bps = rates_bps(radio, distance_m.repeat(len(clients)), extra_loss_db)  # [n] to each client
        self._meeting_rate_bps = float(rates_bps(radio, distance_m, np.zeros(1))[0])
        self._delay_s = float(radio.delay_s(distance_m)[0])
        who = np.full(len(contact_list.names), -1)  # clients are 0 … n − 1, vehicles follow
        who[list(clients)], who[list(vehicles)] = np.arange(len(clients)), len(clients) + np.arange(len(vehicles))
        contacts = contact_list.contacts
        pair = np.sort(np.stack([who[contacts.a], who[contacts.b]], axis=1), axis=1)
        kept = (pair[:, 0] >= 0) & (contacts.end_s - contacts.start_s > HAIR_S)  # a touch leaves no time to exchange
        self._n = len(clients)
        self._low, self._high = pair[kept].T
        self._start_s, self._end_s = contacts.start_s[kept], contacts.end_s[kept]
        order = np.flatnonzero(self._high >= self._n)  # contacts of vehicles; those of a pair are in order of time
        self._of_pair: dict[tuple[int, int], Intervals] = {}
        for k in order.tolist():
            met = self._of_pair.setdefault((int(self._low[k]), int(self._high[k])), Intervals())
            met.starts.append(float(self._start_s[k]))
            met.ends.append(float(self._end_s[k]))
        with_client = order[self._low[order] < self._n]
        self._with_clients = [with_client[self._high[with_client] == self._n + v] for v in range(len(vehicles))]

    def met(self, until_s: float) -> IntArray:
        """Clients that any vehicle meets before a time, ascending."""
        rows = np.concatenate([np.empty(0, dtype=np.int64), *self._with_clients])
        return np.unique(self._low[rows[self._start_s[rows] < until_s]])

    def around(self, vehicle: Traveller, now: float) -> IntArray:
        """Clients in contact with a vehicle."""
        rows = self._with_clients[vehicle.number]
        return np.unique(self._low[rows[(self._start_s[rows] <= now) & (now < self._end_s[rows])]])

    def hears(self, vehicle: Traveller, clients: IntArray, now: float) -> BoolArray:
        """Whether each of these clients [m] is in contact with a vehicle."""
        return np.isin(clients, self.around(vehicle, now))

    def near(self, client: int, now: float) -> IntArray:
        """Clients in contact with a client."""
        now_in_contact = (self._start_s <= now) & (now < self._end_s) & (self._high < self._n)
        ends = np.stack([self._low, self._high], axis=1)[now_in_contact]
        return np.setdiff1d(ends[(ends == client).any(axis=1)], [client])

    def passed(self, vehicle: Traveller, start_s: float, end_s: float) -> IntArray:
        """Clients in contact with a vehicle at some time between two times."""
        rows = self._with_clients[vehicle.number]
        return np.unique(self._low[rows[(self._start_s[rows] <= end_s) & (start_s < self._end_s[rows])]])

    def first_heard(
        self, vehicle: Traveller, client: int, start_s: float, end_s: float, after_break: bool = False
    ) -> float | None:
        """First time at which they are in contact."""
        return self._between(vehicle, client).first(start_s, end_s, after_break)

    def link(self, vehicle: Traveller, client: int, start_s: float) -> Iterator[Stretch]:
        """The link while they are in contact, at the rate of the client."""
        return self._between(vehicle, client).stretches(start_s, float(self.rates_bps[client]))

    def delay_s(self, vehicle: Traveller, client: int, t: float) -> float:
        """Delay over the distance of all contacts."""
        return self._delay_s

    def first_meeting(self, a: Traveller, b: Traveller, start_s: float, end_s: float) -> float | None:
        """First time at which two vehicles are in contact."""
        return self._meetings(a, b).first(start_s, end_s)

    def meeting_link(self, a: Traveller, b: Traveller, start_s: float) -> Iterator[Stretch]:
        """The link while two vehicles are in contact."""
        return self._meetings(a, b).stretches(start_s, self._meeting_rate_bps)

    def meeting_delay_s(self, a: Traveller, b: Traveller, t: float) -> float:
        """Delay over the distance of all contacts."""
        return self._delay_s

    def _between(self, vehicle: Traveller, client: int) -> Intervals:
        return self._of_pair.get((client, self._n + vehicle.number), Intervals())

    def _meetings(self, a: Traveller, b: Traveller) -> Intervals:
        low, high = sorted((self._n + a.number, self._n + b.number))
        return self._of_pair.get((low, high), Intervals())
