"""Per-FedAvg (Fallah et al. 2020): a token that one gradient step turns into a good personal model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Steps, Task, Work

Gradient = Callable[[Tensor], Tensor]  # g(x) [S,d] at x [S,d]
Variant = Literal["first_order", "hessian_free"]


def adapted(w: Tensor, g: Tensor, alpha: float) -> Tensor:
    """x = w − αg(w)."""
    return w - alpha * g


def first_order_step(w: Tensor, g_adapted: Tensor, eta: float) -> Tensor:
    """w ← w − ηg(x) with x = w − αg(w): the Hessian is ignored."""
    return w - eta * g_adapted


def hessian_free_step(w: Tensor, g_adapted: Tensor, g: Gradient, eta: float, alpha: float, delta: float) -> Tensor:
    """w ← w − η(p − α(g(w + δp) − g(w − δp))/2δ) with p = g(x): the quotient replaces the Hessian times p."""
    product = (g(w + delta * g_adapted) - g(w - delta * g_adapted)) / (2 * delta)
    return w - eta * (g_adapted - alpha * product)


class PerFedAvg(Algorithm):
    """Gradient steps on the loss after adaptation, with independent batches; the token is the delivered models' mean.

    The personal model is the client's w after one more adaptation on another batch. Gradients per visit: 2 per local
    step (`first_order`) or 4 (`hessian_free`), plus 1. One model down and one up.
    """

    def __init__(self, task: Task, variant: Variant, adapt_step_size: float, delta: float) -> None:
        super().__init__(task)
        self.variant = variant
        self.adapt_step_size = adapt_step_size  # α
        self.delta = delta  # δ

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return (4 if keys["variant"] == "hessian_free" else 2) * local_steps + 1

    def gradients(self, local_steps: int) -> int:
        return self.gradients_per_visit(local_steps, variant=self.variant)

    @property
    def hessian_free(self) -> bool:
        """Whether the variant approximates the Hessian by a difference quotient."""
        return self.variant == "hessian_free"

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        w = self._copies(self._token_sent(sent), len(clients))
        return {"x": w, "w": w}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        alpha, count, w = self.adapt_step_size, steps.last - steps.first, work["w"]
        per_step = 3 if self.hessian_free else 2
        batches = self._rows(work, steps, per_step * steps.first, per_step * steps.last + 1)
        losses = w.new_zeros(())
        for rows in torch.unflatten(batches[:-1], 0, (count, per_step)):  # D, D' and, for hessian_free, D''
            g, _ = self._gradient(w, rows[0])
            g_adapted, loss = self._gradient(adapted(w, g, alpha), rows[1])
            w = self._step(w, g_adapted, rows[-1])
            losses += loss.mean()
        g, _ = self._gradient(w, batches[-1])
        return {"x": adapted(w, g, alpha), "w": w}, losses / count

    def combine(self, contact: Contact, work: Work) -> float:
        moved = self._replace_token(work["w"].mean(dim=0))
        self._keep(contact.clients, work["x"])
        return moved

    def _step(self, w: Tensor, g_adapted: Tensor, rows: Tensor) -> Tensor:
        eta = self.settings.step_size
        if not self.hessian_free:
            return first_order_step(w, g_adapted, eta)

        def gradient(x: Tensor) -> Tensor:
            return self._gradient(x, rows)[0]

        return hessian_free_step(w, g_adapted, gradient, eta, self.adapt_step_size, self.delta)
