"""FedAvg (McMahan et al. 2017), carried by the vehicle, with optional fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Task, Work
from fedmule.learning.algorithms.opening import Opening


def weighted_mean(x: Tensor, samples: Tensor) -> Tensor:
    """y = Σ n_i x_i / Σ n_i over models x [S,d] with n_i samples [S]."""
    weights = samples / samples.sum()
    return (weights.unsqueeze(1) * x).sum(dim=0)


def mean_by_samples(algorithm: Algorithm, clients: IntArray, x: Tensor) -> Tensor:
    """Return the mean of these clients' models x [S,d], weighted by their training samples."""
    return weighted_mean(x, x.new_tensor(algorithm.data.train_count[clients].astype(np.float32)))


class FedAvg(Opening):
    """Clients take local steps from the token; the token becomes the weighted mean of the delivered models.

    With `fine_tune`, from `open_at` of the run on, clients take the token once more and then train alone.
    """

    def __init__(self, task: Task, fine_tune: bool) -> None:
        super().__init__(task)
        self.fine_tune = fine_tune

    def opened(self, progress: float) -> bool:
        return self.fine_tune and super().opened(progress)

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        return {"x": self._copies(self._token_sent(sent), len(clients))}

    def combine_together(self, contact: Contact, work: Work) -> float:
        moved = self._replace_token(mean_by_samples(self, contact.clients, work["x"]))
        self._keep(contact.clients, work["x"])
        return moved


class FineTuned(FedAvg):
    """FedAvg with fine-tuning, from the mean of the tokens of the time before and with a step size of its own.

    `token_mean` is the share of that time, 0 for the last token; `fine_tune_step_size` None is `learning.step_size`.
    """

    def __init__(self, task: Task, fine_tune: bool, token_mean: float, fine_tune_step_size: float | None) -> None:
        super().__init__(task, fine_tune)
        self.average_tokens(token_mean)
        self.alone_step_size = fine_tune_step_size
