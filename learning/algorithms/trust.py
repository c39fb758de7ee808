"""A trust region: no model moves much farther in a visit than is usual."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.steps import kernels_for

MOST = 200  # moves that are remembered at most, so that the cost of a contact does not grow with the clients
FEWEST = 5  # moves that must be known before any is limited


class TrustRegion:
    """Limits moves to a multiple of the median of the last moves.

    A client whose steps are too long for its data would wind up its dual, and the token with it. The limit is a number
    that the vehicle sends beside the token.
    """

    def __init__(self, factor: float, clients: int, like: Tensor) -> None:
        self.factor = factor
        self._lengths = like.new_zeros(min(2 * clients, MOST))  # of the last moves, as far as allowed; nan: not finite
        self._enough = max(FEWEST, len(self._lengths) // 4)
        self._count = 0

    def limited(self, x: Tensor, start: Tensor) -> Tensor:
        """x ← start + min(1, r/|x − start|)·(x − start) for models x [S,d], r = factor · median; notes the moves.

        A model that is not finite is replaced by its start.
        """
        if len(x) == 1 and kernels_for(x, start):  # the usual case, which copies nothing
            from fedmule.learning.algorithms import tube_kernels  # slow to import

            return self._limited_one(x, start, tube_kernels.distance(x.numpy()[0], start.numpy()[0]))
        move = x - start
        length = torch.linalg.vector_norm(move, dim=1, keepdim=True)  # [S,1]
        sound = length.isfinite()
        x, length = torch.where(sound, x, start), torch.where(sound, length, torch.nan)
        if self._count >= self._enough:
            most = self.factor * self._lengths[: self._count].nanmedian()
            x = torch.where(length > most, start + move * (most / length), x)
            length = torch.where(length > most, most, length)
        self._note(length.flatten())
        return x

    def _limited_one(self, x: Tensor, start: Tensor, length: float) -> Tensor:
        """Do the same for one model, on a CPU, whose move has this length."""
        most = self._most()
        if not math.isfinite(length):
            x, length = start, math.nan
        elif length > most:
            x, length = start + (x - start) * (most / length), most
        self._lengths.numpy()[self._count % len(self._lengths)] = length
        self._count += 1
        return x

    def _most(self) -> float:
        """The longest move that is allowed now."""
        if self._count < self._enough:
            return math.inf
        known = np.sort(self._lengths.numpy()[: self._count])  # nan last
        finite = len(known) if known[-1] == known[-1] else int(np.isfinite(known).sum())
        return self.factor * float(known[(finite - 1) // 2]) if finite else math.nan

    def _note(self, lengths: Tensor) -> None:
        """Enter the lengths [S] of moves in place of the oldest."""
        size = len(self._lengths)
        lengths = lengths[-size:]
        at = torch.from_numpy((self._count + np.arange(len(lengths))) % size).to(self._lengths.device)
        self._lengths.index_copy_(0, at, lengths)
        self._count += len(lengths)
