"""The clients' data: one tensor for all, and which rows are whose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ClientData:
    """Samples of n clients. Client i's rows are contiguous: first its training part, then validation, then test."""

    features: Tensor  # [N,f] float32
    labels: Tensor  # [N] int64
    classes: int
    first: IntArray  # [n+1] where each client's rows begin; the last entry is N
    train_count: IntArray  # [n]
    validation_count: IntArray | None = None  # [n]; None for none
    shape: tuple[int, ...] = ()  # of one sample, such as (channels, height, width); () for plain features
    place: IntArray | None = None  # [n] where each client is at home, such as its squad; None where it does not matter

    @property
    def clients(self) -> int:
        return len(self.train_count)

    @property
    def validation_first(self) -> IntArray:
        return self.first[:-1] + self.train_count

    @property
    def test_first(self) -> IntArray:
        return self.validation_first + (0 if self.validation_count is None else self.validation_count)

    @property
    def test_count(self) -> IntArray:
        return self.first[1:] - self.test_first

    def to(self, device: torch.device) -> ClientData:
        return replace(self, features=self.features.to(device), labels=self.labels.to(device))
