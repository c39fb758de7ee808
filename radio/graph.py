"""The contact graph: which clients would hear the vehicle at another client, as far as the reports tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.positions import Positions
from fedmule.radio.link import Radio, linked
from fedmule.radio.obstruction import Obstruction

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class ContactGraph:
    """Edges join clients whose reported positions are in radio range of each other; computed only on demand.

    Where radios of clients are weaker (`extra_loss_db` [n]), either of two neighbours would hear the vehicle at the
    other.
    """

    def __init__(
        self,
        positions: Positions,
        radio: Radio,
        obstruction: Obstruction,
        members: BoolArray,
        extra_loss_db: FloatArray | None = None,
    ) -> None:
        self._positions = positions
        self._radio = radio
        self._obstruction = obstruction
        self._extra_loss_db = np.zeros(len(positions)) if extra_loss_db is None else extra_loss_db
        self.admit(members)
        self._range_m = radio.farthest_m * (1 + 1e-9)  # preselects candidates; the link itself decides
        self.still = positions.trajectories.still

    def admit(self, members: BoolArray) -> None:
        """Set who [n] belongs to the graph from now on: the clients that the vehicle can drive to."""
        self.members = members
        self.reachable = np.flatnonzero(members)

    def known(self, clients: IntArray) -> FloatArray:
        """Reported positions [m,2] of these clients."""
        return self._positions.known(clients)

    def neighbours(self, client: int) -> IntArray:
        """Neighbours of a client, without itself, in ascending order."""
        here = self._positions.known(np.array([client]))[0]
        near = self._positions.known_within(here, self._range_m)
        near = near[self.members[near] & (near != client)]
        loss_db = self._larger_loss_db(client, near)
        return np.asarray(near[linked(self._radio, self._obstruction, here, self._positions.known(near), loss_db)])

    def degrees(self, clients: IntArray) -> IntArray:
        """Number of neighbours of each of these clients."""
        return np.array([len(self.neighbours(int(c))) for c in clients], dtype=np.int64)

    def edges(self) -> IntArray:
        """All edges [m,2], each once, with the lower client first."""
        from scipy.spatial import cKDTree

        known = self._positions.known(self.reachable)
        pairs = cKDTree(known).query_pairs(self._range_m, output_type="ndarray").astype(np.int64)
        heard = np.zeros(len(pairs), dtype=bool)
        for start in range(0, len(pairs), 100_000):  # in batches, so that memory stays small
            pair = pairs[start : start + 100_000]
            (a, b), loss_db = known[pair].swapaxes(0, 1), self._larger_loss_db(*self.reachable[pair].T)
            heard[start : start + len(a)] = linked(self._radio, self._obstruction, a, b, loss_db)
        found = self.reachable[pairs[heard]]
        return found[np.lexsort((found[:, 1], found[:, 0]))]

    def logged(self) -> IntArray:
        """All `edges`, then (i, i) for every member without neighbours, so that the log shows who is present."""
        edges = self.edges()
        alone = np.setdiff1d(self.reachable, edges)
        return np.concatenate([edges, np.stack([alone, alone], axis=1)])

    def _larger_loss_db(self, a: IntArray | int, b: IntArray) -> FloatArray:
        """The larger of two clients' extra losses [m]: an edge holds in both directions."""
        return np.maximum(self._extra_loss_db[a], self._extra_loss_db[b])
