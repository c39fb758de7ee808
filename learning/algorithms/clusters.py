"""FedAvg with several models: IFCA (Ghosh et al. 2020), and an oracle that knows the true clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.algorithms.base import (
    BYTES_PER_NUMBER,
    Contact,
    Exchange,
    FloatArray,
    IntArray,
    Parcel,
    Task,
    Work,
)
from fedmule.learning.algorithms.fedavg import FedAvg, mean_by_samples
from fedmule.learning.steps import scores


class Clusters(FedAvg):
    """FedAvg per cluster: a cluster's model becomes the weighted mean of its delivered members."""

    carried = ("token", "centres")

    def __init__(self, task: Task, fine_tune: bool, clusters: int) -> None:
        super().__init__(task, fine_tune)
        self.centres = self._first_centres(task, clusters)  # [k,d]
        self.cluster = np.zeros(task.data.clients, dtype=np.int64)  # [n] each client's last choice

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        """Return what clients start from: the model of the cluster that each of them chooses, or its own."""
        chosen = self._choice(clients, sent)
        models = [{"token": p["centres"][k]} for p, k in zip(sent, chosen.tolist(), strict=True)]
        return {**super().start(clients, models, progress), "cluster": torch.from_numpy(chosen).unsqueeze(1)}

    def took(self, clients: IntArray, work: Work, progress: float) -> None:
        super().took(clients, work, progress)
        self.cluster[clients] = work["cluster"][:, 0].numpy()

    def combine_together(self, contact: Contact, work: Work) -> float:
        clients, x, chosen = contact.clients, work["x"], work["cluster"][:, 0].numpy()
        centres = self.centres.clone()
        for k in np.unique(chosen).tolist():
            members = np.flatnonzero(chosen == k)
            centres[k] = mean_by_samples(self, clients[members], x[self._index(members)])
        moved = float((centres - self.centres).norm())
        self.centres = centres
        self.token = centres.mean(dim=0)
        self._keep(clients, x)
        return moved

    def meeting(self, progress: float) -> Exchange:
        one, k = super().meeting(progress), len(self.centres)
        return replace(one, bytes_down=k * one.bytes_down, bytes_up=k * one.bytes_up)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        return [{"centres": self.centres.clone()}] * len(clients)

    def tokens(self, clients: IntArray) -> Tensor:
        chosen = self._choice(clients, [{"centres": self.centres}] * len(clients))
        return self.centres[self._index(chosen)]

    def _choice(self, clients: IntArray, sent: Sequence[Parcel]) -> IntArray:
        """Return the clusters [S] of these clients, given what they were sent."""
        raise NotImplementedError

    def _first_centres(self, task: Task, clusters: int) -> Tensor:
        raise NotImplementedError


class IFCA(Clusters):
    """All models go down; a client trains the one with the lowest loss on its training data and sends it back."""

    def _first_centres(self, task: Task, clusters: int) -> Tensor:
        """Return the start, and copies of it with random signs, which follow the same distribution."""
        start = task.start
        signs = task.draw(np.arange(clusters), np.full(clusters, -1), len(start)) < 0.5
        signs[0] = True
        return start * torch.from_numpy(np.where(signs, 1.0, -1.0)).to(start)

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        one = super().exchange(clients, progress)
        k = len(self.centres)
        up = one.bytes_up + np.where(one.bytes_up > 0, BYTES_PER_NUMBER, 0)  # the index of the model
        return Exchange(k * one.bytes_down, up, one.flops + self.preparation_flops(clients, progress))

    def preparation_flops(self, clients: IntArray, progress: float) -> FloatArray:
        """Return the FLOPs of a forward pass of each model over all training samples; 0 for clients that are free."""
        trials = len(self.centres) * self.flops_per_sample() / 3 * self.data.train_count[clients]
        return np.where(self.released[clients] & self.opened(progress), 0.0, trials)

    def _choice(self, clients: IntArray, sent: Sequence[Parcel]) -> IntArray:
        """Return the clusters with the lowest loss; clients that train alone keep their last choice."""
        choice = self.cluster[clients]
        for i in np.flatnonzero(~self.released[clients]).tolist():
            client = int(clients[i])
            first = int(self.data.first[client])
            rows = slice(first, first + int(self.data.train_count[client]))
            found = [scores(self.model, self.data, centre, rows) for centre in sent[i]["centres"]]
            losses = torch.stack([torch.nn.functional.cross_entropy(s, self.data.labels[rows]) for s in found])
            choice[i] = int(losses.argmin())
        return choice


class SquadOracle(Clusters):
    """One cluster per site: the result of a perfect choice of clusters."""

    needs_sites = True

    def __init__(self, task: Task, fine_tune: bool) -> None:
        assert task.data.site is not None
        super().__init__(task, fine_tune, int(task.data.site.max()) + 1)

    def _first_centres(self, task: Task, clusters: int) -> Tensor:
        return task.start.repeat(clusters, 1)

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        one = super().exchange(clients, progress)
        return Exchange(one.bytes_down, one.bytes_up, one.flops, broadcast=False)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        """Return all models, and which of them each client is sent: that of its site now."""
        assert self.data.site is not None
        sites = torch.from_numpy(self.data.site[clients])
        return [{**parcel, "site": site} for parcel, site in zip(super().send(clients, progress), sites, strict=True)]

    def tokens(self, clients: IntArray) -> Tensor:
        assert self.data.site is not None
        return self.centres[self._index(self.data.site[clients])]

    def _choice(self, clients: IntArray, sent: Sequence[Parcel]) -> IntArray:
        return np.array([int(parcel["site"]) for parcel in sent], dtype=np.int64)
