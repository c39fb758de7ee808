"""Ditto (Li et al. 2021): FedAvg, plus a personal model per client that is pulled towards the token."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Task, Update
from fedmule.learning.algorithms.fedavg import mean_by_samples
from fedmule.learning.steps import Pull


def pull_to_token(y: Tensor, eta: float, lam: float) -> Pull:
    """v ← v − η(g + λ(v − y)): a gradient step on f(v) + (λ/2)|v − y|²."""
    return Pull(y, eta * lam, first=True)


class Ditto(Algorithm):
    """FedAvg's token, and for each client a personal model v; both train on the same batches.

    λ = 0 is FedAvg plus local training. Two gradients per local step; one model down and one up.
    """

    def __init__(self, task: Task, strength: float) -> None:
        super().__init__(task)
        self.strength = strength  # λ

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return 2 * local_steps

    def update(self, contact: Contact) -> Update:
        clients, eta, lam = contact.clients, self.settings.step_size, self.strength
        index = self._index(clients)
        before = self.models[index]
        batches = self._batches(clients, self.settings.local_steps)
        w, _ = self._descend(self.token.repeat(len(clients), 1), batches)
        v, loss = self._descend(before, batches, pull_to_token(self.token, eta, lam))
        moved = self._replace_token(mean_by_samples(self, clients, w))
        self._store(index, before, v)
        return Update(float(loss), self.steps, moved)
