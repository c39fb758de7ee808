"""How much of the mean dual is given back to clients: less, the more the token is fitted to the samples it has seen."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.algorithms.base import IntArray, Task
from fedmule.learning.steps import losses, scores

EVERY = 4  # one client in four holds samples out until the opening, …
HELD_OUT = 0.25  # … this share of its training samples
MOST = 100  # samples of either kind, learnt from and held out, on which it evaluates the token
MEMORY = 0.9  # weight of what was known at the next report
UNKNOWN = 0.5  # ζ before anything has been reported

Centre = float | Literal["held_out"]


def share_back(learnt: float, held_out: float) -> float:
    """ζ = min(1, l/h), the loss on samples learnt from divided by that on samples held out."""
    return min(1.0, learnt / held_out) if held_out > 0 else UNKNOWN


class Overfitting:
    """One client in four evaluates tokens it is sent, on samples that it learns from and on others that it holds out.

    A token with the same loss on both is fitted to what all clients have in common. One with a smaller loss on the
    samples learnt from has learnt some of them by heart.
    """

    def __init__(self, task: Task, centre: Centre) -> None:
        self._data, self._model = task.data, task.model
        self._none = torch.full((1, 2), torch.nan, dtype=task.start.dtype).to(task.start.device)
        count = task.data.train_count
        self.held = np.floor(HELD_OUT * count * (np.arange(len(count)) % EVERY == 0) * (centre == "held_out"))
        self.held = self.held.astype(np.int64)  # [n] the last training samples of each client
        self.anybody = bool(self.held.any())

    def losses(self, clients: IntArray, y: Tensor) -> Tensor:
        """Return the mean losses [S,2] of tokens y, [d] or [S,d], on samples learnt from and held out; nan if none."""
        none = self._none.expand(len(clients), -1)  # [S,2]
        held = self.held[clients].tolist()
        if not any(held):
            return none
        who = zip(clients.tolist(), y.expand(len(clients), -1), none, held, strict=True)
        return torch.stack([self._losses(client, token) if held else none for client, token, none, held in who])

    def _losses(self, client: int, y: Tensor) -> Tensor:
        data, held = self._data, int(self.held[client])
        middle = int(data.first[client] + data.train_count[client]) - held
        learnt, out = min(middle - int(data.first[client]), MOST), min(held, MOST)
        rows = slice(middle - learnt, middle + out)
        loss = losses(scores(self._model, data, y, rows), data.labels[rows])
        return torch.stack([loss[:learnt].mean(), loss[learnt:].mean()])
