"""The last part of a run: clients take the token once more, then each trains alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Exchange, IntArray, Task, Update


class Opening(Algorithm):
    """Base class of algorithms that release their clients at `open_at` of the run.

    From then on the token is frozen; a client takes it once (one model down, nothing up) and keeps its own model.
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

    def _train_alone(self, clients: IntArray) -> Update:
        """Run SGD from each client's own model, or from the token if the client has not taken it yet."""
        index = self._index(clients)
        before = self.models.index_select(0, index)
        x = self._own_or_token(before, self.released[clients], self.tokens(clients))
        x, loss = self._descend(x, self._batches(clients))
        self.released[clients] = True
        self._store(index, before, x)
        return Update(float(loss), self.steps, 0.0)

    def _own_or_token(self, x: Tensor, own: NDArray[np.bool_], token: Tensor) -> Tensor:
        """Select each client's model from x [S,d] where `own` is set, else its token, [d] or [S,d]."""
        return x if own.all() else torch.where(self._column(own), x, token)

    def _column(self, flags: NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(flags).to(self.device).unsqueeze(1)
