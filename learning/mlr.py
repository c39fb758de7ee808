"""Multinomial logistic regression, for many clients' parameters at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from learning.data import ClientData


def softmax_error(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of the mean cross-entropy of scores [S,B,c] with labels [S,B]: its gradient [S,B,c] and its value [S]."""
    log_p = torch.log_softmax(scores, dim=2)
    index = labels.unsqueeze(2)
    loss = -log_p.gather(2, index).mean(dim=(1, 2))
    error = log_p.exp_()
    error.scatter_add_(2, index, error.new_full((), -1.0).expand(index.shape))
    error /= labels.shape[1]
    return error, loss


class MLR:
    """A linear layer and softmax; parameters are one vector [d]: the weights [f,c] row by row, then the bias [c]."""

    def __init__(self, features: int, classes: int) -> None:
        self.features = features
        self.classes = classes
        self.parameters = (features + 1) * classes

    def start(self, generator: np.random.Generator) -> Tensor:
        """A random model [d]."""
        bound = self.features**-0.5
        return torch.from_numpy(generator.uniform(-bound, bound, self.parameters).astype(np.float32))

    def gradient(self, x: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients [S,d] and losses [S] of S models x [S,d], each on its own batch [S,B,f], [S,B]."""
        weights, bias = self._split(x)
        scores = torch.baddbmm(bias.unsqueeze(1), features, weights)  # [S,B,c]
        error, loss = softmax_error(scores, labels)
        gradient = torch.empty_like(x)
        to_weights, to_bias = self._split(gradient)
        torch.bmm(features.transpose(1, 2), error, out=to_weights)
        torch.sum(error, dim=1, out=to_bias)
        return gradient, loss

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        """Class scores [N,c] of one model x [d] on samples [N,f]."""
        weights, bias = self._split(x.unsqueeze(0))
        return torch.addmm(bias[0], features, weights[0])

    def flops(self, samples: int) -> float:
        """Floating-point operations of one gradient over this many samples."""
        forward = 2 * samples * self.features * self.classes + samples * self.classes
        softmax = 4 * samples * self.classes
        backward = 2 * samples * self.features * self.classes + samples * self.classes
        return float(forward + softmax + backward)

    def smoothness(self, data: ClientData) -> float | None:
        """L: the largest over clients of half the largest eigenvalue of its second-moment matrix (with bias)."""
        largest = 0.0
        for first, count in zip(data.first[:-1], data.train_count, strict=True):
            x = data.features[first : first + count]
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
            largest = max(largest, float(torch.linalg.matrix_norm(x, 2)) ** 2 / (2 * int(count)))
        return largest

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cut = self.features * self.classes
        return x[:, :cut].view(len(x), self.features, self.classes), x[:, cut:]
