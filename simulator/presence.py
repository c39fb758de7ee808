"""Which clients are there, and which of them are in an exchange."""

from __future__ import annotations

import numpy as np
import simpy
from numpy.typing import NDArray

from fedmule.simulator.world import World

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Presence:
    """Late clients join, some come and go, and a busy one exchanges with one vehicle only."""

    def __init__(self, world: World) -> None:
        self._graph = world.graph
        self._movement = world.positions.trajectories.movement
        self._everyone = world.graph.members  # whom the vehicles can reach, late clients included
        self.absent = world.late.copy()  # [n] who has not joined yet
        self.busy = np.zeros(len(self.absent), dtype=bool)  # [n]
        self._until_free: dict[int, simpy.Event] = {}  # of busy clients that another vehicle waits for
        self._graph.admit(self._everyone & ~self.absent)

    def join(self) -> IntArray:
        """Let the late clients join; returns them."""
        late = np.flatnonzero(self.absent)
        self.absent[:] = False
        self._graph.admit(self._everyone)
        return late

    def update(self, now: float) -> None:
        """Note who is there now."""
        if self._movement.there(now) is not None:
            self._graph.admit(self._everyone & self.present(now))

    def present(self, now: float) -> BoolArray:
        """Which clients [n] are there now."""
        there = self._movement.there(now)
        return ~self.absent if there is None else ~self.absent & there

    def can_begin(self, client: int, now: float) -> bool:
        """Whether an exchange with a client can begin now."""
        return not self.busy[client] and bool(self.present(now)[client])

    def free_again(self, client: int, env: simpy.Environment) -> simpy.Event:
        """Return the event at which a busy client is free again."""
        return self._until_free.setdefault(client, env.event())

    def release(self, clients: IntArray) -> set[int]:
        """End these clients' exchange: other vehicles may serve them; returns them."""
        self.busy[clients] = False
        freed = set(clients.tolist())
        for client in self._until_free.keys() & freed:
            self._until_free.pop(client).succeed()
        return freed
