"""Lévy jumps: moves of several hops along the contact graph, against being caught in one part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Neighbours = Callable[[int], IntArray]


def hop_chances(hop_on: float, most_hops: int) -> FloatArray:
    """P(d) ∝ hop_on^(d − 1) for d = 1 … most_hops: a truncated geometric distribution."""
    weights = np.power(hop_on, np.arange(most_hops, dtype=np.float64))
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class LevyJumps:
    """With `chance` a move is a jump of d hops, with d from a truncated geometric distribution.

    As in Metropolis–Hastings with Lévy jumps (Liu, El Rouayheb and Dwyer 2024, arXiv:2407.20611). There a jump takes d
    random hops, which often lead back; here it leads to one of the clients that are d hops away by the shortest path,
    as in the random multi-hopper (Estrada et al. 2016, arXiv:1612.08631), each with the same probability. Where the
    graph goes no farther, it leads to one of the clients that the graph does not connect with this one; if there are
    none, to one of the farthest.
    """

    chance: float
    hop_on: float  # probability of each hop after the first
    most_hops: int

    def draw(self, client: int, neighbours: Neighbours, anywhere: IntArray, length: float, choice: float) -> int:
        """Draw where a jump from a client leads, by two uniform numbers; `anywhere` [n]: all clients of the graph."""
        chances = np.cumsum(hop_chances(self.hop_on, self.most_hops))
        hops = 1 + min(int(np.searchsorted(chances, length, side="right")), self.most_hops - 1)
        goals = landing(shells(client, neighbours, hops), hops, client, anywhere)
        return int(goals[int(choice * len(goals))])

    def law(self, client: int, neighbours: Neighbours, anywhere: IntArray) -> tuple[IntArray, FloatArray]:
        """Return where a jump from a client may lead [k], ascending, and the probabilities [k]."""
        found, parts, shares = shells(client, neighbours, self.most_hops), [], []
        for hops, chance in enumerate(hop_chances(self.hop_on, self.most_hops), start=1):
            parts.append(landing(found, hops, client, anywhere))
            shares.append(np.full(len(parts[-1]), chance / len(parts[-1])))
        goals, which = np.unique(np.concatenate(parts), return_inverse=True)
        return goals, np.bincount(which, weights=np.concatenate(shares)).astype(np.float64)


def shells(client: int, neighbours: Neighbours, most: int) -> list[IntArray]:
    """Return the clients that are 1, 2, … `most` hops away, each ascending; fewer if the graph goes no farther."""
    found: list[IntArray] = []
    seen, here = {client}, [client]
    while len(found) < most:
        here = sorted({other for one in here for other in neighbours(one).tolist()} - seen)
        if not here:
            break
        seen.update(here)
        found.append(np.array(here, dtype=np.int64))
    return found


def landing(found: list[IntArray], hops: int, client: int, anywhere: IntArray) -> IntArray:
    """Return the clients [k] to one of which a jump of some hops leads, from the shells about its start."""
    if hops <= len(found):
        return found[hops - 1]
    beyond = np.setdiff1d(anywhere, np.concatenate([[client], *found]))
    return beyond if beyond.size else found[-1]
