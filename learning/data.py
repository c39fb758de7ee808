"""The clients' data: one tensor for all, and which rows are whose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ClientData:
    """Samples of n clients. Client i's rows are contiguous: first its training part, then its test part."""

    features: Tensor  # [N,f] float32
    labels: Tensor  # [N] int64
    classes: int
    first: IntArray  # [n+1] where each client's rows begin; the last entry is N
    train_count: IntArray  # [n]

    @property
    def clients(self) -> int:
        return len(self.train_count)

    @property
    def test_first(self) -> IntArray:
        return self.first[:-1] + self.train_count

    @property
    def test_count(self) -> IntArray:
        return self.first[1:] - self.test_first

    def to(self, device: torch.device) -> ClientData:
        return ClientData(self.features.to(device), self.labels.to(device), self.classes, self.first, self.train_count)


def split_clients(
    features: NDArray[np.float32], labels: IntArray, sizes: IntArray, classes: int, test_share: float
) -> ClientData:
    """Client data from samples in the order of clients, `sizes` [n] each, in random order within a client.

    The last share of each client's samples is for testing; every client keeps at least one on either side.
    """
    too_small = np.flatnonzero(sizes < 2)
    if too_small.size:
        raise ValueError(
            f"client {too_small[0]} has {sizes[too_small[0]]} samples; it needs one to learn from and one to test"
        )
    test_count = np.clip(np.rint(sizes * test_share).astype(np.int64), 1, sizes - 1)
    return ClientData(
        torch.from_numpy(features),
        torch.from_numpy(labels),
        classes,
        np.concatenate([[0], np.cumsum(sizes)]),
        sizes - test_count,
    )
