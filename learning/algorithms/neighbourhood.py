"""RWSADMM with a token for each neighbourhood, for data that differ from site to site."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Contact, Exchange, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.algorithms.rwsadmm import Slack
from fedmule.learning.models.protocol import layers
from fedmule.learning.steps import scores

FloatArray = NDArray[np.float64]

DECAY = 0.8  # of the counts of a client's neighbours, per visit to it
FORGET = 1e-3  # counts below this are dropped, so memory does not grow with the run
MIXTURES = np.array([0.0, 0.5, 1.0])  # shares ρ of the neighbourhood that clients try
TRIALS = (1, 3)  # a client tries them after it has contributed this many times
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

    @contextmanager
    def as_if_visited(self, client: int, near: Iterable[int]) -> Iterator[None]:
        """Count a visit for the time being only: it is not known yet whether anything gets through."""
        before, visits = self._near[client], self._visits[client]
        self.visit(client, near)
        try:
            yield
        finally:
            for j in self._near[client].keys() - before.keys():
                self._near_to[j].discard(client)
            for j in before.keys() - self._near[client].keys():
                self._near_to[j].add(client)
            self._near[client], self._visits[client] = before, visits

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
        self._between = task.settings.between_contacts
        # Participations at which clients try: with training between contacts, the first one contributes nothing yet.
        self._tries_at = np.array(TRIALS) + self._between
        self.neighbours = Neighbours(task.data.clients)
        self.rho: float | Tensor = 0.0 if isinstance(rho, str) else rho
        self._trials = np.full((task.data.clients, len(MIXTURES)), np.nan)  # error rates at each client's last trial
        self._spread: dict[int, Tensor] = {}  # each client's last (noise, distance) of c̄_i, per layer
        self._spreads = torch.zeros(2, len(layers(task.model)), dtype=torch.float64, device=self.device)  # their sum

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        """Return the cost: one token per client, or two tokens and the error rates if it tries the mixtures."""
        one = super().exchange(clients, progress)
        if self.opened(progress) or self._rule != "cv":
            return replace(one, broadcast=False)
        trying = self._trying(clients)
        # Clients that compute between contacts report at the next one.
        reporting = np.isin(self.participations[clients] - 1, self._tries_at) if self._between else trying
        return Exchange(
            bytes_down=one.bytes_down * (1 + trying),
            bytes_up=one.bytes_up + 4 * len(MIXTURES) * reporting,
            flops=one.flops + self.preparation_flops(clients, progress),
            broadcast=False,
        )

    def preparation_flops(self, clients: IntArray, progress: float) -> FloatArray:
        """Return the FLOPs of forward passes of the mixtures over the samples held out, for clients that try them."""
        forward = self.flops_per_sample() / 3  # a gradient costs about three forward passes
        trying = self._trying(clients) & (not self.opened(progress))
        return np.asarray(trying * len(MIXTURES) * forward * self._held_out(clients), dtype=np.float64)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        """Return c̄_i and y for each client, and both without its own contribution if it tries mixtures of them.

        They are mixed when the exchange gets through: ρ is a number that follows the models.
        """
        y = self.token.clone()
        if visited is None or near is None:
            return self._means(clients, progress, y)
        with self.neighbours.as_if_visited(visited, near.tolist()):
            return self._means(clients, progress, y)

    def meet(self, contact: Contact) -> None:
        assert contact.sent is not None
        if contact.visited is not None:
            self.neighbours.visit(contact.visited, contact.near.tolist())
        if self.opened(contact.progress):
            return
        if self._rule == "eb":
            self._measure(contact.clients)
        elif not self._between:
            self._note(contact.clients, self._errors(contact.clients, contact.sent))

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        """Return what clients start from, with their own tokens; those that compute between contacts try mixtures."""
        mixed = [{"token": self._mixed(p.get("near"), p["token"], self.rho)} for p in sent]
        work = super().start(clients, mixed, progress)
        if self._between and self._rule == "cv" and not self.opened(progress):
            return {**work, "errors": torch.from_numpy(self._errors(clients, sent)).to(self.device)}
        return work

    def combine_together(self, contact: Contact, work: Work) -> float:
        moved = super().combine_together(contact, work)
        if "errors" in work:
            self._note(contact.clients, work["errors"].cpu().numpy())
        return moved

    def introduce(self, client: int, near: IntArray) -> None:
        self.neighbours.visit(client, near.tolist())

    def tokens(self, clients: IntArray) -> Tensor:
        """Return the tokens y_i [S,d] of these clients."""
        return torch.stack([self._mixed(self._mean_near(int(client)), self.token, self.rho) for client in clients])

    def _means(self, clients: IntArray, progress: float, y: Tensor) -> list[Parcel]:
        """Return c̄_i and y for each client, and both without it if it tries mixtures of them."""
        parcels = []
        trying = self._trying(clients) & (self._held_out(clients) > 0) & (not self.opened(progress))
        for client, tries in zip(clients.tolist(), trying.tolist(), strict=True):
            parts = {"token": y, "near": self._mean_near(client)}
            if tries and (near := self._mean_near(client, without=True)) is not None:
                parts |= {"near_without": near, "token_without": self._token_without(client, y)}
            parcels.append({name: part for name, part in parts.items() if part is not None})
        return parcels

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

    def _trying(self, clients: IntArray) -> NDArray[np.bool_]:
        """Return which of these clients [S] try mixtures with what they would be sent now."""
        return np.isin(self.participations[clients], self._tries_at) & (self._rule == "cv")

    def _errors(self, clients: IntArray, sent: Sequence[Parcel]) -> FloatArray:
        """Return error rates [S,3] of the mixtures on each client's held-out samples; nan for one that does not try."""
        errors = np.full((len(clients), len(MIXTURES)), np.nan)
        held_out = self._held_out(clients).tolist()
        for i, (client, parcel) in enumerate(zip(clients.tolist(), sent, strict=True)):
            if "near_without" not in parcel:
                continue
            near, y = parcel["near_without"], parcel["token_without"]
            end = int(self.data.first[client] + self.data.train_count[client])
            rows = slice(end - held_out[i], end)
            found = [scores(self.model, self.data, y + rho * (near - y), rows) for rho in MIXTURES.tolist()]
            errors[i] = [float((s.argmax(dim=1) != self.data.labels[rows]).float().mean()) for s in found]
        return errors

    def _note(self, clients: IntArray, errors: FloatArray) -> None:
        """Note error rates that clients report, and choose one ρ for all clients."""
        tried = ~np.isnan(errors[:, 0])
        if tried.any():
            self._trials[clients[tried]] = errors[tried]
            self.rho = choose_rho(self._trials[~np.isnan(self._trials[:, 0])])

    def _held_out(self, clients: IntArray) -> IntArray:
        """Return how many training samples, the last ones, each client holds out for trials; 0 if it has only one."""
        count = self.data.train_count[clients]
        return np.where(count > 1, np.ceil(HELD_OUT * count), 0).astype(np.int64)

    def _batch_pool(self, work: Work, steps: Steps) -> IntArray:
        """Leave held-out samples out until the last trial, or until clients train alone."""
        holding_out = (steps.participation < self._tries_at[-1]) & (self._rule == "cv" and "alone" not in work)
        own: IntArray = self.data.train_count[steps.clients] - holding_out * self._held_out(steps.clients)
        return np.minimum(own, super()._batch_pool(work, steps))

    def _token_without(self, client: int, y: Tensor) -> Tensor:
        """Return the mean of the contributions of all other clients seen, from that of all, y."""
        count = self.seen_count if self.growing_mean else self.data.clients
        if not self.seen[client] or count == 1:
            return y
        return y + (y - self.contributions[client]) / (count - 1)

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
