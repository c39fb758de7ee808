"""RWSADMM (Parsons et al. 2023), variant `slack`: random-walk ADMM whose token is the mean of all contributions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import IntArray, Task, Work
from fedmule.learning.algorithms.tube import Tube
from fedmule.learning.steps import clip, kernels_for


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


class Slack(Tube):
    """The token is the mean of the clients' last contributions c, or moves towards those of each visit."""

    state_copies = 3

    def __init__(self, task: Task, growing_mean: bool, token_pace: float | None, merge: Merge, **tube: Any) -> None:
        super().__init__(task, **tube)
        self.growing_mean = growing_mean
        self.token_pace = token_pace
        # c [n,d]. With the growing mean only clients seen contribute; otherwise every client starts with the token.
        self.contributions = torch.zeros_like(self.models) if growing_mean else self.models.clone()
        self.adds_up, self.grows = token_pace is None and merge == "add_up", growing_mean

    def _settle(self, clients: IntArray, work: Work) -> float:
        """Store the models x [S,d] and their contributions, and move the token; return how far it moved."""
        beta, kappa, eps, x, y = self.beta, self._kappa, self._eps, work["x"], work["y"]
        counts, share = self._token_rule(clients)
        if kernels_for(self.token, x, y, *self._kept()):
            from fedmule.learning.algorithms import tube_kernels  # slow to import

            kept, moved_sq = [part.numpy() for part in self._kept()], self.last_step_sq.numpy()
            tokens = y.view(-1, y.shape[-1]).numpy(), self.token.numpy()
            token, moved = tube_kernels.contribute(
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

    def _slack(self, rows: slice, y: Tensor) -> Tensor:
        """Return s as last computed, from c = x − s + lam/β; 0 for clients not seen."""
        s = self.models[rows] + self.duals[rows] / self.beta - self.contributions[rows]
        return torch.where(self._column(self.seen[rows]), s, torch.zeros_like(s))

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
