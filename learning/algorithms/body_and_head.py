"""Models in two parts: a body, which clients share, and a head, the model's last layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Work
from fedmule.learning.algorithms.fedavg import mean_by_samples
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import TWO_LAYERS, DataError
from fedmule.learning.models.protocol import Model, layers


def below(model: Model, top: int = 1) -> int:
    """Return how many parameters come before the last `top` layers; by default the size of the body."""
    return model.parameters - sum(list(layers(model).values())[-top:])


def with_head(body: Tensor, x: Tensor) -> Tensor:
    """Return models [S,d] with bodies [S,k] or one body [k], and the heads of models x [S,d]."""
    k = body.shape[-1]
    return torch.cat([body.expand(len(x), k), x[:, k:]], dim=1)


def part_step(x: Tensor, g: Tensor, part: slice, eta: float) -> Tensor:
    """x ← x − ηg in these coordinates of models x [S,d]; the others stay as they are."""
    moved = x.clone()
    moved[:, part] -= eta * g[:, part]
    return moved


class SharedBody(Algorithm):
    """Base class of algorithms that send only the body: bytes are in proportion to its share of the parameters."""

    @classmethod
    def check_model(cls, model: Model, data: ClientData, **keys: Any) -> None:
        if not below(model):
            raise DataError(TWO_LAYERS)

    @property
    def body(self) -> int:
        """Number of parameters of the body."""
        return below(self.model)

    @property
    def model_bytes(self) -> int:
        return round(super().model_bytes * self.body / self.model.parameters)

    def train_part(self, x: Tensor, batches: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        """Run SGD on these coordinates of models x [S,d]; return the models and the sum of the mean losses."""
        losses = x.new_zeros(())
        for rows in batches:
            g, loss = self._gradient(x, rows)
            x = part_step(x, g, part, self.settings.step_size)
            losses += loss.mean()
        return x, losses

    def average_bodies(self, clients: IntArray, x: Tensor) -> float:
        """Store models x [S,d], let the token have the weighted mean of their bodies, and return how far it moved."""
        mean = mean_by_samples(self, clients, x[:, : self.body])
        self._keep(clients, x)
        return self._replace_token(torch.cat([mean, self.token[self.body :]]))


class PersonalHead(SharedBody):
    """Base class of algorithms whose clients share the body of the token and keep heads of their own.

    The head of the token stays as it was at the start and is never used: the token is evaluated with each client's
    own head. Subclass and override `train`.
    """

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        return [{"token": self.token[: self.body].clone()}] * len(clients)

    def tokens(self, clients: IntArray) -> Tensor:
        return with_head(self.token[: self.body], self.models[self._index(clients)])

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        return {"x": with_head(self._token_sent(sent), self.models[self._index(clients)])}

    def combine(self, contact: Contact, work: Work) -> float:
        return self.average_bodies(contact.clients, work["x"])
