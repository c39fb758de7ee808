"""What a vehicle knows of its own contacts so far, and what clients reported at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEVER_S = -np.inf
KEPT = ("_exchanges", "_delivered_s", "_given_up_s", "_losses", "_dual_norms")  # arrays that a checkpoint keeps


@dataclass(frozen=True)
class PastContact:
    """A contact of the vehicle that has ended: a visit, or a contact in passing."""

    client: int  # the one it drove to, or heard in passing
    began_s: float  # when the exchange began and ended, simulated time
    ended_s: float
    in_passing: bool
    neighbours: int  # clients in range, this one included
    asked: IntArray  # the clients asked to take part, ascending
    delivered: IntArray  # those of them whose exchange got through

    @property
    def got_through(self) -> bool:
        """Whether the exchange with the client itself got through."""
        return bool((self.delivered == self.client).any())


@dataclass(frozen=True)
class Past:
    """The past of one vehicle. It knows nothing of the contacts of others. Arrays have a number for each client [n]."""

    contacts: Sequence[PastContact]  # all that have ended, the last one last
    exchanges: IntArray  # exchanges with this vehicle that got through
    delivered_s: FloatArray  # when the last of them ended; −∞ for never
    given_up_s: FloatArray  # when the vehicle last gave up driving to the client; −∞ for never
    # As last reported at a contact, for policies with `wants_reports`; nan for never.
    losses: FloatArray  # mean loss of the client's last minibatches
    dual_norms: FloatArray  # norm of its dual, where the algorithm has duals


class Logbook:
    """Keeps the past of one vehicle; `past` is always up to date."""

    def __init__(self, clients: int) -> None:
        self.contacts: list[PastContact] = []
        self._exchanges = np.zeros(clients, dtype=np.int64)
        self._delivered_s, self._given_up_s = np.full((2, clients), NEVER_S)
        self._losses, self._dual_norms = np.full((2, clients), np.nan)
        times = _read_only(self._delivered_s), _read_only(self._given_up_s)
        reports = _read_only(self._losses), _read_only(self._dual_norms)
        self.past = Past(self.contacts, _read_only(self._exchanges), *times, *reports)

    def met(self, contact: PastContact) -> None:
        """Enter a contact that has ended."""
        self.contacts.append(contact)
        self._exchanges[contact.delivered] += 1
        self._delivered_s[contact.delivered] = contact.ended_s

    def heard(self, clients: IntArray, losses: FloatArray, dual_norms: FloatArray) -> None:
        """Enter what clients [m] reported at a contact; nan: nothing new."""
        for kept, values in ((self._losses, losses), (self._dual_norms, dual_norms)):
            known = ~np.isnan(values)
            kept[clients[known]] = values[known]

    def gave_up(self, client: int, now_s: float) -> None:
        """Enter that the vehicle has given up driving to a client."""
        self._given_up_s[client] = now_s

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what a checkpoint keeps of it, besides the contacts."""
        return {name: getattr(self, name) for name in KEPT}

    def restore(self, state: dict[str, NDArray[Any]], contacts: list[PastContact]) -> None:
        """Restore what `state` returned, and the contacts so far."""
        for name in KEPT:
            getattr(self, name)[:] = state[name]
        self.contacts[:] = contacts


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


NOTHING = Logbook(0).past
