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


def scores_with_bias(z: Tensor, w: Tensor, b: Tensor, classes: int) -> Tensor:
    """W(z + b) + u [S,B,c] for features z [S,B,k], the last layer of models w [S,d] and personal biases b [S,k]."""
    weights, bias = last_layer(w, z.shape[2], classes)
    return torch.baddbmm(bias.unsqueeze(1), z + b.unsqueeze(1), weights.mT)


def losses_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy [S] of scores [S,B,c] and labels [S,B]."""
    return -torch.log_softmax(scores, dim=2).gather(2, labels.unsqueeze(2)).mean(dim=(1, 2))


def pull(r: Tensor, mean: Tensor, strength: float) -> Tensor:
    """κ|r − z̄|²/k [S] of means of features r [S,k] and the common mean z̄ [S,k]."""
    return strength * (r - mean).square().mean(dim=1)


class FedDBE(Algorithm):
    """FedAvg, a personal bias b of the features for each client, and a pull of their mean towards a common mean.

    Clients minimise f(w, b) + κ|r − z̄|²/k, where r ← (1 − μ)r + μ·(mean features of the batch). Adapted: z̄ is not
    collected from all clients before the run but is the mean over clients met so far, each with its r after its first
    training, for which κ = 0; and r starts with the first batch. The personal model is stored as one ordinary model
    with the last bias u + Wb. One gradient per local step, of the entire objective, in one pass through the model; one
    model and z̄ down, one model and r up.
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
        x, few = model.start(np.random.default_rng(0)).to(data.features).unsqueeze(0), data.features[:2]
        z = cast(Any, model).represent(x, few.unsqueeze(0))
        found = scores_with_bias(z, x, z.new_zeros(1, z.shape[2]), data.classes)[0]
        if not torch.allclose(found, model.scores(x[0], few), rtol=1e-3, atol=1e-3):
            raise DataError("needs a model whose last parameters are a linear layer of what `represent` gives")

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
        return {
            "x": personal(w, b, self.data.classes),
            "w": w,
            "b": b,
            "r": self.means[index],
            "mean": mean,
            "new": new,
        }

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """(w, b) ← (w, b) − η∇ of the entire objective; r ← (1 − μ)r + μ·(mean features of the batch)."""
        eta, w, b, r = self.settings.step_size, work["w"], work["b"], work["r"]
        losses = w.new_zeros(())
        for number, rows in enumerate(self._rows(work, steps, steps.first, steps.last), steps.first):
            # The first batch of a client that is new sets its r.
            weight = self.momentum + (1 - self.momentum) * work["new"] * (number == 0)
            to_w, to_b, loss, r = self._gradients(w, b, rows, r, weight, work)
            w, b = w - eta * to_w, b - eta * to_b
            losses += loss.mean()
        x = personal(w, b, self.data.classes)
        return {**work, "x": x, "w": w, "b": b, "r": r}, losses / (steps.last - steps.first)

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

    def _gradients(
        self, w: Tensor, b: Tensor, rows: Tensor, r: Tensor, weight: Tensor, work: Work
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return gradients by w [S,d] and b [S,k], losses [S] and means r [S,k] of batches rows [S,B], in one pass."""
        model, data = cast(Any, self.model), self.data
        w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
        z = model.represent(w, data.features[rows])  # [S,B,k]
        scores = scores_with_bias(z, w, b, data.classes)
        if data.prior is not None:
            scores = scores + data.prior.of(rows[:, 0]).unsqueeze(1)
        loss = losses_of(scores, data.labels[rows])
        r = (1 - weight) * r + weight * z.mean(dim=1)
        objective = loss + (1 - work["new"][:, 0]) * pull(r, work["mean"], self.strength)
        to_w, to_b = torch.autograd.grad(objective.sum(), (w, b))
        return to_w, to_b, loss.detach(), r.detach()
