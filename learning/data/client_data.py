"""The data of all clients in one tensor, and which rows belong to which client."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.data.prior import Prior, count_labels
from fedmule.learning.errors import DataError

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ClientData:
    """Samples of n clients. Client i's rows are contiguous: first its training part, then validation, then test."""

    features: Tensor  # [N,f] float32
    labels: Tensor  # [N] int64
    classes: int
    first: IntArray  # [n+1] first row of each client; the last entry is N
    train_count: IntArray  # [n]
    validation_count: IntArray | None = None  # [n]; None if there is no validation part
    shape: tuple[int, ...] = ()  # of one sample, such as (channels, height, width); () for plain features
    site: IntArray | None = None  # [n] each client's site, such as its squad; None if sites do not matter
    prior: Prior | None = None  # added to the scores of clients' models; None: nothing is added

    @property
    def clients(self) -> int:
        """Number of clients n."""
        return len(self.train_count)

    @cached_property
    def validation_first(self) -> IntArray:
        """First validation row [n] of each client."""
        return self.first[:-1] + self.train_count

    @cached_property
    def test_first(self) -> IntArray:
        """First test row [n] of each client."""
        return self.validation_first + (0 if self.validation_count is None else self.validation_count)

    @cached_property
    def test_count(self) -> IntArray:
        """Number of test samples [n] of each client."""
        return self.first[1:] - self.test_first

    def check(self, clients: int) -> None:
        """Raise a DataError unless these are valid data of this many clients."""
        if not (isinstance(self.features, Tensor) and isinstance(self.labels, Tensor)):
            raise DataError("features and labels must be torch tensors")
        if self.features.dtype != torch.float32:
            raise DataError(f"features must be float32, not {self.features.dtype}")
        check_features(self.features, self.shape)
        check_labels(self.labels, len(self.features), self.classes, self.labels.dtype == torch.int64)
        _check_counts("first", self.first, clients + 1)
        _check_counts("train_count", self.train_count, clients)
        if self.validation_count is not None:
            _check_counts("validation_count", self.validation_count, clients)
        if self.first[0] != 0 or self.first[-1] != len(self.labels) or (np.diff(self.first) < 0).any():
            raise DataError(f"first must increase from 0 to the number of samples, {len(self.labels)}")
        for name, count in (("training", self.train_count), ("test", self.test_count)):
            if count.min() < 1:
                client = int(np.argmin(count))
                raise DataError(f"client {client} has {count[client]} {name} samples; every client needs at least one")

    def to(self, device: torch.device) -> ClientData:
        """Return the same data with features, labels and prior on this device."""
        prior = None if self.prior is None else self.prior.to(device)
        return replace(self, features=self.features.to(device), labels=self.labels.to(device), prior=prior)

    def with_prior(self, extra: float | None) -> ClientData:
        """Return the same data with a prior that adds `extra` to the count of every label; None: without a prior."""
        return replace(self, prior=None if extra is None else count_labels(self, extra))


def check_features(features: Any, shape: tuple[int, ...]) -> None:
    """Raise a DataError unless features are finite numbers [N,f] and f matches the shape of a sample, if given."""
    if features.ndim != 2 or features.shape[1] == 0:
        raise DataError(
            f"features must have the shape [samples, features], not {tuple(features.shape)}; flatten each image to a "
            "row and pass the shape of an image as `shape`"
        )
    if not len(features):
        raise DataError("there are no samples")
    if shape and math.prod(shape) != features.shape[1]:
        raise DataError(f"samples of shape {tuple(shape)} have {math.prod(shape)} features, not {features.shape[1]}")
    if not math.isfinite(features.min()) or not math.isfinite(features.max()):
        row, feature = np.argwhere(~np.isfinite(np.asarray(features)))[0]
        raise DataError(f"row {row}, feature {feature} is not a finite number (or too large for float32)")


def check_labels(labels: Any, samples: int, classes: int, integral: bool) -> None:
    """Raise a DataError unless labels [N] are whole numbers 0 … classes − 1, with at least two classes."""
    if not isinstance(classes, (int, np.integer)) or classes < 2:
        raise DataError(f"classes must be a whole number, 2 or more, not {classes}")
    if not integral:
        raise DataError(f"labels must be whole numbers (int64), not {labels.dtype}")
    if tuple(labels.shape) != (samples,):
        raise DataError(f"labels must have the shape ({samples},), one per sample, not {tuple(labels.shape)}")
    if labels.min() < 0 or labels.max() >= classes:
        wrong = np.asarray((labels < 0) | (labels >= classes))
        row = int(np.argmax(wrong))
        raise DataError(f"row {row} has label {int(labels[row])}; labels must be 0 to {classes - 1}")


def _check_counts(name: str, counts: Any, length: int) -> None:
    valid = isinstance(counts, np.ndarray) and counts.dtype.kind in "iu" and counts.shape == (length,)
    if not valid or counts.min() < 0:
        raise DataError(f"{name} must be a numpy array of {length} whole numbers, 0 or more")
