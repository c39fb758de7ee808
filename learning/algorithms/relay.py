"""RWSADMM, variant `relay`: the token is handed on from visit to visit, and duals are control variates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Exchange, IntArray, Parcel, Task, Work
from fedmule.learning.algorithms.tube import Tube
from fedmule.learning.steps import clip, kernels_for


def dual_of(x: Tensor, y: Tensor, lam: Tensor, back: Tensor, beta: float, kappa: float, eps: float | Tensor) -> Tensor:
    """s = clip(x − y + (lam − ζλ̄)/β, ±eps);  lam + κβ(x − y − s), where ζλ̄ is what is given back."""
    apart = x - y
    return lam + kappa * beta * (apart - clip(apart + (lam - back) / beta, eps))


def mean_dual(mean: Tensor, before: int, change: Tensor, after: int) -> Tensor:
    """λ̄ ← (m λ̄ + Σ (lam − lam'))/m', the mean over the m' clients seen; it was that of m of them."""
    return (before * mean + change) / max(after, 1)


class Relay(Tube):
    """The token becomes the mean of the delivered models: y ← (1/|S|) Σ x_i.

    A client is pulled to y − (lam_i − ζλ̄)/β. Its dual lam_i takes back what the client always adds to the token. Part
    of that is common to all: λ̄, the mean dual of the clients seen. With ζ = `centre` = 1 it is given back in full, and
    the token is at rest where the clients' gradients sum to zero; with ζ = 0 the duals slow down the token, which helps
    where few samples would be learnt by heart.
    """

    state_copies = 2
    carried = ("token", "mean_dual")

    def __init__(self, task: Task, centre: float, **tube: Any) -> None:
        super().__init__(task, **tube)
        self.centre = centre  # ζ
        self.mean_dual = torch.zeros_like(self.token)  # λ̄ [d]

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        """Return the cost: λ̄ comes with the token; in a wide tube the vehicle cannot tell a dual from x and y."""
        one = super().exchange(clients, progress)
        if self.opened(progress) or self.centre == 0:
            return one
        narrow = isinstance(self._eps, float) and self._eps == 0
        return replace(one, bytes_down=2 * one.bytes_down, bytes_up=one.bytes_up * (1 if narrow else 2))

    def meeting(self, progress: float) -> Exchange:
        """Return the cost of a meeting: λ̄ goes along if clients are given it back."""
        one = super().meeting(progress)
        more = 0 if self.opened(progress) or self.centre == 0 else self.model_bytes
        return replace(one, bytes_down=one.bytes_down + more, bytes_up=one.bytes_up + more)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        parcels = super().send(clients, progress, visited, near)
        if self.opened(progress) or self.centre == 0:
            return parcels
        back = self.centre * self.mean_dual
        return [{**parcel, "back": back} for parcel in parcels]

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        work = super().start_together(clients, sent)
        if "back" not in sent[0]:
            return work
        back = self._together([parcel["back"] for parcel in sent])
        return {**work, "back": back, "anchor": work["anchor"] + back / self.beta}

    def _settle(self, clients: IntArray, work: Work) -> float:
        """Store models and duals, and hand the token on; return how far it moved."""
        x, y = work["x"], work["y"]
        back = work.get("back", torch.zeros_like(self.token))
        seen = self.seen_count
        self.seen_count += int((~self.seen[clients]).sum())
        self.seen[clients] = True
        if kernels := kernels_for(x, y, back, self.models, self.duals):
            kept, moved_sq = [self.models.numpy(), self.duals.numpy()], self.last_step_sq.numpy()
            given = [part.view(-1, part.shape[-1]).numpy() for part in (y, back)]
            change = torch.from_numpy(
                kernels.settle(clients, x.numpy(), kept, moved_sq, *given, self.beta, self._kappa, self._eps)
            )
        else:
            index = self._index(clients)
            before = self.duals[index]
            lam = dual_of(x, y, before, back, self.beta, self._kappa, self._eps)
            change = (lam - before).sum(dim=0)
            self.duals[index] = lam
            self._keep(clients, x)
        self.mean_dual = mean_dual(self.mean_dual, seen, change, self.seen_count)
        return self._replace_token(x.mean(dim=0))

    def _slack(self, rows: slice, y: Tensor) -> Tensor:
        """Return s = clip(x − y + lam/β, ±eps) for the token as it is now."""
        return clip(self.models[rows] - y + self.duals[rows] / self.beta, self._eps)
