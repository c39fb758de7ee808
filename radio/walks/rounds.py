"""Policies that visit everyone in rounds: the nearest unvisited client, or the one visited longest ago.

Once the token is final, both visit those first who lack it.
"""

from __future__ import annotations

import numpy as np

from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.policy import Here, Policy


class NearestUnvisited(Policy):
    """Choose the nearest client not yet chosen in this pass; when all have been, a new pass begins.

    No client is chosen twice in a row unless it is the only one.
    """

    def __init__(self, graph: ContactGraph) -> None:
        super().__init__(graph)
        self._chosen = np.zeros(len(graph.members), dtype=bool)  # in this pass

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """Choose the nearest client left in this pass."""
        everyone = here.still_waiting(self.graph.reachable)
        left = everyone[~self._chosen[everyone]]
        if not left.size:
            self._chosen[:] = False
            left = everyone[everyone != here.client] if len(everyone) > 1 else everyone
        client = self.nearest(left, here.xy)
        self._chosen[client] = True
        return client


class OldestFirst(Policy):
    """Choose the client chosen longest ago; those never chosen come first, the nearest of them before the others."""

    def __init__(self, graph: ContactGraph) -> None:
        super().__init__(graph)
        self._chosen_at = np.zeros(len(graph.members), dtype=np.int64)  # number of the choice; 0 for never
        self._choices = 0

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """Choose the client chosen longest ago."""
        everyone = here.still_waiting(self.graph.reachable)
        at = self._chosen_at[everyone]
        client = self.nearest(everyone[at == at.min()], here.xy)
        self._choices += 1
        self._chosen_at[client] = self._choices
        return client
