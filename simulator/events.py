"""What happened in the world, as the event loop reports it to the ledger."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Contact, Exchange, Update
from fedmule.radio.channel import Outcome

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Visit:
    """A visit of a vehicle to a client, a contact in passing, or a round of an ideal server, that has ended."""

    contact: Contact
    active: IntArray  # the clients asked to take part
    exchange: Exchange
    outcome: Outcome
    update: Update | None  # None: nobody was delivered
    began_s: float
    vehicle: int | None = None  # None for an ideal server
    position: FloatArray | None = None  # [2] of the vehicle when it began
    in_passing: bool = False
    setup_s: float = 0.0  # of its time was setting up links


@dataclass(frozen=True)
class Drive:
    """How far a run's vehicles have driven, all together."""

    vehicles: int
    moving_s: float
    metres: float


@dataclass(frozen=True)
class Meeting:
    """An attempt of two vehicles to exchange what they carry."""

    vehicles: tuple[int, int]
    began_s: float
    positions: FloatArray | None  # [2,2] where they were when it began; None in a world without positions
    exchange: Exchange
    outcome: Outcome

    @property
    def delivered(self) -> bool:
        """Whether both got the other's token; otherwise nothing has changed."""
        return bool(self.outcome.delivered[0])
