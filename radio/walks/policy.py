"""Base class of walk policies, which choose the client that a vehicle drives to next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.radio.graph import ContactGraph

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Here:
    """State of a vehicle when it chooses the next client."""

    client: int | None  # the client visited last; None before the first visit
    xy: FloatArray  # [2] position, m


class Policy:
    """Base class of walk policies; each vehicle has its own instance. Subclass and override `next`.

    `graph` has the clients that the vehicle could drive to now (`reachable`, ascending), their reported positions
    (`known`) and the clients within radio range of a client (`neighbours`). A policy is not notified when a client is
    not reached: one that keeps a record must enter a client when it is chosen, so that others come first next time.
    """

    def __init__(self, graph: ContactGraph) -> None:
        self.graph = graph

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """Choose one of `graph.reachable`, which is not empty. All randomness must come from `draws`."""
        raise NotImplementedError

    def nearest(self, clients: IntArray, xy: FloatArray) -> int:
        """The client whose reported position is nearest in a straight line; the first one in a tie."""
        gap = self.graph.known(clients) - xy
        return int(clients[np.argmin(gap[:, 0] ** 2 + gap[:, 1] ** 2)])
