"""Who hears a vehicle where it is or drives: its links to the clients of a world."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.trajectory import Trajectories, Way, first_within, position_at
from fedmule.radio.link import Radio, Stretch, link_between, link_over_time, linked, start_of_link
from fedmule.radio.obstruction import Obstruction

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Hearing:
    """The radio of a world, what weakens its links, and its clients as they move."""

    radio: Radio
    obstruction: Obstruction
    trajectories: Trajectories
    extra_loss_db: FloatArray  # [n] of each client's links, where its radio is weaker

    @property
    def farthest_m(self) -> float:
        """Distance beyond which nobody hears anybody."""
        return self.radio.farthest_m * (1 + 1e-9)

    def heard(self, here: FloatArray, clients: IntArray, there: FloatArray) -> BoolArray:
        """Whether each of these clients [m] at positions [m,2] hears a vehicle at `here` ([2] or [m,2])."""
        return linked(self.radio, self.obstruction, here, there, self.extra_loss_db[clients])

    def link(self, way: Way, client: int, start_s: float) -> Iterator[Stretch]:
        """The link of a vehicle on its way to a client from `start_s` on, as an endless series of stretches."""
        loss_db = float(self.extra_loss_db[client])
        return link_over_time(self.radio, self.obstruction, self.trajectories, way, client, start_s, loss_db)

    def expected_link(self, way: Way, client: int, there: FloatArray, start_s: float) -> Iterator[Stretch]:
        """The same if the client were to stay where it is."""
        loss_db = float(self.extra_loss_db[client])
        return link_between(self.radio, self.obstruction, way, Way.standing(there, start_s), start_s, loss_db)

    def delay_s(self, way: Way, client: int, t: float) -> float:
        """Seconds from sending a byte at time t, between a vehicle on its way and a client, until it is usable."""
        there = position_at(*self.trajectories.path(client, t), np.array([t]))
        return float(self.radio.delay_s(np.hypot(*(there - way.at(t)).T))[0])

    def first_heard(
        self, way: Way, client: int, start_s: float, end_s: float, after_break: bool = False
    ) -> float | None:
        """First time in [start_s, end_s] at which a vehicle on its way and a client hear each other; None if never.

        `after_break`: the link they have at the start does not count, only one that comes after it has broken.
        """
        path = self.trajectories.path(client, end_s)
        t = first_within(way.times, way.positions, *path, self.farthest_m, start_s, end_s)
        if t is None:
            return None
        return start_of_link(self.link(way, client, t), t, start_s, end_s, after_break)
