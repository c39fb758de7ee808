"""APFL (Deng et al. 2020): each client uses a mixture of its own model and its copy of the global model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Steps, Task, Work
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

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        index, w = self._index(clients), self._copies(self._token_sent(sent), len(clients))
        v, alpha = self.own[index], self.alpha[index]
        return {"x": mixture(v, w, alpha), "v": v, "w": w, "alpha": alpha}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        eta, v, w, alpha = self.settings.step_size, work["v"], work["w"], work["alpha"]
        losses = w.new_zeros(())
        for rows in self._rows(work, steps, steps.first, steps.last):
            to_w, _ = self._gradient(w, rows)
            g, loss = self._gradient(mixture(v, w, alpha), rows)
            next_alpha = alpha_step(alpha, v, w, g, eta) if self.adaptive else alpha
            v, w, alpha = apfl_step(v, g, alpha, eta), w - eta * to_w, next_alpha
            losses += loss.mean()
        trained = {"x": mixture(v, w, alpha), "v": v, "w": w, "alpha": alpha}
        return trained, losses / (steps.last - steps.first)

    def combine(self, contact: Contact, work: Work) -> float:
        index = self._index(contact.clients)
        moved = self._replace_token(mean_by_samples(self, contact.clients, work["w"]))
        self.own[index] = work["v"]
        self.alpha[index] = work["alpha"]
        self._keep(contact.clients, work["x"])
        return moved
