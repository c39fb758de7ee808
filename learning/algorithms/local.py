"""Training alone: what clients reach without ever exchanging a model."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from fedmule.learning.algorithms.base import (
    Algorithm,
    Contact,
    Draw,
    Exchange,
    IntArray,
    Model,
    Settings,
    Update,
    descend,
)
from fedmule.learning.data.client_data import ClientData


class Local(Algorithm):
    """Each client trains on its own data only, exactly when and as much as under a reference algorithm.

    The reference runs alongside in full and decides how long exchanges take, so both meet the same clients at
    the same times and take the same number of gradient steps on the same batches. No bytes are charged.
    """

    def __init__(
        self,
        data: ClientData,
        model: Model,
        settings: Settings,
        start: Tensor,
        draw: Draw,
        reference: Algorithm,
    ) -> None:
        super().__init__(data, model, settings, start, draw)
        self.reference = reference
        self.adds_up, self.grows = reference.adds_up, reference.grows  # so that meetings weigh the same

    @property
    def steps(self) -> int:
        return self.reference.steps

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        return replace(self.reference.exchange(clients, progress), charged=False)

    def meeting(self, progress: float) -> Exchange:
        return replace(self.reference.meeting(progress), charged=False)

    def introduce(self, client: int, near: IntArray) -> None:
        self.reference.introduce(client, near)

    def update(self, contact: Contact) -> Update:
        clients = contact.clients
        self.reference.update(contact)
        index = self._index(clients)
        before = self.models[index]
        x, loss = descend(self, before, self._batches(clients))
        self._store(index, before, x)
        return Update(float(loss), self.steps, 0.0)
