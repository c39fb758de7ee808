"""FedAvg (McMahan et al. 2017), carried by the vehicle."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from learning.algorithm import Algorithm, Contact, Update, descend


def weighted_mean(x: Tensor, samples: Tensor) -> Tensor:
    """y = Σ n_i x_i / Σ n_i over models x [S,d] with n_i samples [S]."""
    weights = samples / samples.sum()
    return (weights.unsqueeze(1) * x).sum(dim=0)


class FedAvg(Algorithm):
    """Clients start from the token, take local steps, and the token becomes the mean of those delivered."""

    def update(self, contact: Contact) -> Update:
        clients = contact.clients
        index = self._index(clients)
        before = self.models[index]
        x, loss = descend(self, self.token.repeat(len(clients), 1), self._batches(clients))
        token = weighted_mean(x, self.token.new_tensor(self.data.train_count[clients].astype(np.float32)))
        moved = float((token - self.token).norm())
        self.token = token
        self._store(clients, index, before, x)
        return Update(float(loss), self.steps, moved)
