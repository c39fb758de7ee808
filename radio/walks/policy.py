"""What a walk policy is: which client the vehicle drives to next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.radio.graph import ContactGraph

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Here:
    """Where a vehicle is when it looks for the next client."""

    client: int | None  # the one it visited last; None before its first visit
    xy: FloatArray  # [2] its position, m


class Policy:
    """Base of the walk policies; each vehicle has one of its own. One of one's own overrides `next`.

    `graph` says whom the vehicle could drive to now (`reachable`, ascending), where clients reported to be
    (`known`) and who would hear it at a client (`neighbours`). A client chased in vain is not told of: whoever keeps
    a memory must enter a client when it is chosen, so that the others come first next time.
    """

    def __init__(self, graph: ContactGraph) -> None:
        self.graph = graph

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """One of `graph.reachable`, of which there is at least one. All that is random comes from `draws`."""
        raise NotImplementedError

    def nearest(self, clients: IntArray, xy: FloatArray) -> int:
        """Of these clients the one whose reported position is nearest as the crow flies; the first of equals."""
        gap = self.graph.known(clients) - xy
        return int(clients[np.argmin(gap[:, 0] ** 2 + gap[:, 1] ** 2)])
