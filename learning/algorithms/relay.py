"""RWSADMM, variant `relay`: the token is handed on from visit to visit, and duals are control variates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import IntArray, Parcel, Task, Work
from fedmule.learning.algorithms.tube import Tube
from fedmule.learning.steps import clip, kernels_for


def dual_of(x: Tensor, y: Tensor, lam: Tensor, back: Tensor, beta: float, kappa: float, eps: float | Tensor) -> Tensor:
    """s = clip(x − y + (lam − ζλ̄)/β, ±eps);  lam + κβ(x − y − s), where ζλ̄ is what is given back."""
    apart = x - y
    return lam + kappa * beta * (apart - clip(apart + (lam - back) / beta, eps))


def mean_dual(way: Tensor, beta: float, pushes: float, moves: int, seen: int) -> Tensor:
    """λ̄ = (β/m) Σ_k κ_k|S_k| · (y − y⁰)/K: the mean dual of m clients from the way y − y⁰ of the token in K moves.

    With eps = 0 a visit adds κβ(x_i − y) to the dual of each of its clients S and (1/|S|) Σ (x_i − y) to the token, so
    the duals add up to the way. This is exact if κ|S| is the same in all visits.
    """
    return way * (beta * pushes / max(moves * seen, 1))


class Relay(Tube):
    """The token becomes the mean of the delivered models: y ← (1/|S|) Σ x_i.

    A client is pulled to y − (lam_i − ζλ̄)/β. Its dual lam_i takes back what the client always adds to the token. Part
    of that is common to all: λ̄, the mean dual of the clients seen. With ζ = `centre` = 1 it is given back in full, and
    the token is at rest where the clients' gradients sum to zero; with ζ = 0 the duals slow down the token, which helps
    where few samples would be learnt by heart. Everyone knows the model y⁰ that all began with, so a client finds λ̄
    from the token and a number that comes with it. Where the tube has a width nothing is given back.
    """

    state_copies = 2

    def __init__(self, task: Task, centre: float, **tube: Any) -> None:
        super().__init__(task, **tube)
        self.centre = centre  # ζ
        self._origin = task.start.clone()  # y⁰ [d]
        self._pushes, self._moves = 0.0, 0  # Σ κ|S| over the moves of tokens, and how many there were

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        work = super().start_together(clients, sent)
        if self.centre == 0:
            return work
        back = self.centre * self.mean_dual(work["y"])
        return {**work, "back": back, "anchor": work["anchor"] + back / self.beta}

    def mean_dual(self, y: Tensor) -> Tensor:
        """Return λ̄ [d] as a client that is given the token y [d] knows it; 0 where the tube has a width."""
        # Each of W vehicles sees its own token's way only; where they meet, the sum of the ways stays the same.
        way = torch.where(self._closed(), self.vehicles * (y - self._origin), 0.0)
        return mean_dual(way, self.beta, self._pushes, self._moves, self.seen_count)

    def _closed(self) -> Tensor:
        """Return whether the tube has no width, for all coordinates or for each [d]."""
        return torch.as_tensor(self._eps == 0, device=self.device)

    def _settle(self, clients: IntArray, work: Work) -> float:
        """Store models and duals, and hand the token on; return how far it moved."""
        x, y = work["x"], work["y"]
        back = work.get("back", torch.zeros_like(self.token))
        self.seen_count += int((~self.seen[clients]).sum())
        self.seen[clients] = True
        self._pushes, self._moves = self._pushes + self._kappa * len(clients), self._moves + 1
        if kernels := kernels_for(x, y, back, self.models, self.duals):
            kept, moved_sq = [self.models.numpy(), self.duals.numpy()], self.last_step_sq.numpy()
            given = [part.view(-1, part.shape[-1]).numpy() for part in (y, back)]
            kernels.settle(clients, x.numpy(), kept, moved_sq, *given, self.beta, self._kappa, self._eps)
        else:
            index = self._index(clients)
            self.duals[index] = dual_of(x, y, self.duals[index], back, self.beta, self._kappa, self._eps)
            self._keep(clients, x)
        return self._replace_token(x.mean(dim=0))

    def _slack(self, rows: slice, y: Tensor) -> Tensor:
        """Return s = clip(x − y + lam/β, ±eps) for the token as it is now."""
        return clip(self.models[rows] - y + self.duals[rows] / self.beta, self._eps)
