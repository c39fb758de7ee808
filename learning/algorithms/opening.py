"""The last part of a run: clients take the token once more, then each trains alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.steps import Pull


def mean_token(total: Tensor, count: Tensor, token: Tensor) -> Tensor:
    """y = Σ y_t / T over T late tokens with this sum [d] and count [1]; the token [d] itself if there are none."""
    return torch.where(count > 0, total / count, token)


class Opening(Algorithm):
    """Base class of algorithms that release their clients at `open_at` of the run.

    From then on the token is frozen; a client takes it once (one model down, nothing up) and keeps its own model.
    Subclass and override `start_together` and `combine_together`, which say what happens before. Two options, both
    off unless the constructor of a subclass sets them: `average_tokens`, and `alone_step_size`, the step size after
    the opening.
    """

    token_mean = 0.0  # share of the time before the opening over whose tokens the mean is taken
    alone_step_size: float | None = None  # None: as before the opening
    late_sum: Tensor  # [d] sum of the tokens of that time
    late_count: Tensor  # [1] how many they are; a fraction after vehicles that met have averaged theirs

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.released = np.zeros(task.data.clients, dtype=bool)  # has taken the token since the opening

    def opened(self, progress: float) -> bool:
        """Return whether clients train alone now; with `open_at` of 1 or more they never do."""
        return progress >= self.settings.open_at and self.settings.open_at < 1

    def frozen(self, progress: float) -> bool:
        return self.opened(progress)

    def average_tokens(self, share: float) -> None:
        """Let clients take at the opening the mean of the tokens over the last `share` of the time before; 0: do not.

        Vehicles carry sum and number of these tokens, so that the mean of those that meet is over the tokens of both.
        """
        if share > 0:
            self.token_mean = share
            self.late_sum, self.late_count = torch.zeros_like(self.token), self.token.new_zeros(1)
            self.carried = (*self.carried, "late_sum", "late_count")

    def late(self, progress: float) -> bool:
        """Return whether tokens enter the mean that clients take at the opening."""
        opens_at = self.settings.open_at
        return self.token_mean > 0 and opens_at * (1 - self.token_mean) <= progress < opens_at

    def last_token(self) -> Tensor:
        """Return the token that clients take at the opening: the mean of the late ones, or the present one."""
        return mean_token(self.late_sum, self.late_count, self.token) if self.token_mean else self.token

    def tokens(self, clients: IntArray) -> Tensor:
        return self.last_token() if self.token_mean and self.released.any() else super().tokens(clients)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        if self.token_mean and self.opened(progress):
            return [{"token": self.last_token()}] * len(clients)
        return super().send(clients, progress, visited, near)

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        one = super().exchange(clients, progress)
        if self.opened(progress):
            return Exchange(one.bytes_down * ~self.released[clients], 0 * one.bytes_up, one.flops)
        return one

    def meeting(self, progress: float) -> Exchange:
        one = super().meeting(progress)
        times = 0 if self.opened(progress) else 2 if self.late(progress) else 1  # the sum of late tokens goes along
        return replace(one, bytes_down=times * one.bytes_down, bytes_up=times * one.bytes_up)

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        """Return what clients start from; once released, each starts from its own model."""
        if not self.opened(progress):
            return self.start_together(clients, sent)
        x = self.models.index_select(0, self._index(clients))
        x = self._own_or_token(x, self.released[clients], self._token_sent(sent))
        return {"x": x, "alone": x.new_ones(len(clients), 1)}

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        """Return what clients start from before the opening."""
        raise NotImplementedError

    def took(self, clients: IntArray, work: Work, progress: float) -> None:
        super().took(clients, work, progress)
        if self.opened(progress):
            self.released[clients] = True

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """Run SGD, with a pull before the opening."""
        batches = self._rows(work, steps, steps.first, steps.last)
        x, loss = self._descend(work["x"], batches, self.pull(work), self.alone_step_size if "alone" in work else None)
        return {**work, "x": x}, loss

    def pull(self, work: Work) -> Pull | None:
        """Return the pull on clients that train from `work`, if there is one."""
        return None

    def keeps(self, clients: IntArray, progress: float) -> NDArray[np.bool_]:
        """Of those not released yet the results are not used any more: the token is frozen."""
        return self.released[clients] | (not self.opened(progress))

    def combine(self, contact: Contact, work: Work) -> float:
        if self.opened(contact.progress):
            self._keep(contact.clients, work["x"])
            return 0.0
        moved = self.combine_together(contact, work)
        if self.late(contact.progress):
            self.late_sum, self.late_count = self.late_sum + self.token, self.late_count + 1
        return moved

    def combine_together(self, contact: Contact, work: Work) -> float:
        """Store what clients hand over before the opening, move the token, and return how far it moved."""
        raise NotImplementedError

    def _own_or_token(self, x: Tensor, own: NDArray[np.bool_], token: Tensor) -> Tensor:
        """Select each client's model from x [S,d] where `own` is set, else its token, [d] or [S,d]."""
        return x if own.all() else torch.where(self._column(own), x, token)

    def _column(self, flags: NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(flags).to(self.device).unsqueeze(1)
