"""FedBABU (Oh, Kim, Yun 2022, "FedBABU: Toward Enhanced Representation for Federated Image Classification", ICLR)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fedmule.learning.algorithms.base import Contact, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.algorithms.body_and_head import SharedBody
from fedmule.learning.algorithms.opening import Opening


class FedBABU(SharedBody, Opening):
    """FedAvg of the body under a head that stays as it was at the random start, the same for all clients.

    From `open_at` of the run on, clients take the body once more and fine-tune body and head alone. One gradient per
    local step; one body down and one up, then nothing.
    """

    def __init__(self, task: Task, token_mean: float, fine_tune_step_size: float | None) -> None:
        super().__init__(task)
        self.average_tokens(token_mean)
        self.alone_step_size = fine_tune_step_size

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        return {"x": self._copies(self._token_sent(sent), len(clients))}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """b ← b − ηg_b before the opening; then SGD on everything."""
        if "alone" in work:
            return super().train(work, steps)
        batches = self._rows(work, steps, steps.first, steps.last)
        x, losses = self.train_part(work["x"], batches, slice(self.body))
        return {"x": x}, losses / len(batches)

    def combine_together(self, contact: Contact, work: Work) -> float:
        return self.average_bodies(contact.clients, work["x"])
