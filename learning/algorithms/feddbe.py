"""FedAvg with DBE (Zhang et al. 2023, "Eliminating Domain Bias for Federated Learning in …", NeurIPS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.algorithms.body_and_head import below
from fedmule.learning.algorithms.fedavg import mean_by_samples
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import FEATURES, DataError
from fedmule.learning.models.protocol import Model


def last_layer(x: Tensor, width: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return views of the weights W [S,c,k] and the bias u [S,c] at the end of models x [S,d]."""
    weights = x[:, -(width + 1) * classes : -classes]
    return weights.view(len(x), classes, width), x[:, -classes:]


def personal(w: Tensor, b: Tensor, classes: int) -> Tensor:
    """x = (body, W, u + Wb): its scores are W(z + b) + u, with features z and a personal bias b [S,k] of them."""
    weights, _ = last_layer(w, b.shape[1], classes)
    shift = torch.einsum("sck,sk->sc", weights, b)
    return torch.cat([w[:, :-classes], w[:, -classes:] + shift], dim=1)


def chain(g: Tensor, w: Tensor, b: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """∂W = g_W + g_u bᵀ, ∂b = Wᵀ g_u, the rest unchanged: gradients by w and b from g [S,d] at the personal model."""
    g = g.clone()
    to_weights, to_bias = last_layer(g, b.shape[1], classes)
    to_weights += torch.einsum("sc,sk->sck", to_bias, b)
    return g, torch.einsum("sck,sc->sk", last_layer(w, b.shape[1], classes)[0], to_bias)


class FedDBE(Algorithm):
    """FedAvg, a personal bias b of the features for each client, and a pull of their mean towards a common mean.

    Clients minimise f(w, b) + κ|r − z̄|²/k, where r ← (1 − μ)r + μ·(mean features of the batch). Adapted: z̄ is not
    collected from all clients before the run but is the mean over clients met so far, each with its r after its first
    training, for which κ = 0; and r starts with the first batch. The personal model is stored as one ordinary model
    with the last bias u + Wb. One gradient per local step, of the entire objective; one model and z̄ down, one model and
    r up.
    """

    carried = ("token", "mean_sum", "mean_count")

    def __init__(self, task: Task, strength: float, momentum: float) -> None:
        super().__init__(task)
        self.strength = strength  # κ
        self.momentum = momentum  # μ
        width = (task.model.parameters - below(task.model)) // task.data.classes - 1  # k
        self.biases = self.models.new_zeros(task.data.clients, width)  # b [n,k]
        self.means = torch.zeros_like(self.biases)  # r [n,k]
        self.trained = np.zeros(task.data.clients, dtype=bool)  # has contributed its r to z̄
        self.mean_sum, self.mean_count = self.token.new_zeros(width), self.token.new_zeros(1)  # z̄ = sum / samples

    @classmethod
    def check_model(cls, model: Model, data: ClientData, **keys: Any) -> None:
        if not hasattr(model, "represent") or not below(model):
            raise DataError(FEATURES)

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        one, share = super().exchange(clients, progress), self.biases.shape[1] / self.model.parameters
        down, up = (size + np.rint(share * size).astype(np.int64) for size in (one.bytes_down, one.bytes_up))
        return replace(one, bytes_down=down, bytes_up=up)

    def meeting(self, progress: float) -> Exchange:
        one, share = super().meeting(progress), self.biases.shape[1] / self.model.parameters
        size = one.bytes_down + np.rint(share * one.bytes_down).astype(np.int64)
        return replace(one, bytes_down=size, bytes_up=size)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        mean = torch.where(self.mean_count > 0, self.mean_sum / self.mean_count, self.mean_sum)
        return [{"token": self.token.clone(), "mean": mean}] * len(clients)

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        index, w = self._index(clients), self._copies(self._token_sent(sent), len(clients))
        mean = self._copies(self._together([parcel["mean"] for parcel in sent]), len(clients))
        new = torch.from_numpy(~self.trained[clients]).to(self.device).unsqueeze(1).to(w)
        b = self.biases[index]
        return {"x": self._personal(w, b), "w": w, "b": b, "r": self.means[index], "mean": mean, "new": new}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        eta, w, b, r = self.settings.step_size, work["w"], work["b"], work["r"]
        losses = w.new_zeros(())
        for number, rows in enumerate(self._rows(work, steps, steps.first, steps.last), steps.first):
            g, loss = self._gradient(self._personal(w, b), rows)
            to_w, to_b = chain(g, w, b, self.data.classes)
            pull, r = self._pull(w, rows, r, work, number == 0)
            w, b = w - eta * (to_w + pull), b - eta * to_b
            losses += loss.mean()
        return {**work, "x": self._personal(w, b), "w": w, "b": b, "r": r}, losses / (steps.last - steps.first)

    def combine(self, contact: Contact, work: Work) -> float:
        clients, index = contact.clients, self._index(contact.clients)
        moved = self._replace_token(mean_by_samples(self, clients, work["w"]))
        samples = work["new"] * work["w"].new_tensor(self.data.train_count[clients].astype(np.float32)).unsqueeze(1)
        self.mean_sum, self.mean_count = (
            self.mean_sum + (samples * work["r"]).sum(dim=0),
            self.mean_count + samples.sum(),
        )
        self.biases[index], self.means[index] = work["b"], work["r"]
        self.trained[clients] = True
        self._keep(clients, work["x"])
        return moved

    def _personal(self, w: Tensor, b: Tensor) -> Tensor:
        return personal(w, b, self.data.classes)

    def _pull(self, w: Tensor, rows: Tensor, r: Tensor, work: Work, first: bool) -> tuple[Tensor, Tensor]:
        """κ∇|r' − z̄|²/k by w [S,d], with r' = (1 − μ)r + μ·(mean features of the batch); and r' [S,k]."""
        model, new = cast(Any, self.model), work["new"]
        w = w.detach().requires_grad_()
        weight = new + (1 - new) * self.momentum if first else self.momentum
        moved = (1 - weight) * r + weight * model.represent(w, self.data.features[rows]).mean(dim=1)
        penalty = (1 - new) * self.strength * (moved - work["mean"]).square().mean(dim=1, keepdim=True)
        return torch.autograd.grad(penalty.sum(), w)[0], moved.detach()
