"""The last part of a run: clients take the token once more, and then each trains on its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Exchange, IntArray, Task, Update


class Opening(Algorithm):
    """Base of algorithms that let go of their clients at `open_at` of the run.

    From then on the token stays as it is; a client takes it once (bytes down once, nothing up) and keeps its own model.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.released = np.zeros(task.data.clients, dtype=bool)  # took the token since the opening

    def opened(self, progress: float) -> bool:
        """Whether clients train on their own now; an `open_at` of 1 or more is never."""
        return progress >= self.settings.open_at and self.settings.open_at < 1

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        whole = super().exchange(clients, progress)
        if self.opened(progress):
            return Exchange(whole.bytes_down * ~self.released[clients], 0 * whole.bytes_up, whole.flops)
        return whole

    def meeting(self, progress: float) -> Exchange:
        whole = super().meeting(progress)
        return (
            replace(whole, bytes_down=0 * whole.bytes_down, bytes_up=0 * whole.bytes_up)
            if self.opened(progress)
            else whole
        )

    def _train_alone(self, clients: IntArray) -> Update:
        """Plain SGD from the client's own model, or from the token where it was not taken yet."""
        index = self._index(clients)
        before = self.models.index_select(0, index)
        x = self._or_token(before, self.released[clients], self.tokens(clients))
        x, loss = self._descend(x, self._batches(clients))
        self.released[clients] = True
        self._store(index, before, x)
        return Update(float(loss), self.steps, 0.0)

    def _or_token(self, x: Tensor, own: NDArray[np.bool_], token: Tensor) -> Tensor:
        """The clients' models x [S,d] where they have their own, else the token [d], or each its own [S,d]."""
        return x if own.all() else torch.where(self._column(own), x, token)

    def _column(self, flags: NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(flags).to(self.device).unsqueeze(1)
