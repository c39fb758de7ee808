"""The tokens of several vehicles, for algorithms that know of one token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import BYTES_PER_NUMBER, Algorithm, Contact, Exchange, IntArray, Update, Work

Result = TypeVar("Result")
Part = Tensor | NDArray[np.float64] | float  # of what a vehicle carries


class Carried:
    """Each vehicle's token, or whatever `Algorithm.carried` names; the algorithm holds it in the vehicle's contacts.

    In between the algorithm holds the mean over vehicles, on which accuracy and diagnostics are evaluated. Two vehicles
    that meet both carry the mean of their tokens from then on.
    """

    def __init__(self, algorithm: Algorithm, vehicles: int = 1) -> None:
        self._algorithm = algorithm
        self._by_vehicle = [self._held() for _ in range(vehicles)]
        algorithm.vehicles = vehicles

    @contextmanager
    def held_by(self, vehicle: int) -> Iterator[None]:
        """Let the algorithm hold what this vehicle carries, and then again what it held before."""
        before = {name: getattr(self._algorithm, name) for name in self._algorithm.carried}
        if len(self._by_vehicle) > 1:
            self._hold(self._by_vehicle[vehicle])
        try:
            yield
        finally:
            self._hold(before)

    def update(self, vehicle: int, contact: Contact) -> Update:
        """Update with exactly the clients delivered at a contact of this vehicle."""
        return self._change(vehicle, contact.clients, lambda: self._algorithm.update(contact))

    def combine(self, vehicle: int, contact: Contact, work: Work) -> float:
        """Combine what the clients of a contact of this vehicle hand over; return how far its token moved."""
        return self._change(vehicle, contact.clients, lambda: self._algorithm.combine(contact, work))

    def _change(self, vehicle: int, clients: IntArray, change: Callable[[], Result]) -> Result:
        """Let the algorithm change what this vehicle carries, by results of these clients."""
        if len(self._by_vehicle) == 1:
            return change()
        self._hold(self._by_vehicle[vehicle])
        result = change()
        self._by_vehicle[vehicle] = self._held()
        self._hold_mean()
        return result

    def meeting(self, a: int, b: int, progress: float) -> Exchange:
        """Cost of a meeting of two vehicles: down is from a to b. No bytes: they have nothing to exchange."""
        return self._algorithm.meeting(progress)

    def meet(self, a: int, b: int) -> None:
        """Merge what two vehicles carry."""
        self._merge(a, b)
        self._hold_mean()

    def _merge(self, a: int, b: int) -> None:
        mean = {name: _mean([one, self._by_vehicle[b][name]]) for name, one in self._by_vehicle[a].items()}
        self._by_vehicle[a], self._by_vehicle[b] = mean, dict(mean)

    def of(self, vehicle: int) -> dict[str, Part]:
        """What a vehicle carries, by name."""
        return self._by_vehicle[vehicle]

    def _hold_mean(self) -> None:
        names = self._algorithm.carried
        self._hold({name: _mean([own[name] for own in self._by_vehicle]) for name in names})

    def _hold(self, parts: dict[str, Part]) -> None:
        """Let the algorithm hold these."""
        for name, part in parts.items():
            setattr(self._algorithm, name, part)

    def _held(self) -> dict[str, Part]:
        """A copy of what the algorithm holds."""
        held = {name: getattr(self._algorithm, name) for name in self._algorithm.carried}
        return {name: _copy(part) for name, part in held.items()}


def _copy(part: Part) -> Part:
    return part.clone() if isinstance(part, Tensor) else part.copy() if isinstance(part, np.ndarray) else part


def _mean(parts: Sequence[Part]) -> Part:
    """Return the mean of tensors or arrays of one shape, or of numbers."""
    if isinstance(parts[0], Tensor):
        return torch.stack(cast(Sequence[Tensor], parts)).mean(dim=0)  # type: ignore[arg-type]
    if isinstance(parts[0], np.ndarray):
        total: NDArray[np.float64] = np.add.reduce(np.stack([np.asarray(part) for part in parts]), axis=0) + 0.0
        return total / len(parts)
    return sum(parts) / len(parts)


@dataclass(frozen=True)
class Changes:
    """The changes that one vehicle has made so far."""

    contacts: int  # how many of its contacts they come from
    total: Tensor  # [d] sum of c − c_stored over all clients delivered; of c − y⁰ where one was new to all vehicles


class AddedUp(Carried):
    """For tokens that are a mean of the clients' last contributions: the vehicles' changes add up.

    Each vehicle knows its own changes and those of others as of when it last heard of them; its token is

        y = y⁰ + (sum of all changes it knows) / (number of clients it counts)

    which is exactly the mean of the contributions once it knows all changes. Where two meet, both keep the more recent
    of what they know of each vehicle. A vehicle counts the clients it has met or heard of, or all (`Algorithm.grows`).
    """

    def __init__(self, algorithm: Algorithm, vehicles: int) -> None:
        super().__init__(algorithm, vehicles)
        clients, nothing = algorithm.data.clients, Changes(0, torch.zeros_like(algorithm.token))
        self._start = algorithm.token.clone()  # y⁰
        self._known = [[nothing] * vehicles for _ in range(vehicles)]  # by the vehicle that knows, and of whom
        self._met: NDArray[np.bool_] = np.zeros((vehicles, clients), dtype=bool)  # by a vehicle, or so it heard
        self._met_by_any = np.zeros(clients, dtype=bool)

    def _change(self, vehicle: int, clients: IntArray, change: Callable[[], Result]) -> Result:
        self._met[vehicle, clients] = True
        new = int((~self._met_by_any[clients]).sum()) if self._algorithm.grows else 0
        self._met_by_any[clients] = True
        before = self._by_vehicle[vehicle]["token"]
        self._algorithm.counted = counted = self._count(vehicle)
        result = super()._change(vehicle, clients, change)
        # The update measured those new to all from the token: y += (Σ (c − y) + Σ (c − c_stored)) / counted.
        moved = counted * (self._by_vehicle[vehicle]["token"] - before) + new * (before - self._start)
        assert isinstance(moved, Tensor)
        own = self._known[vehicle][vehicle]
        self._known[vehicle][vehicle] = Changes(own.contacts + 1, own.total + moved)
        self._add_up(vehicle)
        self._hold_mean()
        return result

    def meeting(self, a: int, b: int, progress: float) -> Exchange:
        """Cost of the changes the other has not heard of, of the counts of contacts, and of a bit for each client."""
        one = self._algorithm.meeting(progress)
        news = [sum(p.contacts > q.contacts for p, q in zip(*pair, strict=True)) for pair in self._both_ways(a, b)]
        overhead = BYTES_PER_NUMBER * len(self._known) + (self._met.shape[1] + 7) // 8 if any(news) else 0
        size = self._algorithm.model_bytes
        more = one.bytes_down - size if any(news) else 0  # of what is carried beside the token
        down, up = (np.where(one.bytes_down > 0, n * size + more + overhead, 0) for n in news)
        return replace(one, bytes_down=down, bytes_up=up)

    def _merge(self, a: int, b: int) -> None:
        both = [
            max(p, q, key=lambda known: known.contacts) for p, q in zip(self._known[a], self._known[b], strict=True)
        ]
        met = self._met[a] | self._met[b]
        super()._merge(a, b)  # for what they carry beside the token
        for vehicle in (a, b):
            self._known[vehicle], self._met[vehicle] = list(both), met
            self._add_up(vehicle)

    def _both_ways(self, a: int, b: int) -> list[tuple[list[Changes], list[Changes]]]:
        return [(self._known[a], self._known[b]), (self._known[b], self._known[a])]

    def _add_up(self, vehicle: int) -> None:
        total = torch.stack([known.total for known in self._known[vehicle]]).sum(dim=0)
        self._by_vehicle[vehicle]["token"] = self._start + total / max(self._count(vehicle), 1)

    def _count(self, vehicle: int) -> int:
        return int(self._met[vehicle].sum()) if self._algorithm.grows else self._met.shape[1]


def carried_by(vehicles: int, algorithm: Algorithm) -> Carried:
    """What the vehicles carry: tokens whose changes add up where they can and are asked to, else averaged ones."""
    return AddedUp(algorithm, vehicles) if vehicles > 1 and algorithm.adds_up else Carried(algorithm, vehicles)
