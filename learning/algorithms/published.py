"""RWSADMM as published (Parsons et al. 2023): `derived` from the paper's subproblems, `printed` to the letter.

`printed` does not learn: from its zero start it never moves, from others it diverges. It is included to show that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Constraint, Contact, IntArray, Parcel, Steps, Task, Work
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
    """Common part of both variants: one step per visit, duals z, a κ that decays per update, and the paper's L_β."""

    state_copies = 2
    usual_beta: float = 10.0
    duals: Tensor
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

    @property
    def kappa(self) -> float:
        return self._kappa

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        index, y = self._index(clients), self._token_sent(sent)
        return {"x": self.models[index], "before": self.models[index], "z": self.duals[index], "y": y}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        g, loss = self._gradient(work["before"], self._rows(work, steps, 0, 1)[0])
        return {**work, "x": self.model_step(work, g)}, loss.mean()

    def model_step(self, work: Work, g: Tensor) -> Tensor:
        """Return the models x [S,d] after a step along gradients g [S,d] at the models before."""
        raise NotImplementedError

    def constraint(self, progress: float) -> Constraint:
        """L_β adds (1/n) Σ <z, |y − x| − eps> + (β/2)| |y − x| − eps |²."""
        eps, beta = self._eps, self.beta

        def penalty(rows: slice) -> Tensor:
            excess = (self.token - self.models[rows]).abs() - eps
            return (self.duals[rows] * excess).sum() + beta / 2 * excess.square().sum()

        return measure(self.models, self.tokens, self.duals, eps, penalty)

    def _decay(self) -> float:
        """Return κ for this update, and decay it for the next."""
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

    def model_step(self, work: Work, g: Tensor) -> Tensor:
        return derived_x(work["y"], work["z"], g, self.beta, self._eps)

    def combine(self, contact: Contact, work: Work) -> float:
        clients, beta, eps, kappa = contact.clients, self.beta, self._eps, self._decay()
        index, x, y = self._index(clients), work["x"], work["y"]
        z = derived_z(x, y, work["z"], beta, kappa, eps)
        c = derived_c(x, y, z, beta, eps)
        if self.token_pace is None:
            step = (c - self.contributions[index]).sum(dim=0) / self._divisor(self.data.clients, len(clients))
        else:
            step = self.token_pace * (c.mean(dim=0) - self.token)
        self.token = self.token + step
        self.duals[index] = z
        self.contributions[index] = c
        self._keep(clients, x)
        return float(step.norm())


class Printed(_Published):
    """The paper's equations and its zero start: y = y' + (1/(n_i·|S|)) Σ [new bracket] − Σ [old bracket]."""

    def __init__(
        self, task: Task, beta: float | None, kappa: float, kappa_decay: float | None, eps: float | tuple[float, ...]
    ) -> None:
        super().__init__(replace(task, start=torch.zeros_like(task.start)), beta, kappa, kappa_decay, eps)

    def model_step(self, work: Work, g: Tensor) -> Tensor:
        return printed_x(work["before"], work["y"], work["z"], g, self.beta, self._eps)

    def combine(self, contact: Contact, work: Work) -> float:
        clients, beta, eps, kappa = contact.clients, self.beta, self._eps, self._decay()
        x, y, z_before = work["x"], work["y"], work["z"]
        z = printed_z(x, y, z_before, beta, kappa, eps)
        new = printed_bracket(x, y, z, beta, eps).sum(dim=0)
        old = printed_bracket(work["before"], y, z_before, beta, eps).sum(dim=0)
        step = new / (contact.neighbourhood * len(clients)) - old
        self.token = self.token + step
        self.duals[self._index(clients)] = z
        self._keep(clients, x)
        return float(step.norm())
