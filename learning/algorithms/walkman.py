"""Walkman (Mao et al. 2018): consensus ADMM along a random walk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Steps, Task, Work


def walkman_step(y: Tensor, lam: Tensor, g: Tensor, beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """x = y − lam/β − g/β;  lam += β(x − y);  c = x + lam/β. Shapes [S,d], y [d] or [S,d]."""
    x = y - lam / beta - g / beta
    lam = lam + beta * (x - y)
    return x, lam, x + lam / beta


class Walkman(Algorithm):
    """One linearised step per visit; the token is the mean of all clients' last contributions."""

    state_copies = 3
    beta: float
    duals: Tensor

    def __init__(self, task: Task, beta: float, merge: Literal["add_up", "average"]) -> None:
        super().__init__(task)
        self.beta = beta
        self.adds_up = merge == "add_up"
        self.duals = torch.zeros_like(self.models)  # lam [n,d]
        self.contributions = self.models.clone()  # c [n,d]; their mean is the token from the start

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return 1

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        index = self._index(clients)
        return {"x": self.models[index], "lam": self.duals[index], "y": self._token_sent(sent)}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        g, loss = self._gradient(work["x"], self._rows(work, steps, 0, 1)[0])
        x, lam, c = walkman_step(work["y"], work["lam"], g, self.beta)
        return {"x": x, "lam": lam, "c": c}, loss.mean()

    def combine(self, contact: Contact, work: Work) -> float:
        index, c = self._index(contact.clients), work["c"]
        step = (c - self.contributions[index]).sum(dim=0) / self._divisor(self.data.clients, len(c))
        self.token = self.token + step
        self.duals[index] = work["lam"]
        self.contributions[index] = c
        self._keep(contact.clients, work["x"])
        return float(step.norm())
