"""Accuracy and loss of models, evaluated at a cost in proportion to the clients whose models changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Constraint, IntArray
from fedmule.learning.steps import scores

FloatArray = NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)

SAMPLES_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Overview:
    """Results that need all clients at once."""

    token_test_acc: FloatArray  # [n] accuracy of the token on each client's test data
    constraint: Constraint | None
    lagrangian: float | None
    lyapunov: float | None
    alone_test_acc: FloatArray | None = None  # [n] of models trained alone; nan for clients outside the sample


class Score:
    """Samples of one part of its data that each client's model classifies correctly, and the mean accuracy."""

    def __init__(self, first: IntArray, count: IntArray, correct: IntArray) -> None:
        self.first, self.count, self.correct = first, count, correct  # [n] each
        self._accuracies = float((correct / count).sum())
        self._corrects = int(correct.sum())

    @property
    def accuracy(self) -> FloatArray:
        """Accuracy [n] of each client's own model."""
        return self.correct / self.count

    @property
    def mean(self) -> float:
        """Mean accuracy over clients."""
        return self._accuracies / len(self.count)

    @property
    def weighted(self) -> float:
        """Mean accuracy over samples."""
        return self._corrects / int(self.count.sum())

    def replace(self, client: int, correct: int) -> None:
        """Replace a client's number of correct samples."""
        change = correct - int(self.correct[client])
        self.correct[client] = correct
        self._corrects += change
        self._accuracies += change / int(self.count[client])


class Evaluator:
    """Keeps every client's test accuracy and training loss; evaluates only clients that changed."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._data = data = algorithm.data
        start = algorithm.models[0]  # everyone begins with the same model
        right, self._train_loss = self._one_model_on_all(start)
        self.start_loss = float(self._train_loss.mean())  # of the start model, mean over clients
        self.test = Score(data.test_first, data.test_count, _per_client(right, data.test_first, data.test_count))
        self.validation: Score | None = None
        if data.validation_count is not None and data.validation_count.all():
            part = data.validation_first, data.validation_count
            self.validation = Score(*part, _per_client(right, *part))
        rows = np.arange(data.first[-1])
        test = rows >= np.repeat(data.test_first, np.diff(data.first))
        self._test_rows = torch.from_numpy(rows[test]).to(data.labels.device)
        self._changed: set[int] = set()  # clients whose accuracies are out of date
        self._stale: set[int] = set()  # those whose training loss is
        self.smoothness: float | None = None  # L of the clients' losses, once a constraint needed it
        self._smoothness_known = False

    def changed(self, clients: IntArray) -> None:
        """Note that the models or the data of these clients have changed."""
        self._changed.update(clients.tolist())
        self._stale.update(clients.tolist())

    def trained(self, clients: IntArray) -> None:
        """Note that these clients hold other models now than those the algorithm knows."""
        self._changed.update(clients.tolist())

    def refresh(self, held: Callable[[int], Tensor] | None = None) -> None:
        """Bring the accuracies of clients that changed up to date; `held` finds the model [d] that a client holds."""
        clients = sorted(self._changed)
        models = [held(client) if held else self._algorithm.models[client] for client in clients]
        for score in (self.test, self.validation):
            if score is not None and clients:
                both = zip(models, clients, strict=True)
                right = torch.stack([self._correct(model, score, client) for model, client in both])
                for client, correct in zip(clients, right.cpu().tolist(), strict=True):
                    score.replace(client, correct)
        self._changed.clear()

    def overview(self, progress: float) -> Overview:
        """Evaluate all clients: their accuracies, the token's, the constraint, L_β and M_β."""
        self.refresh()
        algorithm = self._algorithm
        token_acc = self.token_accuracy()
        constraint = algorithm.constraint(progress)
        lagrangian = lyapunov = None
        if constraint is not None:
            lagrangian = float(self._train_losses().mean()) + constraint.penalty
            smoothness = self._smoothness_of_loss()
            if smoothness is not None:
                lyapunov = lagrangian + smoothness**2 * float(algorithm.last_step_sq.mean())
        return Overview(token_acc, constraint, lagrangian, lyapunov)

    def token_accuracy(self) -> FloatArray:
        """Accuracy [n] of the token on each client's test data."""
        test = self.test
        tokens = self._algorithm.tokens(np.arange(len(test.count)))
        if tokens.dim() == 1:  # one for all
            right = self._right_on_tests(tokens)
            return _per_client(right, np.cumsum(test.count) - test.count, test.count) / test.count
        correct = torch.stack([self._correct(x, test, client) for client, x in enumerate(tokens)])
        return np.asarray(correct.cpu().numpy() / test.count, dtype=np.float64)

    def _correct(self, x: Tensor, score: Score, client: int) -> Tensor:
        """How many of a client's samples a model classifies correctly: a number that stays on the device."""
        first = int(score.first[client])
        rows = slice(first, first + int(score.count[client]))
        return (self._scores(x, rows).argmax(dim=1) == self._data.labels[rows]).sum()

    def _train_losses(self) -> FloatArray:
        stale, losses = sorted(self._stale), []
        for client in stale:
            first = int(self._data.first[client])
            rows = slice(first, first + int(self._data.train_count[client]))
            found = self._scores(self._algorithm.models[client], rows)
            losses.append(torch.nn.functional.cross_entropy(found, self._data.labels[rows]))
        if stale:
            self._train_loss[stale] = torch.stack(losses).cpu().numpy()
        self._stale.clear()
        return self._train_loss

    def _right_on_tests(self, x: Tensor) -> IntArray:
        """Which test samples one model classifies correctly (1, else 0), client by client."""
        data, right = self._data, []
        for first in range(0, len(self._test_rows), SAMPLES_AT_ONCE):
            rows = self._test_rows[first : first + SAMPLES_AT_ONCE]
            right.append((self._scores(x, rows).argmax(dim=1) == data.labels[rows]).cpu().numpy())
        return np.concatenate(right).astype(np.int64)

    def _one_model_on_all(self, x: Tensor) -> tuple[IntArray, FloatArray]:
        """Which samples [N] one model classifies correctly (1, else 0), and its mean training loss on clients [n]."""
        data = self._data
        right, loss = [], []
        for first in range(0, len(data.labels), SAMPLES_AT_ONCE):
            rows = slice(first, first + SAMPLES_AT_ONCE)
            found, labels = self._scores(x, rows), data.labels[rows]
            right.append((found.argmax(dim=1) == labels).cpu().numpy())
            loss.append(torch.nn.functional.cross_entropy(found, labels, reduction="none").cpu().numpy())
        losses = _per_client(np.concatenate(loss).astype(np.float64), data.first[:-1], data.train_count)
        return np.concatenate(right).astype(np.int64), losses / data.train_count

    def _scores(self, x: Tensor, rows: Tensor | slice) -> Tensor:
        return scores(self._algorithm.model, self._data, x, rows)

    def _smoothness_of_loss(self) -> float | None:
        if not self._smoothness_known:
            self.smoothness = self._algorithm.model.smoothness(self._data)
            self._smoothness_known = True
        return self.smoothness


def _per_client(values: NDArray[Number], first: IntArray, count: IntArray) -> NDArray[Number]:
    """Sums [n] of per-sample values [N] over each client's rows first … first + count."""
    before = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=before[1:])
    sums: NDArray[Number] = before[first + count] - before[first]
    return sums
