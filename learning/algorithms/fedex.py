"""FedEx (Bian, Shen, Xu 2023, "Federated Learning via Indirect Server-Client Communications", CISS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.algorithms.base import BYTES_PER_NUMBER, Contact, Exchange, IntArray, Parcel, Task, Work
from fedmule.learning.algorithms.fedavg import FedAvg

Staleness = float | Literal["published"]


def after_round(y: Tensor, gathered: Tensor, samples: Tensor) -> Tensor:
    """y ← y + Σ n_i Δ_i / Σ n_i over the results of a round, from both sums: [d] and a number."""
    return y + gathered / samples


def shares(samples: Tensor, since: Tensor, staleness: float) -> Tensor:
    """w_i = (n_i/n̄) (|S| + k_i)^−a for results [S] of one contact, with n̄ the mean of their n_i.

    k_i others have arrived since client i was given its token. On a regular tour of N clients w_i = n_i/n̄ · N^−a, so
    a = 1 is the published 1/N; of a result that is alone and fresh the token takes all, y ← x_i.
    """
    return samples / samples.mean() * (len(samples) + since.clamp(min=0)) ** -staleness


class FedEx(FedAvg):
    """Base class of both forms: what moves the token is Δ_i = x_i − y_i, where y_i is the token client i was given.

    A client without network is given the token at one contact and hands its result over at the next, when the token has
    moved on. The published server waits at a depot for transporters that carry models to and fro. Adapted: the vehicle
    is transporter and server in one, so that results count when they are picked up; and they are weighted by samples,
    as those of FedAvg are. With `fine_tune`, from `open_at` on, clients take the token once more and train alone.
    """

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        return {**super().start_together(clients, sent), "y": self._token_sent(sent)}

    def _samples(self, clients: IntArray) -> Tensor:
        """Return the numbers of training samples [S] of these clients."""
        return self.token.new_tensor(self.data.train_count[clients].astype(np.float32))


class FedExSync(FedEx):
    """FedEx-Sync: the token moves once per round, when the results of all clients have been picked up.

    A round has everybody who has been given a token so far. It also ends, without those still missing, when a client
    hands over its result for the `patience`-th time in it: who has gone or is not found does not block it. Several
    results of a client count as so many. An unfinished round is lost when clients are released.

    Several vehicles have rounds of their own. Where two meet, each from then on has the results of both.
    """

    carried = ("token", "gathered", "results")

    def __init__(self, task: Task, fine_tune: bool, patience: float) -> None:
        super().__init__(task, fine_tune)
        self.patience = patience
        self.gathered = torch.zeros_like(self.token)  # Σ n_i Δ_i over the results of the round
        self.results = self.token.new_zeros(task.data.clients)  # [n] how many of each client; halves after meetings
        self._given = 0  # clients that have been given a token
        self._picked_up = 0  # those of them whose results the round has

    def meeting(self, progress: float) -> Exchange:
        one = super().meeting(progress)
        more = (one.bytes_down > 0) * (self.model_bytes + BYTES_PER_NUMBER * len(self.results))
        return replace(one, bytes_down=one.bytes_down + more, bytes_up=one.bytes_up + more)

    def took(self, clients: IntArray, work: Work, progress: float) -> None:
        self._given += int((self.participations[clients] == 0).sum())
        super().took(clients, work, progress)

    def combine_together(self, contact: Contact, work: Work) -> float:
        clients, index, x = contact.clients, self._index(contact.clients), work["x"]
        self.gathered = self.gathered + self._samples(clients) @ (x - work["y"])
        before = self.results[index]
        if self.vehicles > 1:  # one that it has met may still hold the same tensor
            self.results = self.results.clone()
        self.results[index] = before + 1
        self._picked_up += int((before == 0).sum())
        if self.vehicles > 1:  # it may have heard of others where it met a vehicle
            self._picked_up = int((self.results > 0).sum())
        self._keep(clients, x)
        if self._picked_up < self._given and float(before.max()) + 1 < self.patience:
            return 0.0
        samples = self.results @ self._samples(np.arange(len(self.results)))
        moved = self._replace_token(after_round(self.token, self.gathered, samples))
        self.gathered, self.results = torch.zeros_like(self.gathered), torch.zeros_like(self.results)
        self._picked_up = 0
        return moved


class FedExAsync(FedEx):
    """FedEx-Async: every result moves the token when it is picked up, y ← y + Σ w_i Δ_i.

    `staleness` is the exponent a of `shares`, by which old results count less; "published" is w_i = n_i / Σ n_j over
    all clients, whatever their age (1/N in the paper, where all count alike).
    """

    carried = ("token", "arrived")

    def __init__(self, task: Task, fine_tune: bool, staleness: Staleness) -> None:
        super().__init__(task, fine_tune)
        self.staleness = staleness
        self.arrived = self.token.new_zeros(1)  # results that the vehicle has been given so far
        self._all_samples = float(task.data.train_count.sum())

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        arrived = self.arrived.clone()
        return [{**parcel, "arrived": arrived} for parcel in super().send(clients, progress, visited, near)]

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        return {**super().start_together(clients, sent), "arrived": torch.stack([p["arrived"] for p in sent])}

    def combine_together(self, contact: Contact, work: Work) -> float:
        clients, x, samples = contact.clients, work["x"], self._samples(contact.clients)
        if self.staleness == "published":
            w = samples / self._all_samples
        else:
            w = shares(samples, (self.arrived - work["arrived"])[:, 0], self.staleness)
        self.arrived = self.arrived + len(clients)
        self._keep(clients, x)
        return self._replace_token(self.token + w @ (x - work["y"]))
