"""Who hears a vehicle, and when: the clients of a world, and other vehicles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.positions import Positions
from fedmule.mobility.trajectory import Way, position_at
from fedmule.radio.graph import ContactGraph
from fedmule.radio.hearing import Hearing
from fedmule.radio.link import Stretch, first_linked, link_between

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Traveller(Protocol):
    """A vehicle: its number, and the way that it drives at present."""

    number: int
    way: Way


class Encounters(Protocol):
    """Contacts of the vehicles of a world, whatever decides them: positions, or a list."""

    def around(self, vehicle: Traveller, now: float) -> IntArray:
        """Clients that hear a vehicle now, ascending; clients must have been advanced to this time."""
        ...

    def hears(self, vehicle: Traveller, clients: IntArray, now: float) -> BoolArray:
        """Whether each of these clients [m] hears a vehicle now, wherever the others are."""
        ...

    def near(self, client: int, now: float) -> IntArray:
        """Clients in range of a client now as far as that is known, ascending."""
        ...

    def passed(self, vehicle: Traveller, start_s: float, end_s: float) -> IntArray:
        """Clients that may hear a vehicle between two times, ascending; perhaps a few more."""
        ...

    def first_heard(
        self, vehicle: Traveller, client: int, start_s: float, end_s: float, after_break: bool = False
    ) -> float | None:
        """First time in [start_s, end_s] at which a vehicle and a client hear each other; None if never.

        `after_break`: the link they have at the start does not count, only one that comes after it has broken.
        """
        ...

    def link(self, vehicle: Traveller, client: int, start_s: float) -> Iterator[Stretch]:
        """The link of a vehicle to a client from `start_s` on, as an endless series of stretches."""
        ...

    def delay_s(self, vehicle: Traveller, client: int, t: float) -> float:
        """Seconds from sending a byte at time t, between a vehicle and a client, until it is usable."""
        ...

    def first_meeting(self, a: Traveller, b: Traveller, start_s: float, end_s: float) -> float | None:
        """First time in [start_s, end_s] at which two vehicles hear each other; None if never."""
        ...

    def meeting_link(self, a: Traveller, b: Traveller, start_s: float) -> Iterator[Stretch]:
        """The link between two vehicles from `start_s` on, as an endless series of stretches."""
        ...

    def meeting_delay_s(self, a: Traveller, b: Traveller, t: float) -> float:
        """Seconds from sending a byte at time t, between two vehicles, until it is usable."""
        ...


@dataclass(frozen=True)
class ByPosition:
    """Contacts decided by where everybody is: links of the radio over the terrain."""

    hearing: Hearing
    positions: Positions
    graph: ContactGraph

    def around(self, vehicle: Traveller, now: float) -> IntArray:
        """Clients that hear a vehicle where it is."""
        here = vehicle.way.at(now)
        near = self.positions.within(here, self.hearing.farthest_m)
        return np.asarray(near[self.hearing.heard(here, near, self.positions.true(near))])

    def hears(self, vehicle: Traveller, clients: IntArray, now: float) -> BoolArray:
        """Whether there is a link between the positions of both."""
        paths = [self.positions.trajectories.path(client, now) for client in clients.tolist()]
        there = np.concatenate([np.empty((0, 2)), *(position_at(*path, np.array([now])) for path in paths)])
        return self.hearing.heard(vehicle.way.at(now), clients, there)

    def near(self, client: int, now: float) -> IntArray:
        """Neighbours of a client in the contact graph."""
        return self.graph.neighbours(client)

    def passed(self, vehicle: Traveller, start_s: float, end_s: float) -> IntArray:
        """Clients that come within range of a vehicle on its way."""
        return self.positions.passed(vehicle.way, start_s, end_s, self.hearing.farthest_m)

    def first_heard(
        self, vehicle: Traveller, client: int, start_s: float, end_s: float, after_break: bool = False
    ) -> float | None:
        """First time at which there is a link, from the roots of quadratics."""
        return self.hearing.first_heard(vehicle.way, client, start_s, end_s, after_break)

    def link(self, vehicle: Traveller, client: int, start_s: float) -> Iterator[Stretch]:
        """The link over the way of the vehicle and that of the client."""
        return self.hearing.link(vehicle.way, client, start_s)

    def delay_s(self, vehicle: Traveller, client: int, t: float) -> float:
        """Delay over the distance at that time."""
        return self.hearing.delay_s(vehicle.way, client, t)

    def first_meeting(self, a: Traveller, b: Traveller, start_s: float, end_s: float) -> float | None:
        """First time at which there is a link between two vehicles on their ways."""
        return first_linked(self.hearing.radio, self.hearing.obstruction, a.way, b.way, start_s, end_s)

    def meeting_link(self, a: Traveller, b: Traveller, start_s: float) -> Iterator[Stretch]:
        """The link between two vehicles on their ways."""
        return link_between(self.hearing.radio, self.hearing.obstruction, a.way, b.way, start_s)

    def meeting_delay_s(self, a: Traveller, b: Traveller, t: float) -> float:
        """Delay over the distance at that time."""
        gap = a.way.at(t) - b.way.at(t)
        return float(self.hearing.radio.delay_s(np.array([np.hypot(*gap)]))[0])
