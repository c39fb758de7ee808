"""RWSADMM as published (Parsons et al. 2023): `derived` from the paper's subproblems, `printed` to the letter.

`printed` does not learn: from its zero start it never moves, from others it diverges. It is included to show that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Constraint, Contact, Task, Update
from fedmule.learning.algorithms.constraint import measure
from fedmule.learning.algorithms.rwsadmm import Merge
from fedmule.learning.steps import widths

DECAY = 0.99  # of κ per visit, unless the scenario sets another


def derived_x(y: Tensor, z: Tensor, g: Tensor, beta: float, eps: float | Tensor) -> Tensor:
    """x = y' − sgn(g)·max(0, eps + (|g| − z')/β); where g = 0 both signs tie and x = y'."""
    return y - g.sign() * (eps + (g.abs() - z) / beta).clamp(min=0)


def derived_z(x: Tensor, y: Tensor, z: Tensor, beta: float, kappa: float, eps: float | Tensor) -> Tensor:
    """z = max(0, z' + κβ(|y' − x| − eps))."""
    return (z + kappa * beta * ((y - x).abs() - eps)).clamp(min=0)


def derived_c(x: Tensor, y: Tensor, z: Tensor, beta: float, eps: float | Tensor) -> Tensor:
    """c = x − (z/β − eps)·sgn(y' − x)."""
    return x - (z / beta - eps) * (y - x).sign()


def printed_x(x: Tensor, y: Tensor, z: Tensor, g: Tensor, beta: float, eps: float | Tensor) -> Tensor:
    """x = y' + (1/β)·sgn(y' − x')·(z' − eps − g)."""
    return y + (y - x).sign() * (z - eps - g) / beta


def printed_z(x: Tensor, y: Tensor, z: Tensor, beta: float, kappa: float, eps: float | Tensor) -> Tensor:
    """z = z' + κβ(x − y' − eps)."""
    return z + kappa * beta * (x - y - eps)


def printed_bracket(x: Tensor, y: Tensor, z: Tensor, beta: float, eps: float | Tensor) -> Tensor:
    """x − (z/β + eps)·sgn(y' − x)."""
    return x - (z / beta + eps) * (y - x).sign()


class _Published(Algorithm):
    """Common part of both variants: one step per visit, duals z, a decaying κ, and the paper's L_β."""

    state_copies = 2
    usual_beta = 10.0
    beta: float

    def __init__(
        self, task: Task, beta: float | None, kappa: float, kappa_decay: float | None, eps: float | tuple[float, ...]
    ) -> None:
        super().__init__(task)
        self.beta = self.usual_beta if beta is None else beta
        self.kappa_decay = DECAY if kappa_decay is None else kappa_decay
        self.duals = torch.zeros_like(self.models)  # z [n,d]
        self._kappa = kappa
        self._eps = widths(task.model, eps, task.start)

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return 1

    def constraint(self, progress: float) -> Constraint:
        """L_β adds (1/n) Σ <z, |y − x| − eps> + (β/2)| |y − x| − eps |²."""
        eps, beta = self._eps, self.beta

        def penalty(rows: slice) -> Tensor:
            excess = (self.token - self.models[rows]).abs() - eps
            return (self.duals[rows] * excess).sum() + beta / 2 * excess.square().sum()

        return measure(self.models, self.tokens, self.duals, eps, penalty)

    def _decay(self) -> float:
        """Return κ for this visit, and decay it for the next."""
        kappa = self._kappa
        self._kappa *= self.kappa_decay
        return kappa


class Derived(_Published):
    """Exact minimisers of the paper's subproblems; the token is the mean of all clients' contributions."""

    state_copies = 3

    def __init__(
        self,
        task: Task,
        beta: float | None,
        kappa: float,
        kappa_decay: float | None,
        eps: float | tuple[float, ...],
        token_pace: float | None,
        merge: Merge,
    ) -> None:
        super().__init__(task, beta, kappa, kappa_decay, eps)
        self.token_pace = token_pace
        self.adds_up = token_pace is None and merge == "add_up"
        self.contributions = self.models.clone()  # c [n,d]

    def update(self, contact: Contact) -> Update:
        clients, beta, eps, kappa = contact.clients, self.beta, self._eps, self._decay()
        index = self._index(clients)
        before = self.models[index]
        g, loss = self._gradient(before, self._batches(clients)[0])
        x = derived_x(self.token, self.duals[index], g, beta, eps)
        z = derived_z(x, self.token, self.duals[index], beta, kappa, eps)
        c = derived_c(x, self.token, z, beta, eps)
        if self.token_pace is None:
            step = (c - self.contributions[index]).sum(dim=0) / self._divisor(self.data.clients, len(clients))
        else:
            step = self.token_pace * (c.mean(dim=0) - self.token)
        self.token = self.token + step
        self.duals[index] = z
        self.contributions[index] = c
        self._store(index, before, x)
        return Update(float(loss.mean()), self.steps, float(step.norm()), kappa)


class Printed(_Published):
    """The paper's equations and its zero start: y = y' + (1/(n_i·|S|)) Σ [new bracket] − Σ [old bracket]."""

    def __init__(
        self, task: Task, beta: float | None, kappa: float, kappa_decay: float | None, eps: float | tuple[float, ...]
    ) -> None:
        super().__init__(replace(task, start=torch.zeros_like(task.start)), beta, kappa, kappa_decay, eps)

    def update(self, contact: Contact) -> Update:
        clients, beta, eps, kappa = contact.clients, self.beta, self._eps, self._decay()
        index = self._index(clients)
        before, z_before = self.models[index], self.duals[index]
        g, loss = self._gradient(before, self._batches(clients)[0])
        x = printed_x(before, self.token, z_before, g, beta, eps)
        z = printed_z(x, self.token, z_before, beta, kappa, eps)
        new = printed_bracket(x, self.token, z, beta, eps).sum(dim=0)
        old = printed_bracket(before, self.token, z_before, beta, eps).sum(dim=0)
        step = new / (contact.neighbourhood * len(clients)) - old
        self.token = self.token + step
        self.duals[index] = z
        self._store(index, before, x)
        return Update(float(loss.mean()), self.steps, float(step.norm()), kappa)
