"""Costs of a run's exchanges and reports of clients, in order: all that a replay of the world needs of learning."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Exchange
from fedmule.learning.client_reports import Reports

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def _no_numbers() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass
class JournalArrays:
    """A journal as plain arrays, as stored in a checkpoint."""

    order: IntArray = field(default_factory=_no_numbers)  # [k] index of each exchange's cost among the distinct costs
    clients: IntArray = field(default_factory=_no_numbers)  # [m] number of clients of each distinct cost
    flags: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 2), dtype=bool))  # [m,2] broadcast, charged
    bytes_down: IntArray = field(default_factory=_no_numbers)  # of all distinct costs, concatenated
    bytes_up: IntArray = field(default_factory=_no_numbers)
    flops: FloatArray = field(default_factory=lambda: np.empty(0))
    reports: FloatArray = field(default_factory=lambda: np.empty((0, 2)))  # [r,2] losses and dual norms, concatenated


class Journal:
    """The cost of every exchange of a run, in order, and what clients reported if a vehicle asked for it.

    Most costs are equal, so each distinct one is stored once.
    """

    def __init__(self) -> None:
        self._distinct: list[Exchange] = []
        self._known: dict[tuple[bytes, bytes, bytes, bool, bool], int] = {}
        self._order = array("q")
        self._reports = array("d")  # a loss and a dual norm for each

    def add(self, cost: Exchange) -> Exchange:
        """Append a cost and return it."""
        key = (
            *(cost.bytes_down.tobytes(), cost.bytes_up.tobytes(), cost.flops.tobytes()),
            *(cost.broadcast, cost.charged),
        )
        if key not in self._known:
            self._known[key] = len(self._distinct)
            self._distinct.append(cost)
        self._order.append(self._known[key])
        return cost

    def add_reports(self, reports: Reports) -> Reports:
        """Append what the clients of a contact reported and return it."""
        self._reports.extend(np.stack([reports.losses, reports.dual_norms], axis=1).ravel())
        return reports

    def reports(self, first: int, count: int) -> Reports:
        """Return this many reports from number `first` on, counted over all contacts; fewer if there are no more."""
        part = np.array(self._reports[2 * first : 2 * (first + count)]).reshape(-1, 2)
        return Reports(part[:, 0], part[:, 1])

    @property
    def length(self) -> tuple[int, int]:
        """The number of costs, and of reports, so far."""
        return len(self._order), len(self._reports) // 2

    def costs(self, first: int = 0) -> Iterator[Exchange]:
        """Return the costs from this number on."""
        return (self._distinct[number] for number in tuple(self._order[first:]))

    def arrays(self) -> JournalArrays:
        """Return the complete journal as arrays, for a checkpoint."""
        if not self._distinct:
            return JournalArrays()
        return JournalArrays(
            order=np.array(self._order, dtype=np.int64),
            clients=np.array([len(cost.flops) for cost in self._distinct], dtype=np.int64),
            flags=np.array([(cost.broadcast, cost.charged) for cost in self._distinct], dtype=bool),
            bytes_down=np.concatenate([cost.bytes_down for cost in self._distinct]),
            bytes_up=np.concatenate([cost.bytes_up for cost in self._distinct]),
            flops=np.concatenate([cost.flops for cost in self._distinct]),
            reports=np.array(self._reports).reshape(-1, 2),
        )

    @classmethod
    def from_arrays(cls, arrays: JournalArrays) -> Journal:
        """Restore the journal that `arrays` came from."""
        ends = np.cumsum(arrays.clients)
        parts = [np.split(part, ends)[:-1] for part in (arrays.bytes_down, arrays.bytes_up, arrays.flops)]
        distinct = [
            Exchange(down, up, flops, bool(broadcast), bool(charged))
            for down, up, flops, (broadcast, charged) in zip(*parts, arrays.flags, strict=True)
        ]
        journal = cls()
        for number in arrays.order.tolist():
            journal.add(distinct[number])
        journal._reports.extend(arrays.reports.ravel())
        return journal
