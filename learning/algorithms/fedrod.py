"""FedRoD (Chen, Chao 2022, "On Bridging Generic and Personalized Federated Learning …", ICLR), with linear heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.algorithms.body_and_head import below
from fedmule.learning.algorithms.fedavg import mean_by_samples
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import DataError
from fedmule.learning.models.protocol import Model, ends_in_bias


def balanced(w: Tensor, counts: Tensor) -> Tensor:
    """Return models whose plain loss is the balanced softmax loss of w: scores s_c + log N_c, by the last bias.

    Models w [S,d] end in the bias [c] of a linear layer; N [S,c] counts each client's training samples by label.
    """
    return torch.cat([w[:, : -counts.shape[1]], w[:, -counts.shape[1] :] + counts.log()], dim=1)


def personal(w: Tensor, p: Tensor) -> Tensor:
    """x = (body of w, G + P): scores of the generic head G and of the personal head P [S,h] on the same features."""
    return torch.cat([w[:, : -p.shape[1]], w[:, -p.shape[1] :] + p], dim=1)


class FedRoD(Algorithm):
    """A generic model w, trained on the balanced softmax loss and averaged, and a personal head P per client.

    P is trained on the plain loss of the sum of both heads' scores, with w fixed: w ← w − η∇L_BSM(w),
    P ← P − η∇_P L(x). Adapted: both heads are linear and act on the same features, so their sum is one linear layer,
    and the personal model is an ordinary model with last layer G + P. P starts at 0. Two gradients per local step, both
    computed entirely, although one pass through the body would serve both. One model down and one up.
    """

    state_copies = 2

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.heads = self.models.new_zeros(task.data.clients, task.model.parameters - below(task.model))  # P [n,h]

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return 2 * local_steps

    @classmethod
    def check_model(cls, model: Model, data: ClientData, **keys: Any) -> None:
        if not ends_in_bias(model, data):
            raise DataError("needs a model whose last parameters are the bias of a linear layer, one for each class")

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        w, p = self._copies(self._token_sent(sent), len(clients)), self.heads[self._index(clients)]
        return {"x": personal(w, p), "w": w, "p": p}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        eta, w, p, counts = self.settings.step_size, work["w"], work["p"], self._label_counts(steps.clients)
        losses = w.new_zeros(())
        for rows in self._rows(work, steps, steps.first, steps.last):
            to_w, _ = self._gradient(balanced(w, counts), rows)
            to_x, loss = self._gradient(personal(w, p), rows)
            w, p = w - eta * to_w, p - eta * to_x[:, -p.shape[1] :]
            losses += loss.mean()
        return {"x": personal(w, p), "w": w, "p": p}, losses / (steps.last - steps.first)

    def combine(self, contact: Contact, work: Work) -> float:
        moved = self._replace_token(mean_by_samples(self, contact.clients, work["w"]))
        self.heads[self._index(contact.clients)] = work["p"]
        self._keep(contact.clients, work["x"])
        return moved

    def _label_counts(self, clients: IntArray) -> Tensor:
        """Count the training samples [S,c] of each label; counted anew, since labels change where clients move."""
        counts = self.token.new_zeros(len(clients), self.data.classes)
        for i, client in enumerate(clients.tolist()):
            first = int(self.data.first[client])
            labels = self.data.labels[first : first + int(self.data.train_count[client])]
            counts[i].index_add_(0, labels, counts.new_ones(len(labels)))
        return counts
