"""RWSADMM, variant `slack`: ADMM along a random walk for models within a tube |x − y| ≤ eps of the token."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from learning.algorithm import Constraint, Contact, Draw, IntArray, Model, Settings, Update
from learning.constraint import measure
from learning.data import ClientData
from learning.opening import Opening


def project(x: Tensor, y: Tensor, eps: float) -> Tensor:
    """x ← y + clip(x − y, ±eps): the nearest model inside the tube."""
    return torch.minimum(torch.maximum(x, y - eps), y + eps)


def proximal_step(x: Tensor, y: Tensor, lam: Tensor, g: Tensor, eta: float, beta: float, eps: float) -> Tensor:
    """x0 = x − ηg;  q = x0 − y + lam/β;  x = x0 − ηβ/(1+ηβ)·(q − clip(q, ±eps)): plain SGD inside the tube."""
    x0 = x - eta * g
    q = x0 - y + lam / beta
    return x0 - eta * beta / (1 + eta * beta) * (q - q.clamp(-eps, eps))


def contribution(x: Tensor, y: Tensor, lam: Tensor, beta: float, kappa: float, eps: float) -> tuple[Tensor, Tensor]:
    """s = clip(x − y + lam/β, ±eps);  lam += κβ(x − y − s);  c = x − s + lam/β."""
    s = (x - y + lam / beta).clamp(-eps, eps)
    lam = lam + kappa * beta * (x - y - s)
    return lam, x - s + lam / beta


class Slack(Opening):
    """ADMM for the set |x − y| ≤ eps, with proximal stochastic steps.

    Until `open_at` of the run the tube has half-width `eps`. Then it opens (eps = ∞): a client takes the token
    once more and from then on trains on its own, so that nothing more needs to be sent.
    """

    state_copies = 3

    def __init__(self, data: ClientData, model: Model, settings: Settings, start: Tensor, draw: Draw) -> None:
        super().__init__(data, model, settings, start, draw)
        self.duals = torch.zeros_like(self.models)  # lam [n,d]
        # c [n,d]. With the growing mean it counts for clients seen only; else everyone begins with the token.
        self.contributions = torch.zeros_like(self.models) if settings.growing_mean else self.models.clone()
        self.seen = np.zeros(data.clients, dtype=bool)
        self.seen_count = 0
        self._kappa = settings.kappa

    def eps(self, progress: float) -> float:
        """The tube's half-width now."""
        return math.inf if super().opened(progress) else self.settings.eps

    def opened(self, progress: float) -> bool:
        return math.isinf(self.eps(progress))

    def update(self, contact: Contact) -> Update:
        clients, eps = contact.clients, self.eps(contact.progress)
        if self.opened(contact.progress):
            return replace(self._train_alone(clients), kappa=self._kappa)
        index = self._index(clients)
        before = self.models[index]
        batches = self._batches(clients)
        eta, beta, kappa = self.settings.step_size, self.settings.beta, self._kappa
        x = torch.where(self._column(self.seen[clients]), before, self.token)
        if self.settings.project_on_arrival:
            x = project(x, self.token, eps)
        lam = self.duals[index]
        losses = x.new_zeros(())
        for rows in batches:
            g, loss = self._gradient(x, rows)
            x = proximal_step(x, self.token, lam, g, eta, beta, eps)
            losses += loss.mean()
        lam, c = contribution(x, self.token, lam, beta, kappa, eps)
        moved = self._move_token(clients, index, c)
        self.duals[index] = lam
        self.contributions[index] = c
        self._store(index, before, x)
        self._kappa *= 1.0 if self.settings.kappa_decay is None else self.settings.kappa_decay
        return Update(float(losses / len(batches)), self.steps, moved, kappa)

    def constraint(self, progress: float) -> Constraint:
        """L_β adds (1/n) Σ <lam, r> + (β/2)|r|² with r = x − y − s; r = 0 once the tube is open."""
        eps, beta = self.eps(progress), self.settings.beta
        if math.isinf(eps):
            return Constraint(0.0, 0.0, 0.0, float(self.duals.norm()), 0.0)

        def penalty(rows: slice) -> Tensor:
            x, lam = self.models[rows], self.duals[rows]
            s = x + lam / beta - self.contributions[rows]  # from c = x − s + lam/β
            s = torch.where(self._column(self.seen[rows]), s, torch.zeros_like(s))
            r = x - self.token - s
            return (lam * r).sum() + beta / 2 * r.square().sum()

        return measure(self.models, self.token, self.duals, eps, penalty)

    def _move_token(self, clients: IntArray, index: Tensor, c: Tensor) -> float:
        """y = mean of the last contributions: of the clients seen so far, or plainly of all n."""
        first = ~self.seen[clients]
        self.seen[clients] = True
        self.seen_count += int(first.sum())
        if self.settings.growing_mean:
            # A client's first c enters the mean: y += (c − y)/m; later ones replace its last: y += (c − c_stored)/m.
            last = torch.where(self._column(first), self.token, self.contributions[index])
            step = (c - last).sum(dim=0) / self.seen_count
        else:
            step = (c - self.contributions[index]).sum(dim=0) / self.data.clients
        self.token = self.token + step
        return float(step.norm())
