"""FedAvg with several models: IFCA (Ghosh et al. 2020), and an oracle that knows the true clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.algorithms.base import (
    BYTES_PER_NUMBER,
    Contact,
    Exchange,
    IntArray,
    Task,
    Update,
)
from fedmule.learning.algorithms.fedavg import FedAvg, mean_by_samples


class Clusters(FedAvg):
    """FedAvg per cluster: a cluster's model becomes the weighted mean of its delivered members."""

    carried = ("token", "centres")

    def __init__(self, task: Task, fine_tune: bool, clusters: int) -> None:
        super().__init__(task, fine_tune)
        self.centres = self._first_centres(task, clusters)  # [k,d]
        self.cluster = np.zeros(task.data.clients, dtype=np.int64)  # [n] each client's last choice

    def update(self, contact: Contact) -> Update:
        clients = contact.clients
        self.cluster[clients] = chosen = self._choice(clients)
        if self.opened(contact.progress):
            return self._train_alone(clients)
        index = self._index(clients)
        before = self.models[index]
        x, loss = self._descend(self.centres[self._index(chosen)], self._batches(clients))
        centres = self.centres.clone()
        for k in np.unique(chosen).tolist():
            members = np.flatnonzero(chosen == k)
            centres[k] = mean_by_samples(self, clients[members], x[self._index(members)])
        moved = float((centres - self.centres).norm())
        self.centres = centres
        self.token = centres.mean(dim=0)
        self._store(index, before, x)
        return Update(float(loss), self.steps, moved)

    def meeting(self, progress: float) -> Exchange:
        one, k = super().meeting(progress), len(self.centres)
        return replace(one, bytes_down=k * one.bytes_down, bytes_up=k * one.bytes_up)

    def tokens(self, clients: IntArray) -> Tensor:
        return self.centres[self._index(self._choice(clients))]

    def _choice(self, clients: IntArray) -> IntArray:
        """Return the current clusters [S] of these clients."""
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
        trials = k * self.flops_per_sample() / 3 * self.data.train_count[clients]  # a forward pass of each model
        free = self.released[clients] & self.opened(progress)
        up = one.bytes_up + np.where(one.bytes_up > 0, BYTES_PER_NUMBER, 0)  # the index of the model
        return Exchange(k * one.bytes_down, up, one.flops + np.where(free, 0.0, trials))

    def _choice(self, clients: IntArray) -> IntArray:
        """Return the clusters with the lowest loss; clients that train alone keep their last choice."""
        choice = self.cluster[clients]
        for i in np.flatnonzero(~self.released[clients]).tolist():
            client = int(clients[i])
            first = int(self.data.first[client])
            rows = slice(first, first + int(self.data.train_count[client]))
            features, labels = self.data.features[rows], self.data.labels[rows]
            scores = [self.model.scores(centre, features) for centre in self.centres]
            losses = torch.stack([torch.nn.functional.cross_entropy(s, labels) for s in scores])
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

    def _choice(self, clients: IntArray) -> IntArray:
        assert self.data.site is not None
        return self.data.site[clients]
