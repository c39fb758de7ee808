"""Walkman (Mao et al. 2018): consensus ADMM along a random walk."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Task, Update


def walkman_step(y: Tensor, lam: Tensor, g: Tensor, beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """x = y − lam/β − g/β;  lam += β(x − y);  c = x + lam/β. Shapes [S,d], y [d]."""
    x = y - lam / beta - g / beta
    lam = lam + beta * (x - y)
    return x, lam, x + lam / beta


class Walkman(Algorithm):
    """One linearised step per visit; the token is the mean of all clients' last contributions."""

    state_copies = 3
    beta: float

    def __init__(self, task: Task, beta: float, merge: Literal["add_up", "average"]) -> None:
        super().__init__(task)
        self.beta = beta
        self.adds_up = merge == "add_up"
        self.duals = torch.zeros_like(self.models)  # lam [n,d]
        self.contributions = self.models.clone()  # c [n,d]; their mean is the token from the start

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return 1

    def update(self, contact: Contact) -> Update:
        clients = contact.clients
        index = self._index(clients)
        before = self.models[index]
        g, loss = self._gradient(before, self._batches(clients)[0])
        x, lam, c = walkman_step(self.token, self.duals[index], g, self.beta)
        step = (c - self.contributions[index]).sum(dim=0) / self._divisor(self.data.clients, len(clients))
        self.token = self.token + step
        self.duals[index] = lam
        self.contributions[index] = c
        self._store(index, before, x)
        return Update(float(loss.mean()), self.steps, float(step.norm()))
