"""RWSADMM, variant `slack`: ADMM along a random walk for models within a tube |x − y| ≤ eps of the token."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from learning.algorithm import Constraint, Contact, Draw, IntArray, Model, Pull, Settings, Update, clip, descend, widths
from learning.constraint import measure
from learning.data import ClientData
from learning.opening import Opening


def project(x: Tensor, y: Tensor, eps: float | Tensor) -> Tensor:
    """x ← y + clip(x − y, ±eps): the nearest model inside the tube."""
    return torch.minimum(torch.maximum(x, y - eps), y + eps)


def to_the_tube(y: Tensor, lam: Tensor, eta: float, beta: float, eps: float | Tensor) -> Pull:
    """x0 = x − ηg;  q = x0 − y + lam/β;  x = x0 − ηβ/(1+ηβ)·(q − clip(q, ±eps)): plain SGD inside the tube."""
    return Pull(y - lam / beta, eta * beta / (1 + eta * beta), eps)


def no_tube(eps: float | Tensor) -> bool:
    return isinstance(eps, float) and math.isinf(eps)


def contribution(
    x: Tensor, y: Tensor, lam: Tensor, beta: float, kappa: float, eps: float | Tensor
) -> tuple[Tensor, Tensor]:
    """s = clip(x − y + lam/β, ±eps);  lam += κβ(x − y − s);  c = x − s + lam/β."""
    s = clip(x - y + lam / beta, eps)
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
        self._eps = widths(model, settings.eps, start)

    def eps(self, progress: float) -> float | Tensor:
        """The tube's half-width now, of all coordinates or of each [d]."""
        return math.inf if self.opened(progress) else self._eps

    def opened(self, progress: float) -> bool:
        return super().opened(progress) or no_tube(self._eps)

    def update(self, contact: Contact) -> Update:
        clients, eps = contact.clients, self.eps(contact.progress)
        if self.opened(contact.progress):
            return replace(self._train_alone(clients), kappa=self._kappa)
        index = self._index(clients)
        before = self.models[index]
        batches = self._batches(clients)
        eta, beta, kappa = self.settings.step_size, self.settings.beta, self._kappa
        y = self.tokens(clients)
        x = torch.where(self._column(self.seen[clients]), before, y)
        if self.settings.project_on_arrival:
            x = project(x, y, eps)
        lam = self.duals[index]
        x, loss = descend(self, x, batches, to_the_tube(y, lam, eta, beta, eps))
        lam, c = contribution(x, y, lam, beta, kappa, eps)
        moved = self._move_token(clients, index, c)
        self.duals[index] = lam
        self.contributions[index] = c
        self._store(index, before, x)
        self._kappa *= 1.0 if self.settings.kappa_decay is None else self.settings.kappa_decay
        return Update(float(loss), self.steps, moved, kappa)

    def constraint(self, progress: float) -> Constraint:
        """L_β adds (1/n) Σ <lam, r> + (β/2)|r|² with r = x − y − s; r = 0 once the tube is open."""
        eps, beta = self.eps(progress), self.settings.beta
        if no_tube(eps):
            return Constraint(0.0, 0.0, 0.0, float(self.duals.norm()), 0.0)

        def penalty(rows: slice) -> Tensor:
            x, lam = self.models[rows], self.duals[rows]
            s = x + lam / beta - self.contributions[rows]  # from c = x − s + lam/β
            s = torch.where(self._column(self.seen[rows]), s, torch.zeros_like(s))
            r = x - self.tokens(np.arange(rows.start, rows.stop)) - s
            return (lam * r).sum() + beta / 2 * r.square().sum()

        return measure(self.models, self.tokens, self.duals, eps, penalty)

    def _move_token(self, clients: IntArray, index: Tensor, c: Tensor) -> float:
        """y = mean of the last contributions: of clients seen so far, of all n, or (at a pace) of those delivered."""
        first = ~self.seen[clients]
        self.seen[clients] = True
        self.seen_count += int(first.sum())
        if self.settings.token_pace is not None:
            step = self.settings.token_pace * (c.mean(dim=0) - self.token)
        elif self.settings.growing_mean:
            # A client's first c enters the mean: y += (c − y)/m; later ones replace its last: y += (c − c_stored)/m.
            last = torch.where(self._column(first), self.token, self.contributions[index])
            step = (c - last).sum(dim=0) / self.seen_count
        else:
            step = (c - self.contributions[index]).sum(dim=0) / self.data.clients
        self.token = self.token + step
        return float(step.norm())
