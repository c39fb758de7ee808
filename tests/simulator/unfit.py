"""Parts of a user that can be made not to fit, and how they are run."""

from __future__ import annotations

from collections.abc import Callable

PARTS = """
import numpy as np
import torch
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.logistic import MLR
from fedmule.learning.data.samples import Samples


def samples(clients, generator, change=""):
    n = 20 * clients
    made = {"features": generator.normal(size=(n, 5)), "labels": generator.integers(0, 3, n), "classes": 3}
    made |= {"owner": np.repeat(np.arange(clients), 20), "shape": ()}
    exec(change, {"np": np}, made)
    return Samples(**made)


def shared_out(clients, generator, change=""):
    n = 20 * clients
    made = {"features": torch.randn(n, 5), "labels": torch.randint(0, 3, (n,)), "classes": 3}
    made |= {"first": 20 * np.arange(clients + 1), "train_count": np.full(clients, 15)}
    made |= {"validation_count": None, "shape": ()}
    exec(change, {"np": np, "torch": torch}, made)
    return ClientData(**made)


def no_samples(clients, generator):
    return [1, 2, 3]


def shares(samples, clients, generator, change=""):
    made = {"rows": np.array_split(np.arange(len(samples.labels)), clients)}
    exec(change, {"np": np}, made)
    return made["rows"]


class Net(torch.nn.Module):
    def __init__(self, features, classes, made="torch.nn.Linear(features, classes)", result="y", change=""):
        super().__init__()
        names = {"torch": torch, "features": features, "classes": classes}
        self.layers, self.result = eval(made, names), result
        exec(change, names | {"self": self})

    def forward(self, x):
        return eval(self.result, {"y": self.layers(x), "x": x})


class Own(MLR):
    def __init__(self, features, classes, wider=0, more_classes=0, start="x"):
        super().__init__(features + wider, classes + more_classes)
        self.first = start

    def start(self, generator):
        return eval(self.first, {"x": super().start(generator)})


class Untold(MLR):
    def __init__(self, features, classes, penalty=0.0):
        super().__init__(features, classes)
        self.penalty = penalty

    def gradient(self, x, features, labels):
        g, loss = super().gradient(x, features, labels)
        return g + self.penalty * x, loss


class NoModel:
    def __init__(self, features, classes):
        self.parameters = 3
"""

RUN = ["run", "smoke", "--allow-plugins", "--quiet", "--out", "run"]
FEW = ["clients.count=5", "clients.mobility=static", "stop.visits=3"]

Run = Callable[..., str]


def own(kind: str, change: str = "") -> str:
    return f"learning.{kind}, change = '''{change}''' }}"
