"""Random walks: from the current client to the next, by one row of P(k)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.jumps import LevyJumps, Neighbours
from fedmule.radio.walks.policy import FloatArray, Here, IntArray, Policy

BoolArray = NDArray[np.bool_]

Rule = Literal["degree", "metropolis", "lazy"]


@dataclass(frozen=True)
class Row:
    """A row of P(k): (1 − jump) · probability over the listed clients, plus jump spread evenly over `anywhere`."""

    clients: IntArray  # [m] ascending
    probability: FloatArray  # [m] sums to 1; empty if only a jump leads to another client
    jump: float
    anywhere: IntArray  # all clients that the vehicle can drive to

    def draw(self, generator: np.random.Generator) -> int:
        """Draw the next client."""
        return self.at(*generator.random(2))

    def at(self, leap: float, choice: float) -> int:
        """The next client by two uniform numbers."""
        if leap < self.jump:
            return int(self.anywhere[int(choice * len(self.anywhere))])
        slot = int(np.searchsorted(np.cumsum(self.probability), choice * self.probability.sum(), side="right"))
        return int(self.clients[min(slot, len(self.clients) - 1)])

    def dense(self, n: int) -> FloatArray:
        """The row as a dense vector [n]."""
        row = np.zeros(n)
        row[self.anywhere] = self.jump / len(self.anywhere)
        row[self.clients] += (1 - self.jump) * self.probability
        return row


class Walk(Policy):
    """Random walk with P = (1 − jump)·P_graph + jump/n; from a client without neighbours it always jumps.

    `rule` sets P_graph. degree: 1/deg(i) to each neighbour. metropolis: min(1/deg(i), 1/deg(j)) to each neighbour j,
    the rest to i itself. lazy: one half to i itself, the other half as for degree. With Lévy jumps P_graph is
    (1 − chance)·(that) + chance·(the law of the jumps).
    """

    def __init__(self, graph: ContactGraph, rule: Rule, jump: float, levy: LevyJumps | None = None) -> None:
        super().__init__(graph)
        self._rule = rule
        self._jump = jump
        self._levy = levy

    @property
    def stays_in_a_group(self) -> bool:
        """Whether it cannot go from one part of a graph to another that is not connected with it."""
        return self._jump == 0 and self._levy is None

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """Draw from the row of the client visited last; from all clients at first."""
        if here.client is None:
            return self.anywhere().draw(draws)
        row = self._step(here.client)
        if self._levy is None:
            return row.draw(draws)
        leap, choice, far, length = draws.random(4)
        if leap >= row.jump and far < self._levy.chance:
            return self._levy.draw(here.client, self.graph.neighbours, self.graph.reachable, length, choice)
        return row.at(leap, choice)

    def row(self, client: int) -> Row:
        """Row `client` of P(k), from the positions known now.

        The cost is proportional to the number of neighbours; with Lévy jumps, to that of all clients.
        """
        row = self._step(client)
        return row if self._levy is None else with_levy(row, client, self._levy, self.graph.neighbours)

    def _step(self, client: int) -> Row:
        """The row without Lévy jumps."""
        near = self.graph.neighbours(client)
        degrees = self.graph.degrees(near) if self._rule == "metropolis" else np.full(len(near), len(near))
        return self._row(client, near, degrees)

    def anywhere(self) -> Row:
        """Row for the first client: any one at random."""
        return Row(np.empty(0, dtype=np.int64), np.empty(0), 1.0, self.graph.reachable)

    def matrix(self) -> Any:
        """The complete P(k) as a sparse matrix [n,n] with the same rows; see `transition_matrix`."""
        return transition_matrix(self.graph.edges(), self.graph.members, self._rule, self._jump, self._levy)

    def _row(self, client: int, near: IntArray, degrees: IntArray) -> Row:
        return row_of(client, near, degrees, self._rule, self._jump, self.graph.reachable)


def row_of(client: int, near: IntArray, degrees: IntArray, rule: Rule, jump: float, anywhere: IntArray) -> Row:
    """Row `client` of P from its neighbours [m] and, for metropolis, their degrees [m]."""
    if not len(near):
        return Row(near, np.empty(0), 1.0, anywhere)
    each = np.full(len(near), 1 / len(near))
    stay = 0.0
    if rule == "metropolis":
        each = np.minimum(each, 1 / degrees)
        stay = max(0.0, 1 - each.sum())  # rounding may leave it slightly below 0
    elif rule == "lazy":
        each, stay = each / 2, 0.5
    if stay > 0:
        slot = int(np.searchsorted(near, client))
        near, each = np.insert(near, slot, client), np.insert(each, slot, stay)
    return Row(near, each, jump, anywhere)


def with_levy(row: Row, client: int, levy: LevyJumps, neighbours: Neighbours) -> Row:
    """The row of a client with Lévy jumps: (1 − chance)·(its probabilities) + chance·(the law of the jumps)."""
    if not len(row.clients):  # no neighbours: it always jumps anywhere
        return row
    goals, law = levy.law(client, neighbours, row.anywhere)
    clients = np.union1d(row.clients, goals)
    each = np.zeros(len(clients))
    each[np.searchsorted(clients, row.clients)] = (1 - levy.chance) * row.probability
    each[np.searchsorted(clients, goals)] += levy.chance * law
    return Row(clients, each, row.jump, row.anywhere)


def transition_matrix(
    edges: IntArray, members: BoolArray, rule: Rule, jump: float, levy: LevyJumps | None = None
) -> Any:
    """P of a graph with edges [m,2] among members [n], as a sparse matrix [n,n]; rows of non-members are empty.

    With jumps no entry between members is zero, so nothing is saved; with Lévy jumps that may be so too.
    """
    from scipy.sparse import csr_array

    n, anywhere = len(members), np.flatnonzero(members)
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    degree = np.bincount(both[:, 0], minlength=n)
    start = np.concatenate([[0], np.cumsum(degree)])
    i, j, p = [], [], []

    def neighbours(client: int) -> IntArray:
        return np.asarray(both[start[client] : start[client + 1], 1])

    for client in anywhere.tolist():
        near = neighbours(client)
        row = row_of(client, near, degree[near], rule, jump, anywhere)
        if levy is not None:
            row = with_levy(row, client, levy, neighbours)
        dense = row.dense(n) if row.jump > 0 else None
        columns = row.clients if dense is None else np.flatnonzero(dense)
        i.append(np.full(len(columns), client))
        j.append(columns)
        p.append(row.probability if dense is None else dense[columns])
    return csr_array((np.concatenate(p), (np.concatenate(i), np.concatenate(j))), shape=(n, n))


class Degree(Walk):
    """To each neighbour with the same probability."""

    def __init__(self, graph: ContactGraph, jump: float, levy: LevyJumps | None) -> None:
        super().__init__(graph, "degree", jump, levy)


class Metropolis(Walk):
    """Metropolis–Hastings: in the long run all clients are visited equally often."""

    def __init__(self, graph: ContactGraph, jump: float, levy: LevyJumps | None) -> None:
        super().__init__(graph, "metropolis", jump, levy)


class Lazy(Walk):
    """Stay half of the time, else as `Degree`."""

    def __init__(self, graph: ContactGraph, jump: float, levy: LevyJumps | None) -> None:
        super().__init__(graph, "lazy", jump, levy)
