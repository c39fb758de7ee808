"""APFL (Deng et al. 2020): each client uses a mixture of its own model and its copy of the global model."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Task, Update
from fedmule.learning.algorithms.fedavg import mean_by_samples


def mixture(v: Tensor, w: Tensor, alpha: Tensor) -> Tensor:
    """x = αv + (1 − α)w. Shapes [S,d], α [S,1]."""
    return alpha * v + (1 - alpha) * w


def apfl_step(v: Tensor, g: Tensor, alpha: Tensor, eta: float) -> Tensor:
    """v ← v − ηαg, where g is the gradient at the mixture, so αg is the gradient with respect to v."""
    return v - eta * alpha * g


def alpha_step(alpha: Tensor, v: Tensor, w: Tensor, g: Tensor, eta: float) -> Tensor:
    """α ← clip(α − η<g, v − w>, 0, 1), where g is the gradient at the mixture."""
    return (alpha - eta * (g * (v - w)).sum(dim=1, keepdim=True)).clamp(0, 1)


class APFL(Algorithm):
    """FedAvg's token, and for each client v and α; its personal model is αv + (1 − α)w.

    α = 0 is FedAvg, α = 1 local training. Two gradients per local step; one model down and one up.
    """

    state_copies = 2

    def __init__(self, task: Task, alpha: float, adaptive: bool) -> None:
        super().__init__(task)
        self.adaptive = adaptive
        self.own = self.models.clone()  # v [n,d]
        self.alpha = task.start.new_full((task.data.clients, 1), alpha)

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return 2 * local_steps

    def update(self, contact: Contact) -> Update:
        clients, eta = contact.clients, self.settings.step_size
        index = self._index(clients)
        before, v, alpha = self.models[index], self.own[index], self.alpha[index]
        w = self.token.repeat(len(clients), 1)
        batches = self._batches(clients, self.settings.local_steps)
        losses = w.new_zeros(())
        for rows in batches:
            to_w, _ = self._gradient(w, rows)
            g, loss = self._gradient(mixture(v, w, alpha), rows)
            next_alpha = alpha_step(alpha, v, w, g, eta) if self.adaptive else alpha
            v, w, alpha = apfl_step(v, g, alpha, eta), w - eta * to_w, next_alpha
            losses += loss.mean()
        moved = self._replace_token(mean_by_samples(self, clients, w))
        self.own[index] = v
        self.alpha[index] = alpha
        self._store(index, before, mixture(v, w, alpha))
        return Update(float(losses / len(batches)), self.steps, moved)
