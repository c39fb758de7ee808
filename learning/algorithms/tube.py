"""What the variants of RWSADMM with a tube |x − y| ≤ eps share: duals, proximal steps, a trust region, the opening."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Constraint, Contact, IntArray, Parcel, Task, Work
from fedmule.learning.algorithms.constraint import measure
from fedmule.learning.algorithms.opening import Opening
from fedmule.learning.algorithms.trust import TrustRegion
from fedmule.learning.steps import Pull, kernels_for, widths


def project(x: Tensor, y: Tensor, eps: float | Tensor) -> Tensor:
    """x ← y + clip(x − y, ±eps): the nearest model inside the tube."""
    return x.clamp(y - eps, y + eps)


def anchor_of(y: Tensor, lam: Tensor, origin: Tensor, beta: float, back: float, eps: float | Tensor) -> Tensor:
    """y − (lam − ζλ̄)/β, where ζλ̄/β is the share `back` of the way y − y⁰ that the token has come, 0 unless eps = 0."""
    way = y - origin
    return y - lam / beta + back * (torch.where(eps == 0, way, 0.0) if isinstance(eps, Tensor) else way * (eps == 0))


def pull_to_tube(anchor: Tensor, eta: float, beta: float, eps: float | Tensor) -> Pull:
    """x0 = x − ηg;  q = x0 − y + lam/β;  x = x0 − ηβ/(1+ηβ)·(q − clip(q, ±eps)), where y − lam/β is the anchor."""
    return Pull(anchor, eta * beta / (1 + eta * beta), eps)


def no_tube(eps: float | Tensor) -> bool:
    """Return whether eps = ∞, so that nothing is constrained."""
    return isinstance(eps, float) and math.isinf(eps)


class Tube(Opening):
    """ADMM for the constraint |x − y| ≤ eps, with proximal stochastic steps; subclasses say what becomes of the token.

    Until `open_at` of the run the tube has half-width `eps`. Then it opens (eps = ∞): each client takes the token
    once more and trains alone from then on, so nothing more is sent. Override `_settle`, `_slack` and `state_copies`.
    """

    usual_beta: float = 0.3
    duals: Tensor
    beta: float

    def __init__(
        self,
        task: Task,
        beta: float | None,
        kappa: float,
        kappa_decay: float | None,
        eps: float | tuple[float, ...],
        project_on_arrival: bool,
        trust: float,
        token_mean: float,
        fine_tune_step_size: float | None,
        try_at: float,
    ) -> None:
        super().__init__(task)
        self.try_at = min(try_at, task.settings.open_at)
        self.average_tokens(token_mean)
        self.alone_step_size = fine_tune_step_size
        self.beta = self.usual_beta if beta is None else beta
        self.kappa_decay = 1.0 if kappa_decay is None else kappa_decay
        self.project_on_arrival = project_on_arrival
        self.trust = None if math.isinf(trust) else TrustRegion(trust, task.data.clients, task.start)
        self.duals = torch.zeros_like(self.models)  # lam [n,d]
        self.seen = np.zeros(task.data.clients, dtype=bool)
        self.seen_count = 0
        self._origin = task.start.clone()  # y⁰ [d]
        self._kappa = kappa
        self._eps = widths(task.model, eps, task.start)

    @classmethod
    def asks_for_alone(cls, **keys: Any) -> bool:
        return float(keys.get("try_at", 0.0)) > 0

    def eps(self, progress: float) -> float | Tensor:
        """Return the current half-width of the tube, for all coordinates or for each [d]."""
        return math.inf if self.opened(progress) else self._eps

    def opened(self, progress: float) -> bool:
        return super().opened(progress) or no_tube(self._eps)

    @property
    def kappa(self) -> float:
        return self._kappa

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        """Return what clients start from; until half of `try_at` nothing pulls them to the token they try."""
        work = super().start(clients, sent, progress)
        work["free"] = torch.from_numpy(np.full((len(clients), 1), progress < self.try_at / 2))
        return work

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        y = self._token_sent(sent)
        x, anchor = self._arrive(clients, y, self._eps)
        return {"x": x, "start": x, "anchor": anchor, "y": y}

    def pull(self, work: Work) -> Pull | None:
        if "anchor" not in work or work["free"].numpy()[0, 0]:
            return None
        return pull_to_tube(work["anchor"], self.settings.step_size, self.beta, self._eps)

    def combine_together(self, contact: Contact, work: Work) -> float:
        x = work["x"] if self.trust is None else self.trust.limited(work["x"], work["start"])
        moved = self._settle(contact.clients, {**work, "x": x})
        self._kappa *= self.kappa_decay
        return moved

    def constraint(self, progress: float) -> Constraint:
        """L_β adds (1/n) Σ <lam, r> + (β/2)|r|² with r = x − y − s; r = 0 once the tube is open."""
        eps, beta = self.eps(progress), self.beta
        if no_tube(eps):
            return Constraint(0.0, 0.0, 0.0, float(self.duals.norm()), 0.0)

        def penalty(rows: slice) -> Tensor:
            lam, y = self.duals[rows], self.tokens(np.arange(rows.start, rows.stop))
            r = self.models[rows] - y - self._slack(rows, y)
            return (lam * r).sum() + beta / 2 * r.square().sum()

        return measure(self.models, self.tokens, self.duals, eps, penalty)

    def _settle(self, clients: IntArray, work: Work) -> float:
        """Store models and duals of clients that have trained, and move the token; return how far it moved."""
        raise NotImplementedError

    def _slack(self, rows: slice, y: Tensor) -> Tensor:
        """Return the slacks s of these clients, rows of [n,d], with their tokens y."""
        raise NotImplementedError

    def _given_back(self) -> float:
        """Return the share of the way y − y⁰ by which anchors are moved where eps = 0."""
        return 0.0

    def _arrive(self, clients: IntArray, y: Tensor, eps: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the models [S,d] clients start from (the token y if not seen before) and the anchors of their pull."""
        beta, own, back = self.beta, self.seen[clients], self._given_back()
        within = eps if self.project_on_arrival else math.inf
        if kernels_for(y, self._origin, self.models, self.duals):
            from fedmule.learning.algorithms import tube_kernels  # slow to import

            kept, given = [self.models.numpy(), self.duals.numpy()], y.view(-1, y.shape[-1]).numpy()
            moved = self._origin.numpy(), beta, back, within, eps
            x, anchor = map(torch.from_numpy, tube_kernels.arrive(clients, own, kept, given, *moved))
        else:
            index = self._index(clients)
            x = project(self._own_or_token(self.models[index], own, y), y, within)
            anchor = anchor_of(y, self.duals[index], self._origin, beta, back, eps)
        return x, anchor
