"""Accuracy and loss, at a cost in proportion to the clients whose models changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learning.algorithm import Algorithm, Constraint, IntArray

FloatArray = NDArray[np.float64]

SAMPLES_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Overview:
    """What needs all clients at once."""

    token_test_acc: float
    constraint: Constraint | None
    lagrangian: float | None
    lyapunov: float | None


class Evaluator:
    """Keeps every client's test accuracy and training loss; looks again only at clients that changed."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._data = algorithm.data
        self.test_count = self._data.test_count
        start = algorithm.models[0]  # everyone begins with the same model
        self.correct, self._train_loss = self._one_model_on_all(start)
        self._stale: set[int] = set()  # clients whose training loss is out of date
        self._acc_sum = float((self.correct / self.test_count).sum())
        self._correct_sum = int(self.correct.sum())
        self._smoothness: float | None = None
        self._smoothness_known = False

    @property
    def accuracy(self) -> FloatArray:
        """Test accuracy [n] of each client's own model."""
        return self.correct / self.test_count

    @property
    def personal_test_acc_mean(self) -> float:
        """Mean over clients."""
        return self._acc_sum / self._data.clients

    @property
    def personal_test_acc_weighted(self) -> float:
        """Mean over test samples."""
        return self._correct_sum / int(self.test_count.sum())

    def look_again(self, clients: IntArray) -> None:
        """Bring the test accuracies of clients whose models changed up to date."""
        for client in clients.tolist():
            first, end = int(self._data.test_first[client]), int(self._data.first[client + 1])
            scores = self._scores(self._algorithm.models[client], first, end)
            correct = int((scores.argmax(dim=1) == self._data.labels[first:end]).sum())
            change = correct - int(self.correct[client])
            self.correct[client] = correct
            self._correct_sum += change
            self._acc_sum += change / int(self.test_count[client])
            self._stale.add(client)

    def overview(self, progress: float) -> Overview:
        """Look at all clients: the token's accuracy, the constraint, L_β and M_β."""
        algorithm = self._algorithm
        correct, _ = self._one_model_on_all(algorithm.token)
        constraint = algorithm.constraint(progress)
        lagrangian = lyapunov = None
        if constraint is not None:
            lagrangian = float(self._train_losses().mean()) + constraint.penalty
            smoothness = self._smoothness_of_loss()
            if smoothness is not None:
                lyapunov = lagrangian + smoothness**2 * float(algorithm.last_step_sq.mean())
        return Overview(float((correct / self.test_count).mean()), constraint, lagrangian, lyapunov)

    def _train_losses(self) -> FloatArray:
        for client in sorted(self._stale):
            first = int(self._data.first[client])
            end = first + int(self._data.train_count[client])
            scores = self._scores(self._algorithm.models[client], first, end)
            self._train_loss[client] = float(torch.nn.functional.cross_entropy(scores, self._data.labels[first:end]))
        self._stale.clear()
        return self._train_loss

    def _one_model_on_all(self, x: Tensor) -> tuple[IntArray, FloatArray]:
        """Correct test answers [n] and mean training losses [n] of one model on everyone's data."""
        data = self._data
        right, loss = [], []
        for first in range(0, len(data.labels), SAMPLES_AT_ONCE):
            rows = slice(first, first + SAMPLES_AT_ONCE)
            scores = self._scores(x, rows.start, rows.stop)
            labels = data.labels[rows]
            right.append((scores.argmax(dim=1) == labels).cpu().numpy())
            loss.append(torch.nn.functional.cross_entropy(scores, labels, reduction="none").cpu().numpy())
        right_before = np.concatenate([[0], np.cumsum(np.concatenate(right))])
        loss_before = np.concatenate([[0.0], np.cumsum(np.concatenate(loss).astype(np.float64))])
        correct = right_before[data.first[1:]] - right_before[data.test_first]
        losses = (loss_before[data.test_first] - loss_before[data.first[:-1]]) / data.train_count
        return correct.astype(np.int64), losses

    def _scores(self, x: Tensor, first: int, end: int) -> Tensor:
        return self._algorithm.model.scores(x, self._data.features[first:end])

    def _smoothness_of_loss(self) -> float | None:
        if not self._smoothness_known:
            self._smoothness = self._algorithm.model.smoothness(self._data)
            self._smoothness_known = True
        return self._smoothness
