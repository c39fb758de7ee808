"""RWSADMM with a token for each neighbourhood, for data that differ from site to site."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Contact, Exchange, IntArray, Task, Update
from fedmule.learning.algorithms.rwsadmm import Slack
from fedmule.learning.models.protocol import layers

FloatArray = NDArray[np.float64]

DECAY = 0.8  # of the counts of a client's neighbours, per visit to it
FORGET = 1e-3  # counts below this are dropped, so memory does not grow with the run
MIXTURES = np.array([0.0, 0.5, 1.0])  # shares ρ of the neighbourhood that clients try
TRIALS = (1, 3)  # a client tries them after this many visits
HELD_OUT = 0.15  # share of a client's samples not trained on until its last trial


class Neighbours:
    """Decaying counts of how often clients were in range when the vehicle visited each other."""

    def __init__(self, clients: int) -> None:
        self._near: list[dict[int, float]] = [{} for _ in range(clients)]  # N_ij: times j was in range at visits to i
        self._near_to: list[set[int]] = [set() for _ in range(clients)]  # by j: the i with N_ij > 0
        self._visits = np.zeros(clients)  # T_i

    def visit(self, client: int, near: Iterable[int]) -> None:
        """Record a visit to a client, with these others in range."""
        counts = {j: DECAY * n for j, n in self._near[client].items()}
        for j in near:
            if j != client:
                counts[j] = counts.get(j, 0.0) + 1.0
                self._near_to[j].add(client)
        for j in [j for j, n in counts.items() if n < FORGET]:
            del counts[j]
            self._near_to[j].discard(client)
        self._near[client] = counts
        self._visits[client] = DECAY * self._visits[client] + 1.0

    def weights(self, client: int) -> tuple[IntArray, FloatArray]:
        """w_ij = ((N_ij + N_ji)/(T_i + T_j + ½))² for all j with a count, ascending, then w_ii = 1."""
        mine = self._near[client]
        others = sorted(mine.keys() | self._near_to[client])
        counts = np.array([mine.get(j, 0.0) + self._near[j].get(client, 0.0) for j in others])
        index = np.array([*others, client], dtype=np.int64)
        weights = (counts / (self._visits[client] + self._visits[index[:-1]] + 0.5)) ** 2
        return index, np.append(weights, 1.0)


class Neighbourhood(Slack):
    """Slack in which client i has the token y_i = ρ c̄_i + (1 − ρ) y instead of y.

    c̄_i = Σ_j w_ij c_j / Σ_j w_ij is the mean of its neighbours' contributions and its own, y the mean over all clients
    seen. The vehicle keeps every client's last contribution. Tokens differ, so they are sent by unicast.
    """

    def __init__(self, task: Task, rho: float | Literal["cv", "eb"], **slack: Any) -> None:
        super().__init__(task, **slack)
        self._rule = rho
        self.neighbours = Neighbours(task.data.clients)
        self.rho: float | Tensor = 0.0 if isinstance(rho, str) else rho
        self._trials = np.full((task.data.clients, len(MIXTURES)), np.nan)  # error rates at each client's last trial
        self._holding_out = rho == "cv"
        self._spread: dict[int, Tensor] = {}  # each client's last (noise, distance) of c̄_i, per layer
        self._spreads = torch.zeros(2, len(layers(task.model)), dtype=torch.float64, device=self.device)  # their sum

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        """Return the cost: one token per client, or two tokens and the error rates if it tries the mixtures."""
        one = super().exchange(clients, progress)
        if self.opened(progress) or self._rule != "cv":
            return replace(one, broadcast=False)
        trying = np.isin(self.participations[clients], TRIALS)
        forward = self.flops_per_sample() / 3
        return Exchange(
            bytes_down=one.bytes_down * (1 + trying),
            bytes_up=one.bytes_up + 4 * len(MIXTURES) * trying,
            flops=one.flops + trying * len(MIXTURES) * forward * self._held_out(clients),
            broadcast=False,
        )

    def update(self, contact: Contact) -> Update:
        if contact.visited is not None:
            self.neighbours.visit(contact.visited, contact.near.tolist())
        if self.opened(contact.progress):
            self._holding_out = False
        elif self._rule == "cv":
            self._try(contact.clients)
        elif self._rule == "eb":
            self._measure(contact.clients)
        return super().update(contact)

    def introduce(self, client: int, near: IntArray) -> None:
        self.neighbours.visit(client, near.tolist())

    def tokens(self, clients: IntArray) -> Tensor:
        """Return the tokens y_i [S,d] of these clients."""
        return torch.stack([self._mixed(self._mean_near(int(client)), self.token, self.rho) for client in clients])

    def _mixed(self, near: Tensor | None, y: Tensor, rho: float | Tensor) -> Tensor:
        """ρ c̄ + (1 − ρ) y, or y if no neighbour has been seen."""
        return y if near is None else y + rho * (near - y)

    def _mean_near(self, client: int, without: bool = False) -> Tensor | None:
        """Return c̄_i over the clients seen, optionally without client i itself; None if none was seen."""
        index, weights = self._seen_near(client, without)
        if not len(index):
            return None
        return self._weighted(index, weights / weights.sum())

    def _seen_near(self, client: int, without: bool = False) -> tuple[IntArray, FloatArray]:
        index, weights = self.neighbours.weights(client)
        counts = self.seen[index] & ((index != client) | (not without))
        return index[counts], weights[counts]

    def _weighted(self, index: IntArray, share: FloatArray) -> Tensor:
        found: Tensor = self._number(share) @ self.contributions[self._index(index)]
        return found

    def _number(self, values: FloatArray) -> Tensor:
        return torch.from_numpy(values).to(self.token)

    # --- the weight ρ of the neighbourhood ------------------------------------------------------------------

    def _try(self, clients: IntArray) -> None:
        """Let clients try mixtures made without them on held-out samples; choose one ρ for all clients."""
        trying = clients[np.isin(self.participations[clients], TRIALS)]
        for client, held_out in zip(trying.tolist(), self._held_out(trying).tolist(), strict=True):
            near = self._mean_near(client, without=True)
            if near is None or not held_out:
                continue
            y = self._token_without(client)
            end = int(self.data.first[client] + self.data.train_count[client])
            features, labels = self.data.features[end - held_out : end], self.data.labels[end - held_out : end]
            self._trials[client] = [
                float((self.model.scores(y + rho * (near - y), features).argmax(dim=1) != labels).float().mean())
                for rho in MIXTURES.tolist()
            ]
        if len(trying):
            tried = self._trials[~np.isnan(self._trials[:, 0])]
            self.rho = choose_rho(tried) if len(tried) else self.rho

    def _held_out(self, clients: IntArray) -> IntArray:
        """Return how many training samples, the last ones, each client holds out for trials; 0 if it has only one."""
        count = self.data.train_count[clients]
        return np.where(count > 1, np.ceil(HELD_OUT * count), 0).astype(np.int64)

    def _batch_pool(self, clients: IntArray) -> IntArray:
        holding_out = self._holding_out & (self.participations[clients] < TRIALS[-1])
        return super()._batch_pool(clients) - holding_out * self._held_out(clients)

    def _token_without(self, client: int) -> Tensor:
        """Return the mean of the contributions of all other clients seen."""
        count = self.seen_count if self.growing_mean else self.data.clients
        if not self.seen[client] or count == 1:
            return self.token
        return self.token + (self.token - self.contributions[client]) / (count - 1)

    def _measure(self, clients: IntArray) -> None:
        """Empirical Bayes: ρ = 1 − (variance of c̄_i)/|c̄_i − y|², pooled over clients, per layer."""
        sizes = list(layers(self.model).values())
        for client in clients.tolist():
            index, weights = self._seen_near(client)
            if len(index) < 2:
                continue
            share = weights / weights.sum()
            count = 1 / (share**2).sum()  # effective number of contributions
            mean = self._weighted(index, share)
            apart = (self.contributions[self._index(index)] - mean).square()
            noise = self._number(share) @ apart / max(count - 1, 1e-9)
            both = torch.stack([noise, (mean - self.token).square()]).double()
            spread = torch.stack([part.sum(dim=1) for part in torch.split(both, sizes, dim=1)], dim=1)
            self._spreads += spread - self._spread.get(client, 0.0)
            self._spread[client] = spread
        if self._spread:
            noise, distance = self._spreads
            rho = (1 - noise / distance.clamp(min=1e-30)).clamp(0, 1).to(self.token)
            self.rho = torch.cat([r.expand(size) for r, size in zip(rho, sizes, strict=True)])


def choose_rho(errors: FloatArray) -> float:
    """Choose the largest share within one standard error of the best, from errors [m,3] of MIXTURES.

    A larger share lets neighbourhoods diverge, which makes each of them worth more later. Trials see the contributions
    only as they are now, so they underestimate large shares.
    """
    best = int(np.argmin(errors.mean(axis=0)))
    if len(errors) == 1:
        return float(MIXTURES[best])
    worse = errors - errors[:, best : best + 1]
    allowed = worse.std(axis=0, ddof=1) / math.sqrt(len(errors))
    return float(MIXTURES[np.flatnonzero(worse.mean(axis=0) <= allowed)[-1]])
