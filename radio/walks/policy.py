"""Base class of walk policies, which choose the client that a vehicle drives to next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.driving import Driving
from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.past import NOTHING, Past

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Here:
    """What a vehicle knows when it chooses the next client.

    It knows what it has seen itself; of the contacts of other vehicles it knows nothing. Travel times are computed only
    when a policy asks for them.
    """

    client: int | None  # the client visited last; None before the first visit
    xy: FloatArray  # [2] position, m
    now_s: float = 0.0  # simulated time
    progress: float = 0.0  # share of the run that is over
    past: Past = NOTHING  # its own contacts so far
    driving: Driving | None = None  # how it finds its way
    frozen_s: float = np.inf  # since when its token is final: who gets it has no use for another visit

    def still_waiting(self, clients: IntArray) -> IntArray:
        """Return those of these clients that lack the final token; all of them before there is one, or if none does."""
        lacking = clients[self.past.delivered_s[clients] < self.frozen_s] if self.now_s >= self.frozen_s else clients
        return lacking if lacking.size else clients

    def age_s(self, clients: IntArray) -> FloatArray:
        """Seconds [m] since the last exchange of these clients with this vehicle that got through; ∞ for never."""
        return np.asarray(self.now_s - self.past.delivered_s[clients])

    def travel_s(self, aim: FloatArray) -> float:
        """Seconds to a position [2] along the fastest way; a few milliseconds of work where there are obstacles."""
        return float(self._driving.way(self.xy, aim)[0][-1])

    def least_travel_s(self, aims: FloatArray) -> FloatArray:
        """Lower bounds [m] of the seconds to positions [m,2]: straight lines at the highest speed; cheap."""
        return self._driving.least_seconds(self.xy, aims)

    @property
    def _driving(self) -> Driving:
        if self.driving is None:
            raise ValueError("travel times need a vehicle: this Here was made without its way of driving")
        return self.driving


class Policy:
    """Base class of walk policies; each vehicle has its own instance. Subclass and override `next`.

    `graph` has the clients that the vehicle could drive to now (`reachable`, ascending), their reported positions
    (`known`) and the clients within radio range of a client (`neighbours`). What else the vehicle knows is in `here`. A
    client that was not reached is in `here.past.given_up_s`; a policy that keeps a record of its own must enter a
    client when it is chosen, so that others come first next time.
    """

    wants_reports = False  # whether clients report losses and dual norms at contacts, for `here.past`

    def __init__(self, graph: ContactGraph) -> None:
        self.graph = graph

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """Choose one of `graph.reachable`, which is not empty. All randomness must come from `draws`."""
        raise NotImplementedError

    def nearest(self, clients: IntArray, xy: FloatArray) -> int:
        """The client whose reported position is nearest in a straight line; the first one in a tie."""
        gap = self.graph.known(clients) - xy
        return int(clients[np.argmin(gap[:, 0] ** 2 + gap[:, 1] ** 2)])
