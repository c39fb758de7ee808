"""Small problems, and independent float64 numpy computations to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from making import HIDDEN, make, synthetic

from fedmule.learning.algorithms.base import Algorithm, Contact
from fedmule.learning.algorithms.neighbourhood import Neighbours
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.partition import by_column, split
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.mlp import MLP
from fedmule.simulator.streams import Streams


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Problem:
    """Data, model, start and batches; `build` builds an algorithm for them."""

    data: ClientData
    model: Any
    start: torch.Tensor
    draw: Callable

    def build(self, kind: str, reference: Algorithm | None = None, **keys: Any) -> Any:
        return make(kind, self.data, self.model, self.start, self.draw, reference, **keys)


def in_double(data: ClientData) -> ClientData:
    return ClientData(data.features.double(), data.labels, data.classes, data.first, data.train_count)


@pytest.fixture
def problem() -> Callable[..., Problem]:
    """A small Synthetic problem with unequal clients, in float64 by default; with a hidden layer if `kind` needs it."""

    def make(
        clients: int = 7, seed: int = 1, double: bool = True, features: int = 5, samples=(6, 120), kind: str = ""
    ) -> Problem:
        streams = Streams(seed)
        pool = synthetic(clients, streams.generator("data"), features=features, classes=3, samples=samples)
        data = split(pool, by_column(pool, clients, streams.generator("split")), streams.generator("split"))
        model = MLP(features, 3, (4,)) if kind in HIDDEN else MLR(features, 3)
        start = model.start(streams.generator("model"))
        if double:
            data, start = in_double(data), start.double()
        return Problem(data, model, start, streams.draw("batches"))

    return make


@pytest.fixture
def shared() -> Callable[..., Problem]:
    """Clients whose samples follow one linear model, so collaboration helps."""

    def make(clients: int = 20, seed: int = 1, samples: int = 40, test_share: float = 0.5, classes: int = 4) -> Problem:
        streams = Streams(seed)
        generator = streams.generator("data")
        weights = generator.normal(size=(8, classes))
        features = torch.from_numpy(generator.normal(size=(clients * samples, 8)).astype(np.float32))
        labels = (features @ torch.from_numpy(weights).float()).argmax(dim=1)
        train = round(samples * (1 - test_share))
        data = ClientData(features, labels, classes, samples * np.arange(clients + 1), np.full(clients, train))
        model = MLR(8, classes)
        return Problem(data, model, model.start(streams.generator("model")), streams.draw("batches"))

    return make


class Ridge:
    """f(x) = mean (a·x − t)²/2 + |x|²/4 over samples a with targets t: quadratic, and strongly convex."""

    def __init__(self, features: int) -> None:
        self.parameters = features

    def start(self, generator: np.random.Generator) -> torch.Tensor:
        return torch.from_numpy(generator.normal(size=self.parameters))

    def gradient(self, x, features, labels):
        error = torch.einsum("sbf,sf->sb", features, x) - labels
        loss = error.square().mean(dim=1) / 2 + x.square().sum(dim=1) / 4
        return torch.einsum("sbf,sb->sf", features, error) / labels.shape[1] + x / 2, loss

    def scores(self, x, features):
        return (features @ x).unsqueeze(1)

    def flops(self, samples: int) -> float:
        return 4.0 * samples * self.parameters

    def smoothness(self, data: ClientData) -> float | None:
        return None


@dataclass(frozen=True)
class Quadratic(Problem):
    """Clients with f_i(x) = (x − b_i)ᵀA_i(x − b_i)/2 + constant."""

    curvature: np.ndarray  # A [n,d,d]
    least: np.ndarray  # b [n,d]


@pytest.fixture
def quadratic() -> Quadratic:
    """Clients of 4, 8 and 16 samples with different quadratic losses; a batch of 16 holds all of a client's samples."""
    generator = np.random.default_rng(7)
    counts, size = np.array([4, 8, 16]), 3
    first = np.concatenate([[0], np.cumsum(counts + 1)])
    features, targets = generator.normal(size=(first[-1], size)), generator.normal(size=first[-1])
    data = ClientData(torch.from_numpy(features), torch.from_numpy(targets), 2, first, counts)
    rows = [slice(a, a + n) for a, n in zip(first[:-1], counts, strict=True)]
    curvature = np.array([features[r].T @ features[r] / len(features[r]) + np.eye(size) / 2 for r in rows])
    least = [
        np.linalg.solve(h, features[r].T @ targets[r] / len(targets[r])) for h, r in zip(curvature, rows, strict=True)
    ]

    def draw(clients, visits, k):
        return np.tile((np.arange(16) + 0.5) / 16, (len(clients), k // 16))

    model = Ridge(size)
    return Quadratic(data, model, model.start(generator), draw, curvature, np.array(least))


@pytest.fixture
def contacts() -> Callable[..., list[Contact]]:
    """Random contacts of one or several clients, at a fixed progress or spread over a run."""

    def make(clients: int, visits: int, seed: int = 0, most: int = 4, progress: float | None = None) -> list[Contact]:
        generator = np.random.default_rng(seed)
        made = []
        for visit in range(visits):
            size = int(generator.integers(1, min(most, clients) + 1))
            who = np.sort(generator.choice(clients, size, replace=False))
            near = size + int(generator.integers(0, 4))
            visited = int(who[visit % size])
            made.append(Contact(who, near, visit / visits if progress is None else progress, visited, who))
        return made

    return make


@pytest.fixture
def contact() -> Callable[..., Contact]:
    def make(*clients: int, neighbourhood: int = 5, progress: float = 0.0) -> Contact:
        return Contact(np.array(clients, dtype=np.int64), neighbourhood, progress)

    return make


# --- independent computations ------------------------------------------------------------------------------------


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _scores(x: np.ndarray, features: np.ndarray, classes: int) -> np.ndarray:
    weights = x[: features.shape[1] * classes].reshape(classes, features.shape[1])
    return features @ weights.T + x[-classes:]


def _loss(x: np.ndarray, features: np.ndarray, labels: np.ndarray, classes: int) -> float:
    log_p = _log_softmax(_scores(x, features, classes))
    return float(np.mean([-row[label] for row, label in zip(log_p, labels, strict=True)]))


def _gradient(x: np.ndarray, features: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    error = np.exp(_log_softmax(_scores(x, features, classes))) - np.eye(classes)[labels]
    return np.concatenate([(error.T @ features).ravel(), error.sum(axis=0)]) / len(labels)


def _smoothness(data: ClientData) -> list[float]:
    found = []
    for first, count in zip(data.first[:-1], data.train_count, strict=True):
        x = data.features[first : first + count].double().numpy()
        x = np.hstack([x, np.ones((count, 1))])
        found.append(float(np.linalg.eigvalsh(x.T @ x / count)[-1]) / 2)
    return found


def _search(function: Callable, low: np.ndarray, high: np.ndarray, rounds: int = 100) -> np.ndarray:
    """Minimiser of a convex function of one variable, for many at once, by ternary search."""
    for _ in range(rounds):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        worse = function(left) > function(right)
        low, high = np.where(worse, left, low), np.where(worse, high, right)
    return (low + high) / 2


@pytest.fixture(scope="session")
def plain() -> SimpleNamespace:
    """Softmax regression and searches in numpy, one client at a time."""

    class Replay:
        """The gradients of an algorithm, from the batches of an identical twin."""

        def __init__(self, twin: Algorithm) -> None:
            self.twin = twin
            self.features = twin.data.features.double().numpy()
            self.labels = twin.data.labels.numpy()

        def batches(self, clients: np.ndarray) -> np.ndarray:
            return self.twin._batches(clients).numpy().swapaxes(0, 1)  # [S,steps,B]

        def gradient(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return _gradient(x, self.features[rows], self.labels[rows], self.twin.data.classes)

        def loss(self, x: np.ndarray, rows: np.ndarray) -> float:
            return _loss(x, self.features[rows], self.labels[rows], self.twin.data.classes)

    def train_loss(x: np.ndarray, data: ClientData, client: int) -> float:
        rows = slice(data.first[client], data.first[client] + data.train_count[client])
        return _loss(x, data.features[rows].double().numpy(), data.labels[rows].numpy(), data.classes)

    def test_accuracy(x: np.ndarray, data: ClientData, client: int) -> float:
        rows = slice(data.first[client] + data.train_count[client], data.first[client + 1])
        scores = _scores(x, data.features[rows].double().numpy(), data.classes)
        return float(np.mean(np.argmax(scores, axis=1) == data.labels[rows].numpy()))

    return SimpleNamespace(
        gradient=_gradient,
        loss=_loss,
        scores=_scores,
        smoothness=_smoothness,
        search=_search,
        Replay=Replay,
        train_loss=train_loss,
        test_accuracy=test_accuracy,
    )


@pytest.fixture(scope="session")
def state() -> Callable[[Algorithm], dict[str, Any]]:
    """Function that copies the complete state of an algorithm, including its reference."""

    def copy(algorithm: Algorithm) -> dict[str, Any]:
        found = {}
        for name, value in vars(algorithm).items():
            if isinstance(value, torch.Tensor):
                found[name] = value.clone().numpy()
            elif isinstance(value, np.ndarray):
                found[name] = value.copy()
            elif isinstance(value, int | float):
                found[name] = value
            elif isinstance(value, Algorithm):
                found |= {f"{name}.{key}": part for key, part in copy(value).items()}
            elif isinstance(value, Neighbours):
                found[name] = repr(vars(value))
        return found

    return copy
