"""RWSADMM (Parsons et al. 2023), variant `slack`: random-walk ADMM for models in a tube |x − y| ≤ eps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Constraint, Contact, IntArray, Parcel, Task, Work
from fedmule.learning.algorithms.constraint import measure
from fedmule.learning.algorithms.opening import Opening
from fedmule.learning.steps import Pull, clip, kernels_for, widths


def project(x: Tensor, y: Tensor, eps: float | Tensor) -> Tensor:
    """x ← y + clip(x − y, ±eps): the nearest model inside the tube."""
    return x.clamp(y - eps, y + eps)


def pull_to_tube(anchor: Tensor, eta: float, beta: float, eps: float | Tensor) -> Pull:
    """x0 = x − ηg;  q = x0 − y + lam/β;  x = x0 − ηβ/(1+ηβ)·(q − clip(q, ±eps)), where y − lam/β is the anchor."""
    return Pull(anchor, eta * beta / (1 + eta * beta), eps)


def no_tube(eps: float | Tensor) -> bool:
    """Return whether eps = ∞, so that nothing is constrained."""
    return isinstance(eps, float) and math.isinf(eps)


def contribution(
    x: Tensor, y: Tensor, lam: Tensor, beta: float, kappa: float, eps: float | Tensor
) -> tuple[Tensor, Tensor]:
    """s = clip(x − y + lam/β, ±eps);  lam += κβ(x − y − s);  c = x − s + lam/β.

    With q = x − y + lam/β and the excess e = q − s, x − y − s = e − lam/β: inside the tube c = y exactly.
    """
    q = (x - y).add_(lam, alpha=1 / beta)
    e = q.sub_(clip(q, eps))
    c = torch.add(y, e, alpha=1 + kappa).sub_(lam, alpha=kappa / beta)
    return ((1 - kappa) * lam).add_(e, alpha=kappa * beta), c


Merge = Literal["add_up", "average"]  # how vehicles that meet combine their tokens


class Slack(Opening):
    """ADMM for the constraint |x − y| ≤ eps, with proximal stochastic steps.

    Until `open_at` of the run the tube has half-width `eps`. Then it opens (eps = ∞): each client takes the token
    once more and trains alone from then on, so nothing more is sent.
    """

    state_copies = 3
    usual_beta = 0.3
    beta: float

    def __init__(
        self,
        task: Task,
        beta: float | None,
        kappa: float,
        kappa_decay: float | None,
        eps: float | tuple[float, ...],
        project_on_arrival: bool,
        growing_mean: bool,
        token_pace: float | None,
        merge: Merge,
    ) -> None:
        super().__init__(task)
        self.beta = self.usual_beta if beta is None else beta
        self.kappa_decay = 1.0 if kappa_decay is None else kappa_decay
        self.project_on_arrival = project_on_arrival
        self.growing_mean = growing_mean
        self.token_pace = token_pace
        self.duals = torch.zeros_like(self.models)  # lam [n,d]
        # c [n,d]. With the growing mean only clients seen contribute; otherwise every client starts with the token.
        self.contributions = torch.zeros_like(self.models) if growing_mean else self.models.clone()
        self.adds_up, self.grows = token_pace is None and merge == "add_up", growing_mean
        self.seen = np.zeros(task.data.clients, dtype=bool)
        self.seen_count = 0
        self._kappa = kappa
        self._eps = widths(task.model, eps, task.start)

    def eps(self, progress: float) -> float | Tensor:
        """Return the current half-width of the tube, for all coordinates or for each [d]."""
        return math.inf if self.opened(progress) else self._eps

    def opened(self, progress: float) -> bool:
        return super().opened(progress) or no_tube(self._eps)

    @property
    def kappa(self) -> float:
        return self._kappa

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        y = self._token_sent(sent)
        x, anchor = self._arrive(clients, y, self._eps)
        return {"x": x, "anchor": anchor, "y": y}

    def pull(self, work: Work) -> Pull | None:
        if "anchor" not in work:
            return None
        return pull_to_tube(work["anchor"], self.settings.step_size, self.beta, self._eps)

    def combine_together(self, contact: Contact, work: Work) -> float:
        moved = self._contribute(contact.clients, work["x"], work["y"], self._eps)
        self._kappa *= self.kappa_decay
        return moved

    def constraint(self, progress: float) -> Constraint:
        """L_β adds (1/n) Σ <lam, r> + (β/2)|r|² with r = x − y − s; r = 0 once the tube is open."""
        eps, beta = self.eps(progress), self.beta
        if no_tube(eps):
            return Constraint(0.0, 0.0, 0.0, float(self.duals.norm()), 0.0)

        def penalty(rows: slice) -> Tensor:
            x, lam = self.models[rows], self.duals[rows]
            s = x + lam / beta - self.contributions[rows]  # from c = x − s + lam/β
            s = torch.where(self._column(self.seen[rows]), s, torch.zeros_like(s))
            r = x - self.tokens(np.arange(rows.start, rows.stop)) - s
            return (lam * r).sum() + beta / 2 * r.square().sum()

        return measure(self.models, self.tokens, self.duals, eps, penalty)

    def _arrive(self, clients: IntArray, y: Tensor, eps: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the models [S,d] clients start from (the token y if not seen before) and the anchors of their pull."""
        beta, own = self.beta, self.seen[clients]
        within = eps if self.project_on_arrival else math.inf
        if kernels := kernels_for(y, *self._kept()):
            kept, given = [part.numpy() for part in self._kept()], y.view(-1, y.shape[-1]).numpy()
            x, anchor = map(torch.from_numpy, kernels.arrive(clients, own, kept, given, beta, within))
        else:
            index = self._index(clients)
            x = project(self._own_or_token(self.models[index], own, y), y, within)
            anchor = y - self.duals[index] / beta
        return x, anchor

    def _contribute(self, clients: IntArray, x: Tensor, y: Tensor, eps: float | Tensor) -> float:
        """Store the models x [S,d] and their contributions, and move the token; return how far it moved."""
        beta, kappa = self.beta, self._kappa
        counts, share = self._token_rule(clients)
        if kernels := kernels_for(self.token, x, y, *self._kept()):
            kept, moved_sq = [part.numpy() for part in self._kept()], self.last_step_sq.numpy()
            tokens = y.view(-1, y.shape[-1]).numpy(), self.token.numpy()
            token, moved = kernels.contribute(
                clients, counts, x.numpy(), kept, moved_sq, *tokens, beta, kappa, eps, share
            )
            self.token = torch.from_numpy(token)
            return float(moved)
        index = self._index(clients)
        lam, c = contribution(x, y, self.duals[index], beta, kappa, eps)
        step = share * (c - self._own_or_token(self.contributions[index], counts, self.token)).sum(dim=0)
        self.duals[index], self.contributions[index] = lam, c
        self._keep(clients, x)
        return self._replace_token(self.token + step)

    def _kept(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.models, self.duals, self.contributions

    def _token_rule(self, clients: IntArray) -> tuple[NDArray[np.bool_], float]:
        """y += share · Σ (c − last) over those delivered: return whether `last` is stored (else y is used) and share.

        This keeps y the mean of the last contributions of the clients seen so far or of all n; with `token_pace`, y
        moves that share of the way to the mean of the delivered ones.
        """
        first = ~self.seen[clients]
        self.seen[clients] = True
        self.seen_count += int(first.sum())
        if self.token_pace is not None:
            return np.zeros_like(first), self.token_pace / len(clients)
        if self.growing_mean:
            return ~first, 1 / self._divisor(self.seen_count, len(clients))
        return np.ones_like(first), 1 / self._divisor(self.data.clients, len(clients))
