"""RWSADMM, variant `relay`: the token is handed on from visit to visit, and duals are control variates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import IntArray, Parcel, Task, Work
from fedmule.learning.algorithms.tube import Tube
from fedmule.learning.steps import clip, kernels_for

CROWD = 0.75


def dual_of(x: Tensor, y: Tensor, lam: Tensor, back: Tensor, beta: float, kappa: float, eps: float | Tensor) -> Tensor:
    """s = clip(x − y + (lam − ζλ̄)/β, ±eps);  lam + κβ(x − y − s), where ζλ̄ is what is given back."""
    apart = x - y
    return lam + kappa * beta * (apart - clip(apart + (lam - back) / beta, eps))


def weights(count: int, since: Tensor) -> Tensor:
    """w_i = (|S| + k_i)^−¾ for each of |S| results [S,1], between whose sending and arrival k_i others have arrived.

    A result that is alone counts in full. Of several that are under way at the same time each teaches part of what the
    others teach: their mean (−1) would waste the rest, their sum (0) would overshoot.
    """
    return (count + since.clamp(min=0)) ** -CROWD


def mean_dual(way: Tensor, beta: float, pushes: float, weight: Tensor, seen: int) -> Tensor:
    """λ̄ = (β/m) (Σ κ/Σ w)·(y − y⁰), sums over all results: the mean dual of m clients from the way y − y⁰ [d].

    With eps = 0 a result adds κβ(x − y) to its client's dual and w(x − y) to the token, so duals add up to the way.
    This is exact if κ/w is the same for all results.
    """
    return way * (beta * pushes / max(seen, 1) / weight.clamp(min=1))


class Relay(Tube):
    """The token moves by what each client has changed: y ← y + Σ w_i (x_i − y_i), where y_i is what it was given.

    Where one client at a time takes part the token becomes its model, y ← x_i.

    A client is pulled to y − (lam_i − ζλ̄)/β. Its dual lam_i takes back what the client always adds to the token. Part
    of that is common to all: λ̄, the mean dual of the clients seen. With ζ = `centre` = 1 it is given back in full, and
    the token is at rest where the clients' gradients sum to zero; with ζ = 0 the duals slow down the token, which helps
    where few samples would be learnt by heart. Everyone knows the model y⁰ that all began with, so a client finds λ̄
    from the token and a number that comes with it. Where the tube has a width nothing is given back.
    """

    state_copies = 2
    carried = ("token", "arrived")

    def __init__(self, task: Task, centre: float, **tube: Any) -> None:
        super().__init__(task, **tube)
        self.centre = centre  # ζ
        self._origin = task.start.clone()  # y⁰ [d]
        eps = self._eps
        self._closes = isinstance(eps, Tensor) or eps == 0  # whether the tube has no width, somewhere at least
        self._closed = (eps == 0).to(task.start) if isinstance(eps, Tensor) else None  # [d] 1 where it has none
        self.arrived = self.token.new_zeros(1)  # results that the vehicle has been given so far
        self._pushes, self._weight = 0.0, self.token.new_zeros(1)  # Σ κ and Σ w over all results

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        parcels, arrived = super().send(clients, progress, visited, near), self.arrived.clone()
        return [{**parcel, "arrived": arrived} for parcel in parcels]

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        work = super().start_together(clients, sent)
        work["arrived"] = torch.stack([parcel["arrived"] for parcel in sent])  # [S,1] when they were sent off
        if self.centre == 0 or not self._closes:
            return work
        back = self.mean_dual(work["y"]).mul_(self.centre)
        return {**work, "back": back, "anchor": work["anchor"].add_(back, alpha=1 / self.beta)}

    def mean_dual(self, y: Tensor) -> Tensor:
        """Return λ̄ [d] as a client that is given the token y [d] knows it; 0 where the tube has a width."""
        if not self._closes:
            return torch.zeros_like(y)
        # Each of W vehicles sees its own token's way only; where they meet, the sum of the ways stays the same.
        way = y - self._origin
        if isinstance(self._closed, Tensor):
            way *= self._closed
        return mean_dual(way, self.beta, self.vehicles * self._pushes, self._weight, self.seen_count)

    def _settle(self, clients: IntArray, work: Work) -> float:
        """Store models and duals, and hand the token on; return how far it moved."""
        x, y = work["x"], work["y"]
        back = work.get("back", torch.zeros_like(self.token))
        self.seen_count += int((~self.seen[clients]).sum())
        self.seen[clients] = True
        w = weights(len(clients), self.arrived - work["arrived"])
        token = torch.addmv(self.token, (x - y).T, w.flatten())
        self.arrived = self.arrived + len(clients)
        self._pushes, self._weight = self._pushes + self._kappa * len(clients), self._weight + w.sum()
        if kernels := kernels_for(x, y, back, self.models, self.duals):
            kept, moved_sq = [self.models.numpy(), self.duals.numpy()], self.last_step_sq.numpy()
            given = [part.view(-1, part.shape[-1]).numpy() for part in (y, back)]
            kernels.settle(clients, x.numpy(), kept, moved_sq, *given, self.beta, self._kappa, self._eps)
        else:
            index = self._index(clients)
            self.duals[index] = dual_of(x, y, self.duals[index], back, self.beta, self._kappa, self._eps)
            self._keep(clients, x)
        return self._replace_token(token)

    def _slack(self, rows: slice, y: Tensor) -> Tensor:
        """Return s = clip(x − y + lam/β, ±eps) for the token as it is now."""
        return clip(self.models[rows] - y + self.duals[rows] / self.beta, self._eps)
