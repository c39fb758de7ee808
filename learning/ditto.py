"""Ditto (Li et al. 2021): FedAvg, and beside it a model of each client's own that is drawn to the token."""

from __future__ import annotations

from torch import Tensor

from learning.algorithm import Algorithm, Contact, Update, descend
from learning.fedavg import mean_by_samples


def ditto_step(v: Tensor, y: Tensor, g: Tensor, eta: float, lam: float) -> Tensor:
    """v ← v − η(g + λ(v − y)). Shapes [S,d], y [d]."""
    return v - eta * (g + lam * (v - y))


class Ditto(Algorithm):
    """The token is FedAvg's; a client keeps its personal model v and trains both on the same batches.

    At λ = 0 it is FedAvg beside local training. Two gradients per local step; one model down and one up.
    """

    @property
    def steps(self) -> int:
        return 2 * self.settings.local_steps

    def update(self, contact: Contact) -> Update:
        clients, eta, lam = contact.clients, self.settings.step_size, self.settings.ditto_lambda
        index = self._index(clients)
        before = v = self.models[index]
        batches = self._batches(clients, self.settings.local_steps)
        w, _ = descend(self, self.token.repeat(len(clients), 1), batches)
        losses = v.new_zeros(())
        for rows in batches:
            g, loss = self._gradient(v, rows)
            v = ditto_step(v, self.token, g, eta, lam)
            losses += loss.mean()
        moved = self._replace_token(mean_by_samples(self, clients, w))
        self._store(index, before, v)
        return Update(float(losses / len(batches)), self.steps, moved)
