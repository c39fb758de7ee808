"""Prior of labels: the logarithm of each client's own label frequencies, which is added to its models' scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from fedmule.learning.data.client_data import ClientData

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Prior:
    """log p_i(y) of n clients and c labels, from their training samples; changed in place when labels change."""

    log: Tensor  # [n,c]
    owner: Tensor  # [N] client of each row of the data
    extra: float  # added to the count of every label, so that p is positive for labels that a client does not have

    def of(self, rows: Tensor | slice) -> Tensor:
        """Return log p [R,c] of the clients that these rows [R] of the data belong to."""
        return self.log.index_select(0, self.owner[rows])

    def to(self, device: torch.device) -> Prior:
        """Return the same prior on this device."""
        return replace(self, log=self.log.to(device), owner=self.owner.to(device))

    def recount(self, data: ClientData, clients: IntArray) -> None:
        """Compute log p of these clients anew, in place, from the labels of their training samples."""
        device, (total, classes) = self.log.device, self.log.shape
        first, count = data.first[clients], data.train_count[clients]
        rows = np.concatenate([np.arange(a, a + m) for a, m in zip(first, count, strict=True)])
        index = torch.from_numpy(rows).to(device)
        cells = self.owner[index] * classes + data.labels[index]
        counts = torch.zeros(total * classes, dtype=torch.float64, device=device)
        counts = counts.index_add_(0, cells, torch.ones_like(cells, dtype=torch.float64)).view(total, classes)
        who = torch.from_numpy(clients).to(device)
        self.log[who] = torch.log_softmax((counts[who] + self.extra).log_(), dim=1).to(self.log.dtype)


def count_labels(data: ClientData, extra: float) -> Prior:
    """Return the prior of all clients, with `extra` added to the count of every label."""
    log = data.features.new_empty((data.clients, data.classes))
    owner = torch.from_numpy(np.repeat(np.arange(data.clients), np.diff(data.first))).to(data.labels.device)
    prior = Prior(log, owner, extra)
    prior.recount(data, np.arange(data.clients))
    return prior
