"""The contact graph: which clients would hear the vehicle if it stood at another, as far as it knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Terrain
from fedmule.radio.link import Radio, linked

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class ContactGraph:
    """Edges join clients whose reported positions can hear each other; worked out only where asked."""

    def __init__(self, positions: Positions, radio: Radio, terrain: Terrain, members: BoolArray) -> None:
        self._positions = positions
        self._radio = radio
        self._terrain = terrain
        self.admit(members)
        self._range_m = radio.farthest_m * (1 + 1e-9)  # who is near enough to ask; the link itself decides
        self.still = positions.trajectories.still

    def admit(self, members: BoolArray) -> None:
        """From now on these [n] belong to the graph: those the vehicle can drive to."""
        self.members = members
        self.reachable = np.flatnonzero(members)

    def known(self, clients: IntArray) -> FloatArray:
        """Reported positions [m,2] of these clients."""
        return self._positions.known(clients)

    def neighbours(self, client: int) -> IntArray:
        """The client's neighbours, without itself, in ascending order."""
        here = self._positions.known(np.array([client]))[0]
        near = self._positions.known_within(here, self._range_m)
        near = near[self.members[near] & (near != client)]
        return near[linked(self._radio, self._terrain, here, self._positions.known(near))]

    def degrees(self, clients: IntArray) -> IntArray:
        """How many neighbours each of these clients has."""
        return np.array([len(self.neighbours(int(c))) for c in clients], dtype=np.int64)

    def edges(self) -> IntArray:
        """All edges [m,2], each once, lower client first."""
        from scipy.spatial import cKDTree

        known = self._positions.known(self.reachable)
        pairs = cKDTree(known).query_pairs(self._range_m, output_type="ndarray").astype(np.int64)
        heard = np.zeros(len(pairs), dtype=bool)
        for start in range(0, len(pairs), 100_000):  # rays in portions, so that memory stays small
            part = pairs[start : start + 100_000]
            heard[start : start + len(part)] = linked(self._radio, self._terrain, known[part[:, 0]], known[part[:, 1]])
        found = self.reachable[pairs[heard]]
        return found[np.lexsort((found[:, 1], found[:, 0]))]

    def logged(self) -> IntArray:
        """All edges as in `edges`, then (i, i) for every member without neighbours: who is there can be told."""
        edges = self.edges()
        alone = np.setdiff1d(self.reachable, edges)
        return np.concatenate([edges, np.stack([alone, alone], axis=1)])
