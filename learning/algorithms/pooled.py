"""Pooled training: the reference in which the samples of all clients are in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange, IntArray, Parcel, Task, Update, Work


def pool_rows(first: IntArray, train_count: IntArray) -> IntArray:
    """Return the rows of the training samples of all clients, client by client."""
    spans = zip(first.tolist(), train_count.tolist(), strict=False)
    return np.concatenate([np.arange(start, start + count) for start, count in spans])


class Pooled(Algorithm):
    """One model is trained on the samples of all, and everybody has it: a reference, as no vehicle could be.

    At a contact it takes the gradient steps of all clients that are delivered, one after the other. No bytes are
    charged.
    """

    one_for_all = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._pool = pool_rows(task.data.first, task.data.train_count)

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        return replace(super().exchange(clients, progress), charged=False)

    def meeting(self, progress: float) -> Exchange:
        return replace(super().meeting(progress), charged=False)

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        return {"x": self._copies(self.token, len(clients))}

    def update(self, contact: Contact) -> Update:
        """Take SGD steps x ← x − η g(x), |S| times those of a client, on batches from the samples of all clients."""
        clients, size = contact.clients, self.settings.batch_size
        count = self.steps if contact.steps is None else self.gradients(contact.steps)
        drawn = self._draw(clients, self.participations[clients], count * size)
        rows = self._pool[(drawn * len(self._pool)).astype(np.int64)].reshape(-1, 1, size)  # [S·count,1,B]
        x, loss = self._descend(self.token.unsqueeze(0), torch.from_numpy(rows).to(self.device))
        self.participations[clients] += 1
        moved = self._replace_token(x[0])
        self._keep(np.arange(len(self.models)), self._copies(self.token, len(self.models)))
        return Update(float(loss), count, moved)
