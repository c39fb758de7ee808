"""Training at contacts: clients compute while the vehicle is with them, on what it has sent them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange, IntArray, Parcel, Update
from fedmule.learning.tokens import Carried


class AtContact:
    """Exchanges that are under way: what each client was sent when its exchange began, and when that was.

    Clients train on exactly that, although the vehicle's token may have moved by the time their results arrive. The
    results then act on the present token, in the order in which they arrive.
    """

    def __init__(self, algorithm: Algorithm, carried: Carried) -> None:
        self._algorithm = algorithm
        self._carried = carried
        self._sent: dict[int, Parcel] = {}  # by client
        self._sent_s: dict[int, float] = {}
        self._hands_over: dict[int, bool] = {}  # whether it sends a result back
        self._fewer: dict[int, int] = {}  # local steps it takes, where they are fewer than usual

    def cost(self, clients: IntArray, progress: float, now_s: float) -> Exchange:
        """Return the cost of an exchange with these clients that begins now."""
        return self._algorithm.exchange(clients, progress)

    def begin(
        self,
        vehicle: int,
        clients: IntArray,
        progress: float,
        now_s: float,
        visited: int | None = None,
        near: IntArray | None = None,
    ) -> Exchange:
        """Keep what these clients are sent by a vehicle now, and return the cost of the exchange."""
        cost = self.cost(clients, progress, now_s)
        with self._carried.held_by(vehicle):
            parcels = self._algorithm.send(clients, progress, visited, near)
        sends_back = cost.charged & (cost.bytes_up > 0)
        for client, parcel, up in zip(clients.tolist(), parcels, sends_back.tolist(), strict=True):
            self._sent[client], self._sent_s[client], self._hands_over[client] = parcel, now_s, up
        return cost

    def shorten(self, client: int, local_steps: int, cost: Exchange) -> Exchange:
        """Let a client whose exchange has begun at this cost take fewer steps; return what it costs then."""
        self._fewer[client] = local_steps
        return replace(cost, flops=cost.flops - self._algorithm.flops_saved(local_steps))

    def update(self, vehicle: int, contact: Contact) -> Update:
        """Update with what the delivered clients were sent."""
        age_s = self._age_s(contact)
        steps = self._fewer.get(int(contact.clients[0])) if len(contact.clients) == 1 else None
        update = self._carried.update(vehicle, replace(contact, sent=self._parcels(contact.clients), steps=steps))
        self.drop(contact.clients)
        return replace(update, age_s=age_s)

    def drop(self, clients: IntArray) -> None:
        """Forget what was sent to these clients."""
        for client in clients.tolist():
            for kept in (self._sent, self._sent_s, self._hands_over, self._fewer):
                kept.pop(client, None)

    def trained(self, now_s: float) -> IntArray:
        """Return the clients whose models have changed since they were last asked for, without a contact."""
        return np.empty(0, dtype=np.int64)

    def model(self, client: int, now_s: float) -> Tensor:
        """Return the model [d] that a client holds now."""
        return self._algorithm.models[client]

    def settle(self, clients: IntArray, now_s: float) -> None:
        """Let these clients compute what they would have computed by now, before their data change."""

    def _parcels(self, clients: IntArray) -> Sequence[Parcel]:
        """Return what each of these clients was sent."""
        return [self._here(self._sent[client]) for client in clients.tolist()]

    def _here(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors with numbers on the device of the models, as those from a checkpoint may not be yet."""
        device = self._algorithm.device
        return {name: part.to(device) if part.is_floating_point() else part for name, part in parts.items()}

    def _age_s(self, contact: Contact) -> float | None:
        """Return how long before the contact's end the tokens were sent that its results started from, on average."""
        began_s: NDArray[np.float64] = np.array([self._sent_s[c] for c in contact.clients.tolist()])
        return self._mean_age_s(contact, began_s)

    def _mean_age_s(self, contact: Contact, began_s: NDArray[np.float64]) -> float | None:
        over = np.array([self._hands_over[client] for client in contact.clients.tolist()], dtype=bool)
        return float((contact.ended_s - began_s[over]).mean()) if over.any() else None
