"""What the event loop asks of learning, with a journal of it: by the journal a run can be led back to where it was."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Contact, Exchange, Update
from fedmule.simulator.build import Learner

IntArray = NDArray[np.int64]


class Lessons:
    """Passes on to the algorithm what happens in the world.

    While it rehearses it takes from the journal what exchanges weigh, which is all the world asks to know, and nobody
    learns anything.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._rehearsal: Iterator[Exchange] | None = None
        self.journal = Journal()

    @property
    def rehearses(self) -> bool:
        return self._rehearsal is not None

    def rehearse(self, journal: Journal) -> None:
        """From now on nobody learns, until `go_on`."""
        self._rehearsal, self.journal = iter(journal), journal

    def go_on(self) -> None:
        self._rehearsal = None

    def weigh(self, clients: IntArray, progress: float) -> Exchange:
        """What an exchange with these clients weighs."""
        if self._rehearsal is not None:
            return next(self._rehearsal)
        return self.journal.add(self._learner.algorithm.exchange(clients, progress))

    def weigh_meeting(self, a: int, b: int, progress: float) -> Exchange:
        """What an exchange between two vehicles weighs."""
        if self._rehearsal is not None:
            return next(self._rehearsal)
        return self.journal.add(self._learner.carried.meeting(a, b, progress))

    def update(self, vehicle: int, contact: Contact) -> Update | None:
        """Update with exactly the delivered clients; None if there are none."""
        if self.rehearses or not len(contact.clients):
            return None
        return self._learner.carried.update(vehicle, contact)

    def meet(self, a: int, b: int) -> None:
        """Two vehicles have exchanged what they carry."""
        if not self.rehearses:
            self._learner.carried.meet(a, b)

    def introduce(self, client: int, near: IntArray) -> None:
        """A client joins late, near these others."""
        if not self.rehearses:
            self._learner.algorithm.introduce(client, near)


class Journal:
    """What every exchange of a run weighed, in order. Most are alike, so each kind is kept once."""

    def __init__(self) -> None:
        self._kinds: list[Exchange] = []
        self._known: dict[Any, int] = {}
        self._order = array("q")

    def add(self, exchange: Exchange) -> Exchange:
        parts = (exchange.bytes_down, exchange.bytes_up, exchange.flops)
        key = (*(part.tobytes() for part in parts), exchange.broadcast, exchange.charged)
        if key not in self._known:
            self._known[key] = len(self._kinds)
            self._kinds.append(exchange)
        self._order.append(self._known[key])
        return exchange

    def __iter__(self) -> Iterator[Exchange]:
        return (self._kinds[kind] for kind in tuple(self._order))

    def arrays(self) -> SimpleNamespace:
        """All of it as arrays."""
        joined = {name: [getattr(kind, name) for kind in self._kinds] for name in ("bytes_down", "bytes_up", "flops")}
        return SimpleNamespace(
            order=np.array(self._order, dtype=np.int64),
            clients=np.array([len(kind.flops) for kind in self._kinds], dtype=np.int64),
            flags=np.array([(kind.broadcast, kind.charged) for kind in self._kinds], dtype=bool).reshape(-1, 2),
            **{name: np.concatenate(parts) if parts else np.empty(0) for name, parts in joined.items()},
        )

    @classmethod
    def from_arrays(cls, arrays: SimpleNamespace) -> Journal:
        ends = np.cumsum(arrays.clients)[:-1]
        parts = [np.split(part, ends) for part in (arrays.bytes_down, arrays.bytes_up, arrays.flops)]
        kinds = [
            Exchange(down, up, flops, bool(broadcast), bool(charged))
            for down, up, flops, (broadcast, charged) in zip(*parts, arrays.flags, strict=True)
        ]
        journal = cls()
        for kind in arrays.order.tolist():
            journal.add(kinds[kind])
        return journal
