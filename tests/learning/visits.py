"""Visits for tests of neighbourhoods: the client visited and the clients in range."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Contact


def visit_to(visited: int, near: Iterable[int], clients: Iterable[int] | None = None, progress: float = 0.0) -> Contact:
    """Return the contact of a visit to a client; by default all clients in range are delivered."""
    in_range = np.array(sorted({visited, *near}))
    delivered = in_range if clients is None else np.array(sorted(clients))
    return Contact(delivered, len(in_range), progress, visited, in_range)


def random_visits(clients: int, visits: int, seed: int = 0, progress: float = 0.0) -> list[Contact]:
    """Return random visits with some clients in range, some of which are delivered."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(visits):
        visited = int(generator.integers(clients))
        near = {visited, *generator.choice(clients, 3, replace=False).tolist()}
        delivered = [j for j in near if j == visited or generator.random() < 0.7]
        made.append(visit_to(visited, near, delivered, progress))
    return made


class Fixed:
    """Neighbours in known groups, with equal weights within a group."""

    def __init__(self, group: Iterable[int]) -> None:
        self.group = np.array(group)

    def visit(self, client: int, near: Iterable[int]) -> None:
        """Ignore visits: the groups are fixed."""

    def as_if_visited(self, client: int, near: Iterable[int]) -> AbstractContextManager[None]:
        """Ignore visits: the groups are fixed."""
        return nullcontext()

    def weights(self, client: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the members of the client's group and their weights."""
        index = np.flatnonzero(self.group == self.group[client])
        return index, np.ones(len(index))
