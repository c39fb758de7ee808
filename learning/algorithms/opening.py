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


class Opening(Algorithm):
    """Base class of algorithms that release their clients at `open_at` of the run.

    From then on the token is frozen; a client takes it once (one model down, nothing up) and keeps its own model.
    Subclass and override `start_together` and `combine_together`, which say what happens before.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.released = np.zeros(task.data.clients, dtype=bool)  # has taken the token since the opening

    def opened(self, progress: float) -> bool:
        """Return whether clients train alone now; with `open_at` of 1 or more they never do."""
        return progress >= self.settings.open_at and self.settings.open_at < 1

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        one = super().exchange(clients, progress)
        if self.opened(progress):
            return Exchange(one.bytes_down * ~self.released[clients], 0 * one.bytes_up, one.flops)
        return one

    def meeting(self, progress: float) -> Exchange:
        one = super().meeting(progress)
        return replace(one, bytes_down=0 * one.bytes_down, bytes_up=0 * one.bytes_up) if self.opened(progress) else one

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        """Return what clients start from; once released, each starts from its own model."""
        if not self.opened(progress):
            return self.start_together(clients, sent)
        x = self.models.index_select(0, self._index(clients))
        return {"x": self._own_or_token(x, self.released[clients], self._token_sent(sent))}

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        """Return what clients start from before the opening."""
        raise NotImplementedError

    def took(self, clients: IntArray, work: Work, progress: float) -> None:
        super().took(clients, work, progress)
        if self.opened(progress):
            self.released[clients] = True

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """Run SGD, with a pull before the opening."""
        x, loss = self._descend(work["x"], self._rows(work, steps, steps.first, steps.last), self.pull(work))
        return {**work, "x": x}, loss

    def pull(self, work: Work) -> Pull | None:
        """Return the pull on clients that train from `work`, if there is one."""
        return None

    def keeps(self, clients: IntArray, progress: float) -> NDArray[np.bool_]:
        """Of those not released yet the results are not used any more: the token is frozen."""
        return self.released[clients] | (not self.opened(progress))

    def combine(self, contact: Contact, work: Work) -> float:
        if not self.opened(contact.progress):
            return self.combine_together(contact, work)
        self._keep(contact.clients, work["x"])
        return 0.0

    def combine_together(self, contact: Contact, work: Work) -> float:
        """Store what clients hand over before the opening, move the token, and return how far it moved."""
        raise NotImplementedError

    def _own_or_token(self, x: Tensor, own: NDArray[np.bool_], token: Tensor) -> Tensor:
        """Select each client's model from x [S,d] where `own` is set, else its token, [d] or [S,d]."""
        return x if own.all() else torch.where(self._column(own), x, token)

    def _column(self, flags: NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(flags).to(self.device).unsqueeze(1)
