"""Ditto (Li et al. 2021): FedAvg, plus a personal model per client that is pulled towards the token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Steps, Task, Work
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

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        y = self._token_sent(sent)
        return {"x": self.models[self._index(clients)], "w": self._copies(y, len(clients)), "y": y}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        batches = self._rows(work, steps, steps.first, steps.last)
        w, _ = self._descend(work["w"], batches)
        pull = pull_to_token(work["y"], self.settings.step_size, self.strength)
        v, loss = self._descend(work["x"], batches, pull)
        return {**work, "x": v, "w": w}, loss

    def combine(self, contact: Contact, work: Work) -> float:
        moved = self._replace_token(mean_by_samples(self, contact.clients, work["w"]))
        self._keep(contact.clients, work["x"])
        return moved
