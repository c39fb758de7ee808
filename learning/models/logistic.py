"""Multinomial logistic regression, for many clients' parameters at once."""

from __future__ import annotations

import torch
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.mlp import MLP

SMALL = 128  # of the smaller side of a matrix, up to which singular values are quick
CHANGE = 1e-7  # relative, of an eigenvalue in one iteration, that is small enough to stop
MOST = 1000  # iterations


class MLR(MLP):
    """A linear layer and softmax; the vector [d] holds the weights [c,f] row by row, then the bias [c]."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, hidden=())
        self.features = features
        self.classes = classes

    def flops(self, samples: int) -> float:
        """Return the floating-point operations of one gradient over this many samples."""
        forward = 2 * samples * self.features * self.classes + samples * self.classes
        softmax = 4 * samples * self.classes
        backward = 2 * samples * self.features * self.classes + samples * self.classes
        return float(forward + softmax + backward)

    def smoothness(self, data: ClientData) -> float | None:
        """L = max over clients of λ_max(second-moment matrix of the features and a constant 1) / 2."""
        largest = 0.0
        for first, count in zip(data.first[:-1], data.train_count, strict=True):
            x = data.features[first : first + count]
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
            largest = max(largest, squared_norm(x) / (2 * int(count)))
        return largest


def squared_norm(x: Tensor) -> float:
    """λ_max(xᵀx) of a matrix [N,f], by power iteration where singular values would take long.

    That is never more, but for rounding, and hardly less: by 1e-5 where many eigenvalues are close to the largest.
    """
    if min(x.shape) <= SMALL:
        return float(torch.linalg.matrix_norm(x, 2)) ** 2
    v = x.mean(dim=0)  # of features that are not centred this is nearly the eigenvector
    found = 0.0
    for _ in range(MOST):
        v = v / v.norm()
        ahead = x @ v
        before, found = found, float(ahead @ ahead)
        if not found - before > CHANGE * found:
            break
        v = x.T @ ahead
    return found
