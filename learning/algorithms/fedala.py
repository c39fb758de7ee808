"""FedALA (Zhang et al. 2023, "FedALA: Adaptive Local Aggregation for Personalized Federated Learning", AAAI)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.algorithms.body_and_head import below
from fedmule.learning.algorithms.fedavg import mean_by_samples
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import DataError
from fedmule.learning.models.protocol import Model, layers


def initialised(x: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """x + (y − x) ⊙ a in the last coordinates, y before. Shapes [S,d], weights a [S,t]."""
    low = x.shape[1] - a.shape[1]
    return torch.cat([y[:, :low], x[:, low:] + (y - x)[:, low:] * a], dim=1)


def weight_step(a: Tensor, x: Tensor, y: Tensor, g: Tensor, eta: float) -> Tensor:
    """a ← clip(a − η (y − x) ⊙ g, 0, 1), where g is the gradient at the initialised model."""
    low = x.shape[1] - a.shape[1]
    return (a - eta * ((y - x) * g)[:, low:]).clamp(0, 1)


class FedALA(Algorithm):
    """FedAvg whose clients start from a mixture of their own model and the token, with weights they learn.

    The weights, 1 at first, apply to the last `top_layers` layers; they take `weight_steps` gradient steps per visit,
    each on a batch of the client's samples, and are kept from visit to visit. A client without a model of its own takes
    the token. Gradients per visit: `local_steps` + `weight_steps`; one model down and one up.
    """

    state_copies = 2

    def __init__(self, task: Task, top_layers: int, weight_steps: int, weight_step_size: float) -> None:
        super().__init__(task)
        self.weight_steps = weight_steps
        self.weight_step_size = weight_step_size
        top = task.model.parameters - below(task.model, top_layers)
        self.weights = self.models.new_ones(task.data.clients, top)  # a [n,t]
        self.trained = np.zeros(task.data.clients, dtype=bool)  # has a model of its own

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return local_steps + int(keys["weight_steps"])

    @classmethod
    def check_model(cls, model: Model, data: ClientData, **keys: Any) -> None:
        if keys["top_layers"] > len(layers(model)):
            raise DataError(f"top_layers = {keys['top_layers']}: learning.model has {len(layers(model))}")

    def gradients(self, local_steps: int) -> int:
        return self.gradients_per_visit(local_steps, weight_steps=self.weight_steps)

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        index, y = self._index(clients), self._copies(self._token_sent(sent), len(clients))
        own = torch.from_numpy(self.trained[clients]).to(self.device).unsqueeze(1)
        before, a = torch.where(own, self.models[index], y), self.weights[index]
        return {"x": initialised(before, y, a), "before": before, "y": y, "a": a}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        if steps.first == 0:
            work = self._learn_weights(work, steps)
        batches = self._rows(work, steps, self.weight_steps + steps.first, self.weight_steps + steps.last)
        x, loss = self._descend(work["x"], batches)
        return {**work, "x": x}, loss

    def combine(self, contact: Contact, work: Work) -> float:
        moved = self._replace_token(mean_by_samples(self, contact.clients, work["x"]))
        self.weights[self._index(contact.clients)] = work["a"]
        self.trained[contact.clients] = True
        self._keep(contact.clients, work["x"])
        return moved

    def _learn_weights(self, work: Work, steps: Steps) -> Work:
        before, y, a = work["before"], work["y"], work["a"]
        for rows in self._rows(work, steps, 0, self.weight_steps):
            g, _ = self._gradient(initialised(before, y, a), rows)
            a = weight_step(a, before, y, g, self.weight_step_size)
        return {**work, "x": initialised(before, y, a), "a": a}
